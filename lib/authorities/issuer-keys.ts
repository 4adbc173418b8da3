/** The keys of a trusted issuer, from its JWK set (RFC 7517 section 5), and the checks which of them are usable. */
import { algorithmTable, type Algorithm } from '../algorithms.ts'
import { isAlive, remove, type Life } from '../keys/life.ts'
import { publicKey } from '../keys/material.ts'
import { isText, ownMemberOf } from '../values.ts'
import type { UsableKey } from './key-finder.ts'

/** A copy of one key of a set, with the members that are used. */
export type PublishedJwk = Readonly<Record<string, unknown>>

/** Members with other names are not copied: key material has forms that name a file. */
const members = ['kty', 'kid', 'use', 'key_ops', 'alg', 'crv', 'x', 'y', 'n', 'e', 'issuer']
const privateMembers = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k']

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Copies a string or a list of strings. Any other value becomes false, which no check accepts. */
function copyMember (value: unknown): string | readonly string[] | false {
  if (typeof value === 'string') return value
  return Array.isArray(value) && value.every(isText) ? [...value] : false
}

function copyOf (jwk: object): PublishedJwk {
  const copy: Record<string, unknown> = {}
  for (const name of members) {
    const value = ownMemberOf(jwk, name)
    // Some servers write null for a member that they do not have.
    if (value !== undefined && value !== null) copy[name] = copyMember(value)
  }
  // Only whether one of them exists, not its value.
  copy.isPrivate = privateMembers.some((name) => Object.hasOwn(jwk, name))
  return copy
}

/** The set of an issuer usually has a few keys. A hostile or broken set must not block the process. */
const maximumEntries = 1000
/** A token without `kid` is compared with each of them. */
const maximumWithoutKid = 100

/**
 * Reads a JWK set.
 * @throws {Error} for anything but a list of 1 to 1,000 keys. Rejects the set if an entry is not an object
 */
export function readKeySet (value: unknown): readonly PublishedJwk[] {
  const keys = isObject(value) ? ownMemberOf(value, 'keys') : undefined
  if (Array.isArray(keys) && keys.length > maximumEntries) {
    throw new Error(`It is a JWK set with ${keys.length} keys. At most ${maximumEntries} are accepted.`)
  }
  if (Array.isArray(keys) && keys.length > 0 && keys.every(isObject)) return keys.map(copyOf)
  throw new Error('It is not a JWK set with at least one key: { keys: [{ kty, kid, n, e }] }.')
}

/** The type of the keys of an algorithm, as a JWK names it. */
const typeOf = (algorithm: Algorithm) =>
  ({ RSA: 'RSA', 'RSA-PSS': 'RSA', EC: 'EC', Ed25519: 'OKP', HMAC: 'oct' })[algorithmTable[algorithm].signatureType]

/** Identifies a key by its numbers. */
const numbersOf = ({ kty, crv, x, y, n, e }: PublishedJwk) => JSON.stringify([kty, crv, x, y, n, e])

/** Identifies a key by its id and its numbers. */
const identityOf = (jwk: PublishedJwk) => JSON.stringify([jwk.kid, numbersOf(jwk)])

/**
 * A key of a set. It is checked for an algorithm when a token first needs it, because sets may have many keys. A set may
 * contain a key several times, for example once for each algorithm.
 */
class IssuerKey {
  readonly jwks: readonly PublishedJwk[]
  readonly life: Life
  readonly #found = new Map<Algorithm, UsableKey | null>()

  constructor (jwks: readonly PublishedJwk[], life: Life) {
    this.jwks = jwks
    this.life = life
  }

  /** Returns the key with other members, such as `alg`. Its tokens stay valid unless the update forbids an algorithm that was used. */
  with (jwks: readonly PublishedJwk[]): IssuerKey {
    const same = new IssuerKey(jwks, this.life)
    const goesOn = [...this.#found].every(([algorithm, found]) => found === null || same.for(algorithm) !== null)
    return goesOn ? same : new IssuerKey(jwks, { until: this.life.until })
  }

  /** Returns the key for an algorithm; null if the key must not be used with it. */
  for (algorithm: Algorithm): UsableKey | null {
    let found = this.#found.get(algorithm)
    if (found === undefined) {
      found = this.jwks.map((jwk) => this.#check(jwk, algorithm)).find((usable) => usable !== null) ?? null
      this.#found.set(algorithm, found)
    }
    return found
  }

  #check (jwk: PublishedJwk, algorithm: Algorithm): UsableKey | null {
    if (jwk.kty !== typeOf(algorithm)) return null
    try {
      return { algorithm, verifying: publicKey(algorithm, 'jwks', { ...jwk }), life: this.life }
    } catch {
      // Wrong use, curve or size, or invalid numbers.
      return null
    }
  }
}

const template = '{tenantid}'

/**
 * Whether a key belongs to an issuer. Microsoft Entra publishes the issuer of each key; in sets for several tenants, it may
 * contain `{tenantid}`. Without this check, the key of one tenant could sign for all tenants.
 */
function isFor (issuer: string, { issuer: own }: PublishedJwk): boolean {
  if (own === undefined || own === issuer) return true
  if (typeof own !== 'string') return false
  const [start = '', end, ...rest] = own.split(template)
  if (end === undefined || rest.length > 0 || !issuer.startsWith(start) || !issuer.endsWith(end)) return false
  return /^[^/]+$/.test(issuer.slice(start.length, issuer.length - end.length))
}

/** The maximum number of keys with which a token is verified. It bounds the cost of forgeries. */
const maximumTries = 4

/** A key for encryption may have the `kid` of a key for signatures. */
const isForSignatures = ({ use }: PublishedJwk) => use === undefined || use === 'sig'

/** The current keys of one issuer. */
export class IssuerKeys {
  readonly #issuer: string
  #keys: readonly IssuerKey[] = []
  /** An id has an empty list if its keys are not usable: fetching the same set again would not help. */
  #byKid: ReadonlyMap<string, readonly IssuerKey[]> = new Map()

