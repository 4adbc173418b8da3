/** Tokens of trusted issuers: which issuer a token names, and whether a token is one of its tokens for this service. */
import type { FoundKey } from '../keys/issuer-keys.ts'
import type { IssuerEntry } from '../keys/issuer-options.ts'
import type { Life } from '../keys/life.ts'
import type { Key } from '../keys/material.ts'
import type { TrustedIssuer, TrustedIssuers } from '../keys/trusted-issuer.ts'
import { invalidToken, Refusal } from '../refusal.ts'
import type { MaybePromise } from '../../types/handlers.ts'
import { invalidClaim } from './claims.ts'
import { decoderOf, withoutStackTraces, type Decoder, type VerifiedToken } from './codec.ts'
import { isAccessToken } from './form.ts'
import type { HeaderHint } from './header-hint.ts'

/** A token of a key that may be removed. */
export interface RingToken extends VerifiedToken {
  readonly life: Life
}

/** The refusal of a token of a trusted issuer where only own tokens are of use. */
export const notOwn = invalidToken('it is the token of a trusted issuer, and only a token of this instance is of use here')
const wrongIssuer = invalidClaim('iss', 'the claim "iss" is missing or names another issuer')
const wrongType = invalidToken('its "typ" is not "at+jwt"')

/** Finds the issuer that a token names. Nothing is known of the token yet: this only chooses among the trusted issuers. */
export function issuerOf (token: string, [first, second]: readonly [number, number], issuers: TrustedIssuers): TrustedIssuer | undefined {
  try {
    const payload: unknown = withoutStackTraces(() => JSON.parse(Buffer.from(token.slice(first + 1, second), 'base64url').toString()))
    const iss: unknown = typeof payload === 'object' && payload !== null && Object.hasOwn(payload, 'iss') ? Reflect.get(payload, 'iss') : undefined
    return typeof iss === 'string' ? issuers.get(iss) : undefined
  } catch {
    return undefined
  }
}

/** By their keys, each of which is one key for one algorithm. */
const decoders = new WeakMap<Key, Decoder>()

function decoderFor (alg: string, { algorithms }: IssuerEntry, key: Key): Decoder {
  // The key was found for this algorithm.
  const decoder = decoders.get(key) ?? decoderOf(algorithms.get(alg)!, key, true)
  decoders.set(key, decoder)
  return decoder
}

/** Checks what never changes for a token, so that it is decided once for a token that is remembered. */
function checkParties ({ payload, registered }: VerifiedToken, { typ }: HeaderHint, { rules, audiences, audienceName, typ: requiredTyp }: IssuerEntry): Refusal | undefined {
  // Again, because what chose the issuer was not verified.
  if (registered.iss !== rules.issuer) return wrongIssuer
  if (requiredTyp !== undefined && !isAccessToken(typ)) return wrongType
  if (audiences === undefined) return undefined
  const claim: unknown = Object.hasOwn(payload, audienceName) ? payload[audienceName] : undefined
  const list: readonly unknown[] = Array.isArray(claim) ? claim : [claim]
  if (list.some((audience) => typeof audience === 'string' && audiences.has(audience))) return undefined
  return invalidClaim(audienceName, `the claim "${audienceName}" is missing or names another audience`)
}

function decode (token: string, [first, second]: readonly [number, number], hint: HeaderHint, { entry }: TrustedIssuer, found: FoundKey | Refusal): RingToken | Refusal {
  if (found instanceof Refusal) return found
  const verified = decoderFor(hint.alg, entry, found.key)(token, first, second)
  if (verified instanceof Refusal) return verified
  return checkParties(verified, hint, entry) ?? { ...verified, issuer: entry.rules, life: found.life }
}

/**
 * Verifies a token with the keys of the issuer that it names, and with no others.
 * @returns a promise only where these have to be read first; it never rejects
 */
export function verifyFrom (issuer: TrustedIssuer, token: string, dots: readonly [number, number], hint: HeaderHint): MaybePromise<RingToken | Refusal> {
  const found = issuer.find(hint.alg, hint.kid)
  return found instanceof Promise ? found.then((settled) => decode(token, dots, hint, issuer, settled)) : decode(token, dots, hint, issuer, found)
}
