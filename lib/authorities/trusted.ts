/** The authority of a trusted issuer: finds the keys of its tokens, checks and reads their claims, and reports on its keys. */
import { InvalidConfiguration } from '../configuration-errors.ts'
import { KeysUnavailable } from '../errors.ts'
import { readHost, wrongResult } from '../host/call.ts'
import type { IssuerNews } from '../keys/news.ts'
import { invalidToken, Refusal, type Verdict } from '../refusal.ts'
import type { Settings } from '../settings/schema.ts'
import { checkIssuerClaims, copyPayload, invalidClaim, secondsNow } from '../token/claims.ts'
import { isAccessToken, isPlainJwt, maximumIssuerTokenLength, type Header } from '../token/form.ts'
import { BoundedMap } from '../bounded-map.ts'
import { readScopes } from '../token/scopes.ts'
import type { MaybePromise, UserId } from '../../types/handlers.ts'
import type { KeyStatus, ScopesOfPayload } from '../../types/keys.ts'
import { ignoreRejection, isDoneWithin } from '../promises.ts'
import { asClaimed, isText } from '../values.ts'
import type { Authority, Credential, Ends, SignedContent } from './authority.ts'
import { IssuerKeys, readKeySet, type PublishedJwk } from './issuer-keys.ts'
import type { IssuerEntry } from './issuer-options.ts'
import { badHeader, type KeyFinder, type UsableKey } from './key-finder.ts'
import { forgetSource, type KeySource } from './key-source.ts'

const wrongAlgorithm = invalidToken('its "alg" is not an algorithm of its issuer')
const unknownKey = invalidToken('no key of its issuer has its "kid" and "alg"')
const unavailable = new Refusal(() => new KeysUnavailable(), 'the keys of its issuer could not be fetched')
const notLookedFor = new Refusal(
  () => new KeysUnavailable(),
  'its key is not known, and the keys of its issuer were fetched too often to look for it now'
)
const tooSlow = new Refusal(() => new KeysUnavailable(), 'the keys of its issuer are being fetched')

/** In milliseconds: how long a request waits for keys. */
export const waitTime = 2000

/** The number of missing keys that are remembered; at most twice as many. Bounded, because tokens may contain any `kid`. */
const keptMissing = 500

const isoOrNull = (time: number | null) => time === null ? null : new Date(time).toISOString()

const wrongIssuer = invalidClaim('iss', 'the claim "iss" is missing or names another issuer')
const wrongType = invalidToken('its "typ" is not "at+jwt"')

/** One trusted issuer of an instance. Its users have no sessions at this service, and its tokens no custom claims. */
export class TrustedIssuer implements Authority, KeyFinder {
  readonly issuer: string
  readonly hasSessions = false
  readonly hasCustomClaims = false
  readonly exactScopes: boolean
  readonly unlessAccepted = undefined
  readonly authority: Authority = this
  readonly longestToken = maximumIssuerTokenLength
  readonly #entry: IssuerEntry
  readonly #keys: IssuerKeys
  readonly #makeSource: (() => KeySource) | undefined
  /** Undefined if the keys never change, and before `start()`. */
  #source: KeySource | undefined
  /** Whether one of the keys that were read last is usable with the configured algorithms. */
  #hasKey = true
  /** How many of the keys that were read last are ignored. */
  #leftOut = 0
  /** Until when the keys that were read last are valid, in milliseconds since 1970. */
  #until = -Infinity
  readonly #report: (news: IssuerNews) => void
  /** Keys that were looked for and not found, by the `alg` and `kid` of tokens. */
  readonly #missing = new BoundedMap<string, true>(keptMissing)
  /** What the function `scopesName` returned for a payload. */
  readonly #scopes = new WeakMap<object, readonly string[]>()

  /** @param makeSource undefined if the keys never change */
  constructor (entry: IssuerEntry, makeSource: (() => KeySource) | undefined, report: (news: IssuerNews) => void) {
    const { issuer, exactScopes } = entry.rules
    this.issuer = issuer
    this.exactScopes = exactScopes
    this.#entry = entry
    this.#keys = new IssuerKeys(issuer)
    this.#makeSource = makeSource
    this.#report = report
    if (makeSource === undefined) this.#readFixed()
  }

