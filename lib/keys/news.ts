/** Reports on keys while an application runs: an event, and one log line for each change of state. */
import type { KeyEvent } from '../../types/events.ts'
import { publishKeys } from '../events.ts'

/** An event of the keys of an instance. */
export interface KeyNews {
  readonly type: Extract<KeyEvent['type'], 'switched' | 'reloaded' | 'reload-failed' | 'late'>
  readonly kid?: string
  /** Why a reload failed. */
  readonly error?: unknown
  /** Whether a new key is a secret that can be guessed. */
  readonly isWeak?: boolean
  /** Advice on characters that probably do not belong to a new secret. */
  readonly residue?: string | undefined
  /** The ids of the keys that a reload has removed before their `verifyUntil`: all of their tokens are refused from now on. */
  readonly removed?: readonly string[]
  /** Whether the state differs from the last report, so that it is logged. */
  readonly isNew: boolean
}

/** An event of the keys of a trusted issuer. */
export interface IssuerNews {
  readonly type: Extract<KeyEvent['type'], 'issuer-failed' | 'issuer-recovered' | 'unknown-kid'> | 'no-key' | 'left-out'
  readonly issuer: string
  /** How many keys without `kid` of its set are not used. */
  readonly leftOut?: number
  /** Why its keys could not be read. */
  readonly error?: unknown
}

/** The methods of the application's logger that are used. */
export interface KeyLog {
  info (message: string): void
  warn (message: string): void
  warn (details: object, message: string): void
  error (details: object, message: string): void
}

/** Returns a function that logs and publishes events of the keys of an instance. */
export function logKeyNews (log: KeyLog, instanceName: string): (news: KeyNews) => void {
  const late = 'signs before other processes, and services that cache published keys, may have read it. Add keys with a later "signFrom".'
  return ({ type, kid, error, removed = [], isNew }) => {
    if (type === 'switched') log.info(`${instanceName}: the key ${kid} signs from now on.`)
    const refused = removed.length === 0 ? '' : ` All tokens of these keys are refused from now on: ${removed.join(', ')}.`
    if (type === 'reloaded') log.info(`${instanceName}: the keys were reloaded.${refused}`)
    if (type === 'late') log.warn(`${instanceName}: the key ${kid} ${late}`)
    if (type === 'reload-failed' && isNew) {
      log.error({ err: error }, `${instanceName}: the keys could not be reloaded. The previous keys stay in use.`)
    }
    publishKeys({ instanceName, type, ...(kid !== undefined && { kid }) })
  }
}

/** As {@link logKeyNews}, for trusted issuers. */
export function logIssuerNews (log: KeyLog, instanceName: string): (news: IssuerNews) => void {
  const failed = 'could not be read. The previous keys stay valid for "staleIfError" seconds. Without valid keys, requests with its tokens get 503.'
  const without = 'is for the algorithms of its entry in "issuers", so all of its tokens are refused. Set "algorithms" to the algorithms with which it signs.'
  return ({ type, issuer, error, leftOut }) => {
    if (type === 'issuer-failed') log.warn({ err: error }, `${instanceName}: the keys of the issuer ${issuer} ${failed}`)
    if (type === 'issuer-recovered') log.info(`${instanceName}: the keys of the issuer ${issuer} could be read again.`)
    if (type === 'no-key') {
      log.warn(`${instanceName}: no key of the issuer ${issuer} ${without}`)
    } else if (type === 'left-out') {
      log.warn(`${instanceName}: the set of the issuer ${issuer} has more than 100 keys without "kid". ${leftOut} of them are not used.`)
    } else {
      publishKeys({ instanceName, type, issuer })
    }
  }
}
