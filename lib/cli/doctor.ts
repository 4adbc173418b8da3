/** `fastify-token-auth doctor`: what a reviewer would check in an application, one line each. */
import { setImmediate } from 'node:timers/promises'
import { isHmac } from '../algorithms.ts'
import type { Registration } from '../registration.ts'
import { undecidedIn } from '../routes/report.ts'
import { lookAt, type Inspected } from './application.ts'
import type { Outcome } from './outcome.ts'
import { memberOf } from '../values.ts'

/** One line of the report. */
export interface Remark {
  /** An error must be fixed, a warning should be checked, and a note is for information. */
  readonly severity: 'error' | 'warning' | 'note'
  /** The subject: the code of a finding, or one word. */
  readonly subject: string
  /** The name of the instance; null where it is about the application. */
  readonly instance: string | null
  readonly text: string
}

type Statement = Pick<Remark, 'severity' | 'subject' | 'text'>

const note = (subject: string, text: string): Statement => ({ severity: 'note', subject, text })
const warning = (subject: string, text: string): Statement => ({ severity: 'warning', subject, text })
const problem = (subject: string, text: string): Statement => ({ severity: 'error', subject, text })

function keysOf ({ settings: { authMode, algorithm }, keys }: Registration): Statement[] {
  const { keys: ring, issuers } = keys.status()
  const remarks = ring.map(({ kid, algorithm: of, state, verifyUntil }) =>
    note('keys', `The key ${kid} for ${of} is ${state}${verifyUntil === null ? '' : `, and verifies until ${verifyUntil}`}.`)
  )
  for (const { issuer, keys: count, failedAt } of issuers) {
    if (failedAt !== null) {
      remarks.push(problem('issuers', `The keys of the issuer ${issuer} could not be read. Check its address and the network.`))
    } else if (count === 0) {
      remarks.push(problem('issuers', `The issuer ${issuer} has no key for its "algorithms".`))
    } else {
      remarks.push(note('issuers', `The keys of the issuer ${issuer} were read: ${count}.`))
    }
  }
  if (ring.length > 0 || (issuers.length > 0 && !authMode)) return remarks
  const material = isHmac(algorithm) ? 'a secret' : 'a pair of keys'
  return [
    note(
      'keys',
      `Uses ${algorithm} with ${material}. To change it without logging users out, use the option "keys".`
    ),
    ...remarks
  ]
}

/** In seconds. A longer "expirationDelta" is a warning if tokens cannot be ended earlier. */
const day = 86_400

function lifetimesOf ({ settings: { authMode, verifyExp, expirationDelta, leeway }, feed }: Registration): Statement[] {
  if (!authMode || !verifyExp) return []
  const text = `Access tokens are accepted for ${expirationDelta + leeway} seconds ("expirationDelta" and "leeway").`
  const isLong = expirationDelta > day && feed === undefined
  return [
    isLong
      ? warning('lifetimes', `${text} They cannot be ended earlier. Reduce "expirationDelta", or set "sessions".`)
      : note('lifetimes', text)
  ]
}

function cookiesOf ({ settings, sessions }: Registration): Statement[] {
  const { cookieSet, cookieSecure, cookieHttponly, cookieSamesite, cookieMaxAge, cookieSplit } = settings
  if (!cookieSet) return []
  const attributes = [
    cookieSecure && 'Secure',
    cookieHttponly && 'HttpOnly',
    `SameSite=${cookieSamesite}`,
    cookieMaxAge !== null && `Max-Age=${cookieMaxAge}`
  ].filter(Boolean)
  const text = `Cookies have ${attributes.join(', ')}${cookieSplit ? ', and the access token is split' : ''}.`
  const isShort = cookieMaxAge === null && sessions !== undefined
  return [
    isShort
      ? warning('cookies', `${text} Without "cookieMaxAge", browsers delete them when they are closed, however long the session lasts.`)
      : note('cookies', text)
  ]
}

