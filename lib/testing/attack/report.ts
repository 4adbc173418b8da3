/** What an attack found. */
import type { Variant } from './variants.ts'

/** What became of a hostile request. */
export interface AttackRow {
  /** What was sent. The names stay the same, so that `allowed` can list them. */
  readonly name: string
  /** The status of the response. */
  readonly statusCode: number
  /**
   * `let in` for a status of 2xx, `error` for 5xx, `fetched` where the guard fetched an address that the token names, and
   * `refused` for everything else.
   */
  readonly outcome: 'refused' | 'let in' | 'error' | 'fetched'
  /** The header `WWW-Authenticate` of the response, without tokens; null where there is none. */
  readonly challenge: string | null
  /** Why it is no finding if this request is let in. */
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

/** What came back, as far as it matters. */
export interface AttackResponse {
  readonly statusCode: number
  readonly headers: Readonly<Record<string, unknown>>
}

function outcomeOf (statusCode: number, wasFetched: boolean): AttackRow['outcome'] {
  if (statusCode >= 200 && statusCode < 300) return 'let in'
  if (wasFetched) return 'fetched'
  return statusCode >= 500 ? 'error' : 'refused'
}

/** @param fetched the paths of the listener that were requested */
export function rowOf ({ name, note, trap }: Variant, { statusCode, headers }: AttackResponse, fetched: ReadonlySet<string>): AttackRow {
  const challenge = headers['www-authenticate']
  return {
    name,
    statusCode,
    // Discovery documents are fetched below the issuer.
    outcome: outcomeOf(statusCode, trap !== undefined && [...fetched].some((path) => path.startsWith(trap))),
    // A guard may repeat what it refuses.
    challenge: challenge === undefined ? null : String(challenge).replace(/[\w-]{16,}\.[\w-]*\.?[\w-]*/g, '<token>'),
    ...note !== undefined && { note }
  }
}

const faults = {
  error: 'The guard fails where it must refuse.',
  fetched: 'The guard fetches an address that a token names, before the token is verified.'
}

/** @param target the method and path of the route */
export function reportOf (target: string, sent: readonly (readonly [Variant, AttackRow])[], allowed: readonly string[]): AttackReport {
  const isFound = ({ name, outcome, note }: AttackRow) => outcome !== 'refused' && !allowed.includes(name) && !(outcome === 'let in' && note !== undefined)
  const findings = sent.filter(([, row]) => isFound(row))
  const line = ([{ wrong }, { name, statusCode, outcome }]: readonly [Variant, AttackRow]) => `- ${name}: ${statusCode}, ${outcome}. ${outcome === 'let in' || outcome === 'refused' ? wrong : faults[outcome]}`
  const text = [`${target}: ${sent.length} hostile requests, ${findings.length} of them not refused${findings.length === 0 ? '.' : ':'}`, ...findings.map(line)].join('\n')
  const report = { rows: sent.map(([, row]) => row), found: findings.map(([, row]) => row) }
  // Not enumerable: a comparison or a print of the report shows its rows.
  return Object.defineProperty(report, 'toString', { value: () => text })
}
