/** Trusted issuers: the keys with which their tokens are verified, and what is known of these keys now. */
import { InvalidConfiguration } from '../configuration-errors.ts'
import { KeysUnavailable } from '../errors.ts'
import { invalidToken, Refusal } from '../refusal.ts'
import type { Resolved } from '../settings/configuration.ts'
import type { KeyEvent } from '../../types/events.ts'
import type { MaybePromise } from '../../types/handlers.ts'
import type { KeyStatus } from '../../types/keys.ts'
import { IssuerKeys, readKeySet, type FoundKey, type PublishedJwk } from './issuer-keys.ts'
import { checkOwnIssuer, readIssuerEntries, type IssuerEntry } from './issuer-options.ts'
import { forgetSource, sourceOfAddress, sourceOfFunction, type KeySource } from './key-source.ts'
import { remoteKeySet } from './remote-key-set.ts'

/** What is told of an issuer, besides the name of the instance. */
export interface IssuerNews {
  readonly type: Extract<KeyEvent['type'], 'issuer-failed' | 'issuer-recovered' | 'unknown-kid'> | 'no-key' | 'left-out'
  readonly issuer: string
  /** How many keys without `kid` of its set are not used. */
  readonly leftOut?: number
  /** Why its keys could not be read. */
  readonly error?: unknown
}

const wrongAlgorithm = invalidToken('its issuer does not sign with its "alg"')
const unknownKey = invalidToken('no key of its issuer has its "kid" and "alg"')
const unavailable = new Refusal(() => new KeysUnavailable(), 'the keys of its issuer could not be fetched')

const isoOrNull = (time: number | null) => time === null ? null : new Date(time).toISOString()

/** One trusted issuer of an instance. */
export class TrustedIssuer {
  readonly entry: IssuerEntry
  readonly #keys: IssuerKeys
  readonly #makeSource: (() => KeySource) | undefined
  /** Undefined where the keys never change, and while they are not read. */
  #source: KeySource | undefined
  /** Whether the keys that were read last had one for the algorithms of the issuer's tokens. */
  #hasKey = true
  /** How many of the keys that were read last are not used. */
  #leftOut = 0
  /** Until when the keys count that were read last, in milliseconds since 1970. */
  #until = -Infinity
  readonly #report: (news: IssuerNews) => void

  /** @param makeSource undefined where the keys never change */
  constructor (entry: IssuerEntry, makeSource: (() => KeySource) | undefined, report: (news: IssuerNews) => void) {
    this.entry = entry
    this.#keys = new IssuerKeys(entry.rules.issuer)
    this.#makeSource = makeSource
    this.#report = report
    if (makeSource === undefined) this.#readFixed()
  }