function storeOf ({ settings: { authMode }, feed }: Registration): Statement[] {
  if (feed === undefined) return authMode ? [note('store', 'Without "sessions", there is no logout that ends access tokens.')] : []
  if (!feed.wasRead()) return [problem('store', 'The session store could not be read. Check its address and the network.')]
  return [
    note('store', feed.isMemory ? 'Sessions are kept in the memory of this process, and end with it.' : 'The session store was read.')
  ]
}

/** Left out of the findings: `remarksOn` has a line for each of these routes. */
const codeOfOpenRoutes = 'TOKEN_AUTH_W26'

/** Converts warnings of the plugin to remarks. */
function findingsOf (warnings: readonly Error[]): Remark[] {
  return warnings.map((found) => {
    const [instance = '', ...text] = found.message.split(': ')
    return { ...warning(String(memberOf(found, 'code')), text.join(': ')), instance }
  }).filter(({ subject }) => subject !== codeOfOpenRoutes)
}

function remarksOn ({ rows, registrations, pairs }: Inspected): Remark[] {
  const open = undecidedIn(rows).map(({ method, url }): Remark => ({
    ...problem(
      'routes',
      `The route ${method} ${url} has neither a guard nor an exemption. Add a guard, or state in "config.tokenAuth" why it needs none.`
    ),
    instance: null
  }))
  const ofInstances = registrations.flatMap((registration) =>
    [keysOf, lifetimesOf, cookiesOf, storeOf]
      .flatMap((look) => look(registration))
      .map((remark): Remark => ({ ...remark, instance: registration.settings.instanceName }))
  )
  const ofPairs = pairs.map(([one, other]): Remark => ({
    ...note(
      'instances',
      `Issues access tokens that "${other}" accepts, and accepts those of "${other}": both have the same key, issuer and audience. If their users differ, give them different keys, or "claimAud".`
    ),
    instance: one
  }))
  return [...open, ...ofInstances, ...ofPairs]
}

/** Runs a function, and returns its result and the warnings of this package that were emitted meanwhile. */
async function withWarnings<Result> (run: () => Promise<Result>): Promise<{ result: Result, warnings: Error[] }> {
  const warnings: Error[] = []
  const listener = (found: Error) => { if (found.name === 'TokenAuthWarning') warnings.push(found) }
  process.on('warning', listener)
  try {
    const result = await run()
    // Warnings are emitted in the next tick.
    await setImmediate()
    return { result, warnings }
  } finally {
    process.off('warning', listener)
  }
}

const lineOf = ({ severity, subject, instance, text }: Remark) =>
  `${severity.padEnd(7)}  ${instance === null ? '' : `${instance}: `}${text.replace(/\s+/g, ' ')} (${subject})\n`

/** @param path of the module that exports the application */
export async function doctor (path: string, isJson: boolean): Promise<Outcome> {
  const { result: seen, warnings } = await withWarnings(() => lookAt(path, remarksOn))
  const remarks = 'fault' in seen ? [{ ...problem('start', seen.fault), instance: null }] : seen.result
  const isProduction = process.env.NODE_ENV === 'production'
  const environment = note(
    'environment',
    `NODE_ENV is ${isProduction ? 'production' : 'not production. Set it to see the findings of production'}.`
  )
  const all: Remark[] = [...remarks, ...findingsOf(warnings), { ...environment, instance: null }]
  const of = (wanted: Remark['severity']) => all.filter(({ severity }) => severity === wanted)
  const [errors, warned, notes] = [of('error'), of('warning'), of('note')]
  const sorted = [...errors, ...warned, ...notes]
  const stdout = isJson ? `${JSON.stringify(sorted, null, 2)}\n` : sorted.map(lineOf).join('')
  return { code: errors.length > 0 ? 2 : warned.length > 0 ? 1 : 0, stdout, stderr: '' }
}