  constructor (issuer: string) {
    this.#issuer = issuer
  }

  /** Returns the number of valid keys for one of several algorithms. */
  count (algorithms: Iterable<Algorithm>): number {
    const list = [...algorithms]
    return this.#keys.filter((key) => isAlive(key.life) && list.some((algorithm) => key.for(algorithm) !== null)).length
  }

  /** Whether one of the keys is usable with an algorithm. */
  has (algorithm: Algorithm): boolean {
    return this.#keys.some((key) => key.for(algorithm) !== null)
  }

  /**
   * Replaces the keys. Keys that were in the previous set keep their `life`, so that their tokens stay remembered. Tokens of
   * removed keys become invalid.
   * @param until until when the keys are valid if they are not replaced again, in milliseconds since 1970
   * @returns the number of keys without `kid` that are ignored: those after the first 100
   */
  replace (list: readonly PublishedJwk[], until: number): number {
    const before = new Map(this.#keys.map((key) => [identityOf(key.jwks[0]!), key]))
    // Everybody knows a published private key. Neither this key nor another key with its "kid" is used.
    const published = list.filter(({ isPrivate }) => isPrivate === true)
    const spoiled = new Set(published.flatMap((jwk) => jwk.kid === undefined ? [numbersOf(jwk)] : [numbersOf(jwk), jwk.kid]))
    const entries = new Map<string, PublishedJwk[]>()
    let withoutKid = 0
    for (const jwk of list.filter(isForSignatures)) {
      const { kid } = jwk
      if (kid === undefined && ++withoutKid > maximumWithoutKid) continue
      const isId = kid === undefined || (typeof kid === 'string' && !spoiled.has(kid))
      if (!isId || spoiled.has(numbersOf(jwk)) || !isFor(this.#issuer, jwk)) continue
      const identity = identityOf(jwk)
      entries.set(identity, [...entries.get(identity) ?? [], jwk])
    }
    const keyOf = (identity: string, jwks: readonly PublishedJwk[]) => {
      const known = before.get(identity)
      if (known === undefined) return new IssuerKey(jwks, { until })
      return JSON.stringify(known.jwks) === JSON.stringify(jwks) ? known : known.with(jwks)
    }
    const keys: IssuerKey[] = []
    const byKid = new Map<string, IssuerKey[]>()
    for (const { kid } of list) if (typeof kid === 'string') byKid.set(kid, [])
    for (const [identity, jwks] of entries) {
      const key = keyOf(identity, jwks)
      keys.push(key)
      byKid.get(String(jwks[0]!.kid))?.push(key)
    }
    for (const { life } of keys) life.until = until
    const kept = new Set(keys.map(({ life }) => life))
    for (const { life } of this.#keys) if (!kept.has(life)) remove(life)
    this.#keys = keys
    this.#byKid = byKid
    return Math.max(0, withoutKid - maximumWithoutKid)
  }

  /**
   * Finds the keys that may have signed a token, at most four (RFC 7515 appendix D).
   * @returns null if the known keys are not usable; undefined if a newer set may contain the key
   */
  find (algorithm: Algorithm, kid: string | undefined): readonly UsableKey[] | null | undefined {
    const named = kid === undefined ? this.#keys : this.#byKid.get(kid)
    const alive = named?.filter(({ life }) => isAlive(life)) ?? []
    const fitting = new Map(alive.flatMap((key) => {
      const found = key.for(algorithm)
      return found === null ? [] : [[found.verifying.fingerprint, found] as const]
    }))
    if (fitting.size > 0) return [...fitting.values()].slice(0, maximumTries)
    // The next set may make a stale key valid again. A known key that does not fit is no reason to fetch the set.
    return kid === undefined || named === undefined || alive.length < named.length ? undefined : null
  }
}