  /** Reads keys that never change. @throws {InvalidConfiguration} if no token could be verified with them */
  #readFixed (): void {
    const { path, jwks, algorithms } = this.#entry
    try {
      this.#use(readKeySet(jwks), Infinity)
    } catch {
      // The error below also covers a value that is not a JWK set.
    }
    if ([...algorithms.values()].some((algorithm) => this.#keys.has(algorithm))) return
    throw new InvalidConfiguration(
      `"${path}.jwks" must be a JWK set, { keys: [...] }, with a public key for one of "algorithms", or a function that returns one. Check the type and the size of its keys, "alg" and "use", and that each key has its own "kid".`,
      { finding: 'E17' }
    )
  }

  #use (keys: readonly PublishedJwk[], until: number): void {
    const leftOut = this.#keys.replace(keys, until)
    if (leftOut > 0 && leftOut !== this.#leftOut) this.#report({ type: 'left-out', issuer: this.issuer, leftOut })
    this.#leftOut = leftOut
  }

  /** Begins to read the keys. Resolves when they were read, or could not be. */
  async start (): Promise<void> {
    this.#source = this.#makeSource?.()
    await this.#source?.add(this)
  }

  stop (): void {
    const { jwksUri } = this.#entry
    if (this.#source?.remove(this) === true && jwksUri !== undefined) forgetSource(jwksUri)
  }

  accept (keys: readonly PublishedJwk[], at: number): void {
    this.#until = at + this.#entry.staleIfErrorMs
    this.#use(keys, this.#until)
    const hasKey = [...this.#entry.algorithms.values()].some((algorithm) => this.#keys.has(algorithm))
    if (!hasKey && this.#hasKey) this.#report({ type: 'no-key', issuer: this.issuer })
    this.#hasKey = hasKey
  }

  failed (error: unknown): void {
    this.#report({ type: 'issuer-failed', issuer: this.issuer, error })
  }

  recovered (): void {
    this.#report({ type: 'issuer-recovered', issuer: this.issuer })
  }

  /** Whether its tokens may be for any audience. */
  get hasAnyAudience (): boolean {
    return this.#entry.audiences === undefined
  }

  find ({ alg, kid }: Pick<Header, 'alg' | 'kid'>): MaybePromise<Verdict<readonly UsableKey[]>> {
    if (kid === null) return badHeader
    const algorithm = this.#entry.algorithms.get(alg)
    if (algorithm === undefined) return wrongAlgorithm
    // Some servers write an empty `kid` instead of none.
    const id = kid === '' ? undefined : kid
    const known = this.#keys.find(algorithm, id)
    if (known !== undefined) return known ?? unknownKey
    const source = this.#source
    if (source === undefined) return unknownKey
    const name = `${algorithm} ${id ?? ''}`
    if (!source.isLoading) {
      if (source.failedAt !== null) return unavailable
      // After a jump of the clock, keys may be too old without a failure.
      const wasLookedFor = source.isRecent && this.#missing.get(name) === true && this.#until > Date.now()
      if (wasLookedFor) return unknownKey
      if (!source.takeEarly()) return notLookedFor
    }
    return isDoneWithin(waitTime, () => source.load()).then((isSettled) => {
      const found = this.#keys.find(algorithm, id)
      if (found !== undefined) return found ?? unknownKey
      if (!isSettled) return tooSlow
      if (source.failedAt !== null) return unavailable
      this.#missing.set(name, true)
      if (source.noteMissing()) this.#report({ type: 'unknown-kid', issuer: this.issuer })
      return unknownKey
    })
  }

  admit ({ payload, registered }: SignedContent, { typ }: Header): Refusal | undefined {
    const { audiences, audienceName, typ: requiredTyp } = this.#entry
    if (!isPlainJwt(typ) && !isAccessToken(typ)) return badHeader
    // Checked again, because the issuer was chosen by the `iss` of an unverified payload.
    if (registered.iss !== this.issuer) return wrongIssuer
    if (requiredTyp !== undefined && !isAccessToken(typ)) return wrongType
    if (audiences === undefined) return undefined
    const claim: unknown = Object.hasOwn(payload, audienceName) ? payload[audienceName] : undefined
    const list: readonly unknown[] = Array.isArray(claim) ? claim : [claim]
    if (list.some((audience) => typeof audience === 'string' && audiences.has(audience))) return undefined
    return invalidClaim(audienceName, `the claim "${audienceName}" is missing or names another audience`)
  }

  check ({ payload, registered }: SignedContent, { leeway }: Settings): Refusal | undefined {
    return checkIssuerClaims(payload, registered, this.#entry.rules.userId, leeway, secondsNow())
  }

  userIdOf (payload: SignedContent['payload']): UserId {
    const { userId } = this.#entry.rules
    // `check` has verified its type.
    return asClaimed(userId, payload[userId] as UserId)
  }

  scopesOf (payload: SignedContent['payload']): string[] | null {
    const { scopesName } = this.#entry.rules
    if (typeof scopesName === 'function') return [...this.#computedScopes(payload, scopesName)]
    const claims = scopesName.filter((name) => Object.hasOwn(payload, name))
    return claims.length === 0 ? null : claims.flatMap((name) => readScopes(payload[name]))
  }

  /** @throws {HandlerFailed} */
  #computedScopes (payload: SignedContent['payload'], scopesOf: ScopesOfPayload): readonly string[] {
    let scopes = this.#scopes.get(payload)
    if (scopes === undefined) {
      const name = `${this.#entry.path}.scopesName`
      const result: unknown = readHost(name, () => scopesOf(copyPayload(payload)))
      ignoreRejection(result)
      if (!Array.isArray(result) || !result.every(isText)) throw wrongResult(name, 'a list of strings', result)
      scopes = [...result]
      this.#scopes.set(payload, scopes)
    }
    return scopes
  }

  endsOf ({ registered: { exp } }: Credential, { leeway }: Settings): Ends {
    // Valid tokens of issuers have `exp`. Each fetch of the keys prolongs their validity.
    return { expiry: (exp! + leeway) * 1000, retirement: Infinity }
  }

  status (): KeyStatus['issuers'][number] {
    const { fetchedAt = null, failedAt = null } = this.#source ?? {}
    return {
      issuer: this.issuer,
      keys: this.#keys.count(this.#entry.algorithms.values()),
      fetchedAt: isoOrNull(fetchedAt),
      failedAt: isoOrNull(failedAt)
    }
  }
}
