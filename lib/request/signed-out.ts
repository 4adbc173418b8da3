/** Why a request is anonymous, for pages of the application. */
import type { Refusal } from '../refusal.ts'
import { isWithoutToken } from './extract.ts'

/** The request has no token, its token was refused, or the session of its token has ended. */
export type SignedOut = 'absent' | 'expired' | 'ended'

/** The result of a guard that has tried to renew a request without success. */
export interface NotRenewed {
  /** For the setting `debug`. */
  readonly reason: string
  /** The reason if the refresh token was refused; undefined if the guard did not try one. */
  readonly signedOut: Exclude<SignedOut, 'absent'> | undefined
}

/** @param notRenewed undefined where no guard has tried */
export function signedOutBy (refusal: Refusal, notRenewed: NotRenewed | undefined): SignedOut {
  if (refusal.answer.name === 'SessionEnded') return 'ended'
  return notRenewed?.signedOut ?? (isWithoutToken(refusal) ? 'absent' : 'expired')
}
