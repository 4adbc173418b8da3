/** The report of an attack. */
import type { Trap } from './listener.ts'
import { causes, type Variant } from './variants.ts'

/** The result of a hostile request. */
export interface AttackRow {
  /** What was sent. The names stay the same, so that `allowed` can list them. */
  readonly name: string
  /** The status of the response; 0 if there was none within 10 seconds. */
  readonly statusCode: number
  /**
   * `let in` for a status of 2xx, or the page with which a form with the token is answered (303), `error` for 5xx and for no response, `fetched` where the guard fetched an address that the token names, and
   * `refused` for everything else.
   */
  readonly outcome: 'refused' | 'let in' | 'error' | 'fetched'
  /** The header `WWW-Authenticate` of the response, without tokens; null where there is none. */
  readonly challenge: string | null
  /** Why the request is not a finding if it is let in. */
  readonly note?: string
}

/** The result of `attack()`. `String(report)` lists what was found, one line each. It contains no tokens. */
export interface AttackReport {
  /** Each hostile request that was sent. */
  readonly rows: readonly AttackRow[]
  /** The requests that were not refused, without those that are allowed or have a note. */
  readonly found: readonly AttackRow[]
  /** Lists the findings: what was sent, what came back, what is wrong. */
  toString (): string
}

/** The parts of a response that a report needs. */
export interface AttackResponse {
  readonly statusCode: number
  readonly headers: Readonly<Record<string, unknown>>
}

/** The status of a request that was not answered in time. */
export const unanswered = 0

/** Whether a response is that to a request which is let in. @param page where a form leads that is let in; undefined for other requests */
export function isLetIn ({ statusCode, headers }: AttackResponse, page: unknown): boolean {
  return (statusCode >= 200 && statusCode < 300) || (statusCode === 303 && page !== undefined && headers.location === page)
}

function outcomeOf (response: AttackResponse, page: unknown, wasFetched: boolean): AttackRow['outcome'] {
  const { statusCode } = response
  if (isLetIn(response, page)) return 'let in'
  if (wasFetched) return 'fetched'
  return statusCode >= 500 || statusCode === unanswered ? 'error' : 'refused'
}

/** Removes tokens, whole or in parts, which a guard may repeat in its challenge. Headers and payloads are JSON, and begin with `eyJ`. */
function withoutTokens (challenge: string, tokens: readonly string[]): string {
  const segments = tokens.flatMap((token) => token.split('.')).filter(({ length }) => length >= 16)
  // Matches each run of characters once, so that the time grows only with the length.
  const text = challenge.replace(/[\w-]+(?:\.[\w-]*)*/g, (run) => {
    const isToken = run.split('.').slice(0, -1).some(({ length }) => length >= 16)
    return isToken ? '<token>' : run.replace(/eyJ[\w-]{8,}/g, '<token>')
  })
  return segments.reduce((rest, segment) => rest.replaceAll(segment, '<token>'), text)
}

/**
 * @param accepted the token that the route accepts
 * @param fetched the traps of the listener that were requested
 * @param page as for {@link isLetIn}
 */
export function rowOf (
  { name, note, trap, token = '' }: Variant,
  response: AttackResponse,
  accepted: string,
  fetched: ReadonlySet<Trap>,
  page?: unknown
): AttackRow {
  const { statusCode, headers } = response
  const challenge = headers['www-authenticate']
  return {
    name,
    statusCode,
    outcome: outcomeOf(response, page, trap !== undefined && fetched.has(trap)),
    challenge: challenge === undefined ? null : withoutTokens(String(challenge), [accepted, token]),
    ...(note !== undefined && { note })
  }
}

const faults = {
  error: 'The guard fails where it must refuse.',
  fetched: 'The guard fetches an address that a token names, before the token is verified.'
}

type Sent = readonly [Variant, AttackRow]

/** Whether the cause of a finding is known. If the route requires no token, only for tokens, and only if a random signature is refused. */
function explains (sent: readonly Sent[]): (variant: Variant) => boolean {
  const letsIn = (wanted: string) => sent.some(([, { name, outcome }]) => name === wanted && outcome === 'let in')
  if (!letsIn('no token')) return () => true
  const isOpen = letsIn('a random signature')
  return ({ name, token }) => name === 'no token' || (token !== undefined && !isOpen)
}

const order: readonly string[] = Object.values(causes)
const rankOf = (cause: string) => order.includes(cause) ? order.indexOf(cause) : order.length

/** @param target the method and path of the route */
export function reportOf (target: string, sent: readonly Sent[], allowed: readonly string[]): AttackReport {
  const isFound = ({ name, outcome, note }: AttackRow) =>
    outcome !== 'refused' && !allowed.includes(name) && !(outcome === 'let in' && note !== undefined)
  const findings = sent.filter(([, row]) => isFound(row))
  const isExplained = explains(sent)
  /** Returns nothing if the cause is not known: the report then begins with why. */
  const faultOf = (variant: Variant, { outcome, statusCode }: AttackRow) => {
    if (statusCode === unanswered) return 'The route does not respond within 10 seconds.'
    if (outcome === 'error' || outcome === 'fetched') return faults[outcome]
    if (!isExplained(variant)) return ''
    // If a random signature is let in, later causes say nothing about keys.
    return isUnverified && order.indexOf(variant.wrong) > order.indexOf(causes.unverified) ? causes.unverified : variant.wrong
  }
  const isUnverified = findings.some(([{ name }, { outcome }]) => name === 'a random signature' && outcome === 'let in')
  const line = ([variant, row]: Sent) => {
    const fault = faultOf(variant, row)
    return {
      rank: rankOf(fault),
      text: `- ${row.name}: ${row.statusCode === unanswered ? 'no response' : row.statusCode}, ${row.outcome}. ${fault}`.trimEnd()
    }
  }
  const isOpen = findings.some(([variant, { outcome }]) => outcome === 'let in' && !isExplained(variant))
  const text = [
    `${target}: ${sent.length} hostile requests, ${findings.length} of them not refused${findings.length === 0 ? '.' : ':'}`,
    ...(isOpen
      ? [
          'The route lets in requests without a token. If it is public or its guard is optional, list these requests in "allowed", or attack a route that requires a token.'
        ]
      : []),
    ...findings
      .map(line)
      .sort((one, other) => one.rank - other.rank)
      .map(({ text }) => text)
  ].join('\n')
  const report = { rows: sent.map(([, row]) => row), found: findings.map(([, row]) => row) }
  // Not enumerable, so that a comparison or print of the report shows only its rows.
  return Object.defineProperty(report, 'toString', { value: () => text })
}
