/** What registrations of one process do to each other: instances of one key, and instances that use the same cookies. */
import type { FastifyInstance } from 'fastify'
import { cookieNames } from './http/cookies.ts'
import type { SessionFeed } from '../types/sessions.ts'
import type { Resolved } from './settings/configuration.ts'
import { bindingSettings, type Settings } from './settings/schema.ts'
import { warn } from './warnings.ts'

/** An instance of an open application. */
interface OpenInstance {
  readonly resolved: Resolved
  /** The HTTP server of the application. */
  readonly server: object
  /** The fingerprints of the keys that verify its access tokens. */
  readonly fingerprints: readonly string[]
  /** Undefined without sessions. */
  readonly store: SessionFeed | undefined
}

const open = new Set<OpenInstance>()

/** The value of a setting; undefined if a getter computes it. */
const fixed = <Name extends keyof Settings>({ resolved: { settings, getters } }: OpenInstance, name: Name) =>
  getters.has(name) ? undefined : settings[name]

const shareKey = (one: OpenInstance, other: OpenInstance) =>
  one.fingerprints.some((fingerprint) => other.fingerprints.includes(fingerprint))

/** Whether each of two instances would accept access tokens of the other. */
const acceptEachOther = (one: OpenInstance, other: OpenInstance) =>
  shareKey(one, other) &&
  bindingSettings.every((name) => {
    const [first, second] = [fixed(one, name), fixed(other, name)]
    return first === undefined || second === undefined || first === second
  })

const issuesTokens = ({ resolved: { settings } }: OpenInstance) => settings.authMode

/** Whether a request can be below both paths, so that a browser sends the cookies of both. */
function arePathsNested (one: string, other: string): boolean {
  const [short, long] = one.length < other.length ? [one, other] : [other, one]
  return `${long}/`.startsWith(short.endsWith('/') ? short : `${short}/`)
}

/** Whether a host can be in both domains. An empty domain is that of any host that serves the application. */
function areDomainsNested (one: string, other: string): boolean {
  const [short, long] = one.length < other.length ? [one, other] : [other, one]
  return short === '' || `.${long}`.toLowerCase().endsWith(`.${short}`.toLowerCase())
}

/** The names of the cookies that a login sets. */
const namesOf = (settings: Settings) =>
  cookieNames(settings).filter((name) => settings.refreshTokenEnabled || name !== settings.cookieRefreshTokenName)

/** Returns the cookies that a login at one of two instances takes from the other; none if a getter computes where they are. */
function sharedCookies (one: OpenInstance, other: OpenInstance): string[] {
  const [first, second] = [one, other].map(({ resolved: { settings, getters } }) =>
    settings.cookieSet || getters.has('cookieSet') ? settings : undefined
  )
  if (first === undefined || second === undefined) return []
  const isComputed = ([
    'cookiePath', 'cookieDomain', 'cookieAccessTokenName', 'cookieRefreshTokenName', 'cookieSplitSignatureName'
  ] as const).some((name) => fixed(one, name) === undefined || fixed(other, name) === undefined)
  if (isComputed || !arePathsNested(first.cookiePath, second.cookiePath)) return []
  if (!areDomainsNested(first.cookieDomain, second.cookieDomain)) return []
  const names = namesOf(second)
  return namesOf(first).filter((name) => names.includes(name))
}

/**
 * Records an instance until its application closes, and warns of what it does to the open ones.
 * @param fingerprints the fingerprints of the keys that verify access tokens; empty if a getter computes a key
 * @param store undefined without sessions
 */
export function noteInstance (
  fastify: FastifyInstance,
  fingerprints: readonly string[],
  store: SessionFeed | undefined,
  resolved: Resolved
): void {
  if (fingerprints.length === 0) return
  const own: OpenInstance = { resolved, server: fastify.server, fingerprints, store }
  const { instanceName } = resolved.settings
  if ([...open].some((other) => other.store !== store && acceptEachOther(own, other))) warn('W22', instanceName)
  for (const other of open) {
    const isRival = other.server === own.server && issuesTokens(own) && issuesTokens(other) && !shareKey(own, other)
    const [cookie] = isRival ? sharedCookies(own, other) : []
    if (cookie !== undefined) warn('W42', instanceName, ` The other instance is "${other.resolved.settings.instanceName}", and the cookie is "${cookie}".`)
  }
  open.add(own)
  fastify.addHook('onClose', async () => {
    open.delete(own)
  })
}

/** Returns the names of the instances of an application that issue access tokens which the other one accepts, in pairs. */
export function instancesOfOneKey (server: object): Array<readonly [string, string]> {
  const issuing = [...open].filter((instance) => instance.server === server && issuesTokens(instance))
  return issuing.flatMap((one, index) =>
    issuing.slice(index + 1).filter((other) => acceptEachOther(one, other))
      .map((other) => [one.resolved.settings.instanceName, other.resolved.settings.instanceName] as const)
  )
}
