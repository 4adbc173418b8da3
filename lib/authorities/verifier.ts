/** Verifies tokens. {@link createVerifier} contains the checks in their order. */
import { isAlive, isConfigured } from '../keys/life.ts'
import { invalidToken, Refusal, type Verdict } from '../refusal.ts'
import type { MaybePromise } from '../../types/handlers.ts'
import { readRegistered } from '../token/claims.ts'
import { decoderOf, readSigned } from '../token/codec.ts'
import { detached, findDots, type Dots, type Header } from '../token/form.ts'
import { notOwn, type Credential, type Purpose } from './authority.ts'
import { KeptHeaders } from './headers.ts'
import { badHeader, type KeyFinder, type KeyFinders, type UsableKey } from './key-finder.ts'
import { TokenMemory } from './memory.ts'

/**
 * Verifies the form and signature of a token, and its properties that never change. Never throws or rejects.
 * @param signedBy the fingerprint of the key with which this process has just signed this token. Its signature is not verified
 * again if that key is valid. Undefined for any other token
 * @returns the credential, or the refusal; a promise only if the keys of its authority have to be read first
 */
export type TokenVerifier = (token: string, purpose?: Purpose, signedBy?: string) => MaybePromise<Verdict<Credential>>

const badForm = invalidToken('it is not three segments of base64url')
const padded = invalidToken('its base64url has padding, the character "=", which RFC 7515 section 2 forbids')

const tooLong = (longest: number) => invalidToken(`it has more than ${longest} characters`)

/** Returns the refusal of a token that is not well-formed. */
function formFault (token: string, longest: number): Refusal {
  if (token.length > longest) return tooLong(longest)
  return token.includes('=') ? padded : badForm
}

/** Freezes a payload with all lists and objects in it, so that no request changes what another one reads. */
function frozen (payload: Credential['payload']): Credential['payload'] {
  const containers: object[] = [payload]
  for (const container of containers) {
    Object.freeze(container)
    for (const member of Object.values(container)) if (typeof member === 'object' && member !== null) containers.push(member)
  }
  return payload
}

/** Verifies a token with the keys that may have signed it. @param signedBy as in {@link TokenVerifier} */
function decode (
  token: string,
  dots: Dots,
  header: Header,
  finder: KeyFinder,
  keys: readonly UsableKey[],
  signedBy: string | undefined
): Verdict<Credential> {
  let refusal = badHeader
  for (const { algorithm, verifying, life } of keys) {
    const decoder = verifying.fingerprint === signedBy ? readSigned : decoderOf(algorithm, verifying)
    const payload = decoder(token, dots)
    if (payload instanceof Refusal) {
      refusal = payload
      continue
    }
    const registered = readRegistered(payload)
    const refused = header.isSupported ? finder.admit({ payload, registered }, header) : badHeader
    return refused ?? { token, payload, isRemembered: false, registered, authority: finder.authority, life }
  }
  return refusal
}

/**
 * Creates a verifier.
 * @param cacheSize how many verified tokens are remembered; 0: none
 */
function createVerifier ({ choose, longestToken, expectedHeader }: KeyFinders, cacheSize: number): TokenVerifier {
  const memory = cacheSize > 0 ? new TokenMemory<Credential>(cacheSize) : undefined
  const headers = new KeptHeaders(expectedHeader)

  function remember (verified: Verdict<Credential>, headerText: string, header: Header): Verdict<Credential> {
    if (verified instanceof Refusal) return verified
    headers.keep(headerText, header)
    if (memory === undefined || !memory.admits(verified.token)) return verified
    // Contains no part of the request, and no data that a request could change.
    const entry = { ...verified, token: detached(verified.token), payload: frozen(verified.payload), isRemembered: true }
    memory.set(entry)
    return entry
  }

  return function verify (token, purpose = 'access', signedBy = undefined) {
    // First, because finding a remembered token costs a fraction of parsing it. Its key is checked each time.
    const known = memory?.get(token)
    if (known !== undefined && (purpose === 'access' ? isAlive(known.life) : isConfigured(known.life))) {
      return purpose === 'access' || known.authority.hasSessions ? known : notOwn
    }
    const dots = findDots(token, longestToken)
    if (dots === undefined) return formFault(token, longestToken)
    const headerText = token.slice(0, dots[0])
    const header = headers.read(headerText)
    if (header === undefined) return badHeader
    const finder = choose(token, dots, header)
    if (finder instanceof Refusal) return finder
    if (token.length > finder.longestToken) return tooLong(finder.longestToken)
    // The access token of an issuer is no proof that a refresh token of this instance belongs to its user.
    if (purpose === 'refresh' && !finder.authority.hasSessions) return notOwn
    const conclude = (keys: Verdict<readonly UsableKey[]>) => {
      if (keys instanceof Refusal) return keys
      const verified = decode(token, dots, header, finder, keys, signedBy)
      // Only tokens whose signature was verified are remembered.
      return signedBy === undefined ? remember(verified, headerText, header) : verified
    }
    const keys = finder.find(header, purpose)
    return keys instanceof Promise ? keys.then(conclude) : conclude(keys)
  }
}

const verifiers = new WeakMap<KeyFinders, Map<number, TokenVerifier>>()

/** Returns the verifier of these key finders, including the remembered tokens. @param cacheSize the setting `tokenCacheSize` */
export function verifierOf (finders: KeyFinders, cacheSize: number): TokenVerifier {
  const bySize = verifiers.get(finders) ?? new Map<number, TokenVerifier>()
  const verifier = bySize.get(cacheSize) ?? createVerifier(finders, cacheSize)
  verifiers.set(finders, bySize.set(cacheSize, verifier))
  return verifier
}
