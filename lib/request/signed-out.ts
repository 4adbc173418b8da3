/** Why nobody is logged in, as pages say it. */
import type { Refusal } from '../refusal.ts'
import { isWithoutToken } from './extract.ts'

/** No token came, one came that was refused, or its session has ended. */
export type SignedOut = 'absent' | 'expired' | 'ended'

/** That a guard has tried to renew a request, without success. */
export interface NotRenewed {
  /** For the setting `debug`. */
  readonly reason: string
  /** What a refused refresh token says; undefined where none was tried. */
  readonly signedOut: Exclude<SignedOut, 'absent'> | undefined
}

/** @param notRenewed undefined where no guard has tried */
export function signedOutBy (refusal: Refusal, notRenewed: NotRenewed | undefined): SignedOut {
  if (refusal.answer.name === 'SessionEnded') return 'ended'
  return notRenewed?.signedOut ?? (isWithoutToken(refusal) ? 'absent' : 'expired')
}
