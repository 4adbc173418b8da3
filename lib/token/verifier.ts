/** Whether a token is one that an authority of an instance vouches for. A token walks from top to bottom through {@link createVerifier}. */
import type { Authorities } from '../authorities/authorities.ts'
import { badHeader, notOwn, type Authority, type FindAuthority, type Purpose, type UsableKey, type VerifiedToken } from '../authorities/authority.ts'
import { findFixed, ownAuthority } from '../authorities/own.ts'
import type { RequestSettings } from '../host/getters.ts'
import type { Algorithm } from '../keys/algorithms.ts'
import { isAlive, isConfigured } from '../keys/life.ts'
import type { Key } from '../keys/material.ts'
import { invalidToken, Refusal, type Verdict } from '../refusal.ts'
import type { Resolved } from '../settings/configuration.ts'
import type { MaybePromise } from '../../types/handlers.ts'
import { readRegistered } from './claims.ts'
import { decoderOf, readSigned, shared } from './codec.ts'
import { detached, findDots, type Dots, type Header } from './form.ts'
import { KeptHeaders } from './headers.ts'
import { TokenMemory } from './memory.ts'

/**
 * Verifies the form and signature of a token, and what never changes for it. Never throws or rejects.
 * @param signedBy the fingerprint of the key with which this process has just signed this very token, whose signature is not
 * verified again where that key counts; undefined for any other token
 * @returns what it holds, or the refusal; a promise only where the keys of its authority have to be read first
 */
export type TokenVerifier = (token: string, purpose?: Purpose, signedBy?: string) => MaybePromise<Verdict<VerifiedToken>>

/** Gives the verifier for the settings of a request; a promise only where its key is asynchronous. */
export type VerifierSource = (context: RequestSettings) => MaybePromise<TokenVerifier>

const badForm = invalidToken('it is not three segments of base64url')
const padded = invalidToken('its base64url has padding, the character "=", which RFC 7515 section 2 forbids')

const tooLong = (longest: number) => invalidToken(`it has more than ${longest} characters`)

/** Says what is wrong with the form of a token. */
function formFault (token: string, longest: number): Refusal {
  if (token.length > longest) return tooLong(longest)
  return token.includes('=') ? padded : badForm
}

/** Freezes a payload with all lists and objects in it, so that no request changes what another one reads. */
function frozen (payload: VerifiedToken['payload']): VerifiedToken['payload'] {
  const containers: object[] = [payload]
  for (const container of containers) {
    Object.freeze(container)
    for (const member of Object.values(container)) if (typeof member === 'object' && member !== null) containers.push(member)
  }
  return payload
}

/** Verifies a token with the keys that it may be signed with, and with no others. @param signedBy as in {@link TokenVerifier} */
function decode (token: string, dots: Dots, header: Header, authority: Authority, keys: readonly UsableKey[], signedBy: string | undefined): Verdict<VerifiedToken> {
  let refusal = badHeader
  for (const { algorithm, verifying, life } of keys) {
    const decoder = verifying.fingerprint === signedBy ? readSigned : decoderOf(algorithm, verifying)
    const payload = decoder(token, dots)
    if (payload instanceof Refusal) {
      refusal = payload
      continue
    }
    const registered = readRegistered(payload)
    const refused = header.isPlain ? authority.admit({ payload, registered }, header) : badHeader
    return refused ?? { token, payload, isRemembered: false, registered, authority, life }
  }
  return refusal
}

/**
 * Creates a verifier.
 * @param findAuthority finds the authority that a token names
 * @param longest how many characters a token of any of them may have
 * @param cacheSize how many verified tokens are remembered; 0: none
 * @param ownHeader the header of own tokens, where all have the same; empty for none
 */
export function createVerifier (findAuthority: FindAuthority, longest: number, cacheSize: number, ownHeader = ''): TokenVerifier {
  const memory = cacheSize > 0 ? new TokenMemory<VerifiedToken>(cacheSize) : undefined
  const headers = new KeptHeaders(ownHeader)

  function remember (verified: Verdict<VerifiedToken>, headerText: string, header: Header): Verdict<VerifiedToken> {
    if (verified instanceof Refusal) return verified
    headers.keep(headerText, header)
    if (memory === undefined || !memory.admits(verified.token)) return verified
    // Nothing of the request that brought it, and nothing that a request could change.
    const entry = { ...verified, token: detached(verified.token), payload: frozen(verified.payload), isRemembered: true }
    memory.set(entry)
    return entry
  }

  return function verify (token, purpose = 'access', signedBy = undefined) {
    // Before anything is read: to find a remembered token costs a fraction of that. Whether its key is still valid is asked each time.
    const known = memory?.get(token)
    if (known !== undefined && (purpose === 'access' ? isAlive(known.life) : isConfigured(known.life))) {
      return purpose === 'access' || known.authority.hasSessions ? known : notOwn
    }
    const dots = findDots(token, longest)
    if (dots === undefined) return formFault(token, longest)
    const headerText = token.slice(0, dots[0])
    const header = headers.read(headerText)
    if (header === undefined) return badHeader
    const authority = findAuthority(token, dots, header)
    if (authority instanceof Refusal) return authority
    if (token.length > authority.longestToken) return tooLong(authority.longestToken)
    // The access token of an issuer is no proof that a refresh token of this instance belongs to its user.
    if (purpose === 'refresh' && !authority.hasSessions) return notOwn
    const conclude = (keys: Verdict<readonly UsableKey[]>) => {
      if (keys instanceof Refusal) return keys
      const verified = decode(token, dots, header, authority, keys, signedBy)
      // For other requests, tokens are remembered whose signature was verified.
      return signedBy === undefined ? remember(verified, headerText, header) : verified
    }
    const keys = authority.find(header, purpose)
    return keys instanceof Promise ? keys.then(conclude) : conclude(keys)
  }
}

function buildVerifier (algorithm: Algorithm, key: Key, cacheSize: number): TokenVerifier {
  const authority = ownAuthority(findFixed(algorithm, key))
  // Not with the first request.
  decoderOf(algorithm, key)
  const header = Buffer.from(JSON.stringify({ alg: algorithm, typ: 'JWT' })).toString('base64url')
  return createVerifier(() => authority, authority.longestToken, cacheSize, header)
}

/** Gives the verifier of tokens of one key, which all instances with this key share, and with it the remembered tokens. */
export const verifierOf: (algorithm: Algorithm, key: Key, cacheSize: number) => TokenVerifier = shared(buildVerifier)

/** Prepares the verifiers of a registration and its guards. */
export function prepareVerifiers ({ verifying }: Authorities): (own: Resolved) => VerifierSource {
  if ('find' in verifying) {
    const verifiers = new Map<number, TokenVerifier>()
    return ({ settings: { tokenCacheSize } }) => {
      const verifier = verifiers.get(tokenCacheSize) ?? createVerifier(verifying.find, verifying.longestToken, tokenCacheSize)
      verifiers.set(tokenCacheSize, verifier)
      return () => verifier
    }
  }
  return (own) => {
    const key = verifying.keyFor(own)
    const { settings: { algorithm, tokenCacheSize }, getters } = own
    if (typeof key !== 'function' && !getters.has('tokenCacheSize')) {
      const verifier = verifierOf(algorithm, key, tokenCacheSize)
      return () => verifier
    }
    return (context) => {
      const found = typeof key === 'function' ? key(context) : key
      const make = (one: Key) => verifierOf(context.settings.algorithm, one, context.settings.tokenCacheSize)
      return found instanceof Promise ? found.then(make) : make(found)
    }
  }
}