  /** Reads keys that never change. @throws {InvalidConfiguration} where no token could be verified with them */
  #readFixed (): void {
    const { place, jwks, algorithms } = this.entry
    try {
      this.#use(readKeySet(jwks), Infinity)
    } catch {
      // What is no JWK set has no key, as the message below says.
    }
    if ([...algorithms.values()].some((algorithm) => this.#keys.has(algorithm))) return
    throw new InvalidConfiguration(`"${place}.jwks" must be a JWK set, { keys: [...] }, with a public key for one of "algorithms", or a function that returns one. Check the type and the size of its keys, "alg" and "use", and that each key has its own "kid".`, { finding: 'E17', page: 'keys.md#trust-other-issuers' })
  }

  #use (keys: readonly PublishedJwk[], until: number): void {
    const leftOut = this.#keys.replace(keys, until)
    if (leftOut > 0 && leftOut !== this.#leftOut) this.#report({ type: 'left-out', issuer: this.entry.rules.issuer, leftOut })
    this.#leftOut = leftOut
  }

  /** Begins to read the keys. Resolves when they were read, or could not be. */
  async start (): Promise<void> {
    this.#source = this.#makeSource?.()
    await this.#source?.add(this)
  }

  stop (): void {
    const { jwksUri } = this.entry
    if (this.#source?.remove(this) === true && jwksUri !== undefined) forgetSource(jwksUri)
  }

  accept (keys: readonly PublishedJwk[], at: number): void {
    this.#until = at + this.entry.staleIfErrorMs
    this.#use(keys, this.#until)
    const hasKey = [...this.entry.algorithms.values()].some((algorithm) => this.#keys.has(algorithm))
    if (!hasKey && this.#hasKey) this.#report({ type: 'no-key', issuer: this.entry.rules.issuer })
    this.#hasKey = hasKey
  }

  failed (error: unknown): void {
    this.#report({ type: 'issuer-failed', issuer: this.entry.rules.issuer, error })
  }

  recovered (): void {
    this.#report({ type: 'issuer-recovered', issuer: this.entry.rules.issuer })
  }

  /**
   * Finds the key of a token with this header.
   * @returns a promise only where the keys have to be read first
   */
  find (alg: string, kid: string | undefined): MaybePromise<FoundKey | Refusal> {
    const algorithm = this.entry.algorithms.get(alg)
    if (algorithm === undefined) return wrongAlgorithm
    const known = this.#keys.find(algorithm, kid)
    if (known !== undefined) return known ?? unknownKey
    const source = this.#source
    if (source === undefined) return unknownKey
    // After a jump of the clock, keys may be too old without a failure.
    if (source.isThrottled) return source.failedAt === null && this.#until > Date.now() ? unknownKey : unavailable
    return source.load().then(() => {
      const found = this.#keys.find(algorithm, kid)
      if (found !== undefined) return found ?? unknownKey
      if (source.failedAt !== null) return unavailable
      if (source.pause()) this.#report({ type: 'unknown-kid', issuer: this.entry.rules.issuer })
      return unknownKey
    })
  }

  status (): KeyStatus['issuers'][number] {
    const { fetchedAt = null, failedAt = null } = this.#source ?? {}
    return { issuer: this.entry.rules.issuer, keys: this.#keys.count(this.entry.algorithms.values()), fetchedAt: isoOrNull(fetchedAt), failedAt: isoOrNull(failedAt) }
  }
}

/**
 * Prepares what makes the source of an issuer's keys; undefined where they never change.
 * @throws {InvalidConfiguration} where jose is missing
 */
async function sourceOf ({ jwksUri, jwks }: IssuerEntry): Promise<(() => KeySource) | undefined> {
  if (jwksUri !== undefined) {
    const read = await remoteKeySet(jwksUri)
    return () => sourceOfAddress(jwksUri, read)
  }
  return typeof jwks === 'function' ? () => sourceOfFunction(() => Reflect.apply(jwks, undefined, [])) : undefined
}

/** The trusted issuers of one instance. */
export class TrustedIssuers {
  readonly #issuers: ReadonlyMap<string, TrustedIssuer>

  private constructor (issuers: readonly TrustedIssuer[]) {
    this.#issuers = new Map(issuers.map((issuer) => [issuer.entry.rules.issuer, issuer]))
  }

  /**
   * Reads the option `issuers`. Nothing is fetched yet.
   * @param report told what happens to their keys
   * @throws {InvalidConfiguration}
   */
  static async read (option: unknown, resolved: Resolved, report: (news: IssuerNews) => void): Promise<TrustedIssuers> {
    const issuers: TrustedIssuer[] = []
    for (const entry of readIssuerEntries(option, resolved)) issuers.push(new TrustedIssuer(entry, await sourceOf(entry), report))
    return new TrustedIssuers(issuers)
  }

  get size (): number {
    return this.#issuers.size
  }

  /** Whether an issuer has tokens for any audience. */
  get hasAnyAudience (): boolean {
    return [...this.#issuers.values()].some(({ entry }) => entry.audiences === undefined)
  }

  get (issuer: string): TrustedIssuer | undefined {
    return this.#issuers.get(issuer)
  }

  /** Checks that a guard does not take the issuer of its tokens for one of these. @throws {InvalidConfiguration} */
  checkClaimIss (claimIss: string | null): void {
    checkOwnIssuer([...this.#issuers.keys()], claimIss)
  }

  async start (): Promise<void> {
    await Promise.all([...this.#issuers.values()].map((issuer) => issuer.start()))
  }

  stop (): void {
    for (const issuer of this.#issuers.values()) issuer.stop()
  }

  status (): KeyStatus['issuers'] {
    return [...this.#issuers.values()].map((issuer) => issuer.status())
  }
}
