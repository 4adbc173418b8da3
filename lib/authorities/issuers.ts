/** The option `issuers`: the trusted issuers of one instance. */
import type { IssuerNews } from '../keys/news.ts'
import { isDoneWithin } from '../promises.ts'
import type { Resolved } from '../settings/configuration.ts'
import { readSegment } from '../token/form.ts'
import type { KeyStatus } from '../../types/keys.ts'
import type { FindIssuer } from './key-finder.ts'
import { checkOwnIssuer, readIssuerEntries, type IssuerEntry } from './issuer-options.ts'
import { sourceOfAddress, sourceOfFunction, type KeySource } from './key-source.ts'
import { remoteKeySet } from './remote-key-set.ts'
import { TrustedIssuer } from './trusted.ts'

/**
 * Returns a function that creates the source of an issuer's keys; undefined if the keys never change.
 * @throws {InvalidConfiguration} if jose is missing
 */
async function sourceOf ({ jwksUri, jwks }: IssuerEntry): Promise<(() => KeySource) | undefined> {
  if (jwksUri !== undefined) {
    const read = await remoteKeySet(jwksUri)
    return () => sourceOfAddress(jwksUri, read)
  }
  return typeof jwks === 'function' ? () => sourceOfFunction(() => Reflect.apply(jwks, undefined, [])) : undefined
}

/** In milliseconds: how long the start of an application waits for the keys of issuers, all of its registrations together. */
const startTime = 5000
/** Until when each application waits, by the object that identifies it. */
const waiting = new WeakMap<object, number>()

/** The trusted issuers of one instance. */
export class TrustedIssuers {
  readonly #issuers: ReadonlyMap<string, TrustedIssuer>

  private constructor (issuers: readonly TrustedIssuer[]) {
    this.#issuers = new Map(issuers.map((one) => [one.issuer, one]))
  }

  /**
   * Reads the option `issuers`. Does not fetch keys yet.
   * @param report called with events of their keys
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

  /** Whether an issuer's tokens are accepted for any audience. */
  get hasAnyAudience (): boolean {
    return [...this.#issuers.values()].some(({ hasAnyAudience }) => hasAnyAudience)
  }

  /** Whether scopes of one of the issuers are compared as whole strings. */
  get hasExactScopes (): boolean {
    return [...this.#issuers.values()].some(({ exactScopes }) => exactScopes)
  }

  /** Finds the issuer in the `iss` of a token; undefined if it is not trusted. */
  readonly findIssuer: FindIssuer = (token, [first, second]) => {
    const iss = readSegment(Buffer.from(token.slice(first + 1, second), 'base64url'))?.iss
    return typeof iss === 'string' ? this.#issuers.get(iss) : undefined
  }

  /** Checks that the `claimIss` of a guard is not a trusted issuer. @throws {InvalidConfiguration} */
  checkClaimIss (claimIss: string | null): void {
    checkOwnIssuer([...this.#issuers.keys()], claimIss)
  }

  /**
   * Begins to read the keys. The application starts even if an issuer cannot be reached.
   * @param application identifies the application, whose registrations share the time
   * @param pluginTimeout in milliseconds: how long the application waits for a plugin; 0 for no limit
   */
  async start (application: object, pluginTimeout: number | undefined): Promise<void> {
    const now = performance.now()
    const until = waiting.get(application) ?? now + Math.min(startTime, Number(pluginTimeout) / 2 || startTime)
    waiting.set(application, until)
    await isDoneWithin(until - now, () => Promise.all([...this.#issuers.values()].map((issuer) => issuer.start())))
  }

  stop (): void {
    for (const issuer of this.#issuers.values()) issuer.stop()
  }

  status (): KeyStatus['issuers'] {
    return [...this.#issuers.values()].map((issuer) => issuer.status())
  }
}
