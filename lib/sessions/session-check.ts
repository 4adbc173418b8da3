/** Checks access tokens that belong to sessions: refuses those of ended sessions, and confirms that clients have received the others. */
import type { Credential } from '../authorities/authority.ts'
import { SessionStoreUnavailable } from '../errors.ts'
import { Refusal } from '../refusal.ts'
import type { SessionCheck } from '../request/checks.ts'
import { invalidClaim } from '../token/claims.ts'
import { isSessionId } from './refresh-token.ts'
import { createReason, type EndedSessions } from './revocation.ts'

const ended = new Refusal(createReason)
const stale = new Refusal(() => new SessionStoreUnavailable())
const malformed = invalidClaim('sid', 'the claim "sid" is not a session id')

/**
 * Prepares the check of access tokens.
 * @param refuseAfter seconds without a successful read after which tokens of sessions are refused with 503; null: never
 * @param userOf returns the user of a payload in the form that the store gets
 */
export function prepareSessionCheck (
  sessions: EndedSessions,
  refuseAfter: number | null,
  userOf: (payload: Credential['payload']) => string
): SessionCheck {
  const { confirmations } = sessions
  return (verified, isRenewed) => {
    const { payload } = verified
    // A token without a session stays valid until it expires.
    if (!Object.hasOwn(payload, 'sid')) return undefined
    const { sid } = payload
    if (!isSessionId(sid)) return malformed
    if (sessions.has(sid) || sessions.hasOf(sid, () => userOf(payload))) return ended
    if (refuseAfter !== null && sessions.isOlderThan(refuseAfter)) return stale
    if (verified.processedBy !== confirmations && !isRenewed) confirmations.receive(verified, sid, userOf)
    return undefined
  }
}
