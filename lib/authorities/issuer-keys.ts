/** The keys of a trusted issuer, as its JWK set has them (RFC 7517 section 5). Which of them count is decided here. */
import { algorithmTable, type Algorithm } from '../algorithms.ts'
import { isAlive, remove, type Life } from '../keys/life.ts'
import { publicKey } from '../keys/material.ts'
import { isText, ownMemberOf } from '../values.ts'
import type { UsableKey } from './key-finder.ts'

/** One key of a set: its members that are read, copied. */
export type PublishedJwk = Readonly<Record<string, unknown>>

/** Members with other names are not copied: key material has forms that name a file. */
const members = ['kty', 'kid', 'use', 'key_ops', 'alg', 'crv', 'x', 'y', 'n', 'e', 'issuer']
const privateMembers = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k']

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Copies a member. What is neither text nor a list of texts becomes false, which no check takes for a value. */
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
  // Records only whether any of these exists.
  copy.isPrivate = privateMembers.some((name) => Object.hasOwn(jwk, name))
  return copy
}

/** A set of an issuer has a few keys. A hostile or broken one must not block the process. */
const maximumEntries = 1000
/** A token without `kid` is compared with each of them. */
const maximumWithoutKid = 100

/**
 * Reads a JWK set.
 * @throws {Error} for anything but a list of 1 to 1,000 keys. One entry that is no object spoils the set: it was not made by software that knows JWK sets
 */
export function readKeySet (value: unknown): readonly PublishedJwk[] {
  const keys = isObject(value) ? ownMemberOf(value, 'keys') : undefined
  if (Array.isArray(keys) && keys.length > maximumEntries) throw new Error(`It is a JWK set with ${keys.length} keys. At most ${maximumEntries} are accepted.`)
  if (Array.isArray(keys) && keys.length > 0 && keys.every(isObject)) return keys.map(copyOf)
  throw new Error('It is not a JWK set with at least one key: { keys: [{ kty, kid, n, e }] }.')
}

/** The type of the keys of an algorithm, as a JWK names it. */
const typeOf = (algorithm: Algorithm) => ({ RSA: 'RSA', 'RSA-PSS': 'RSA', EC: 'EC', Ed25519: 'OKP', HMAC: 'oct' })[algorithmTable[algorithm].family]

/** Names a key by its numbers. */
const numbersOf = ({ kty, crv, x, y, n, e }: PublishedJwk) => JSON.stringify([kty, crv, x, y, n, e])

/** Names a key by its id and its numbers. */
const identityOf = (jwk: PublishedJwk) => JSON.stringify([jwk.kid, numbersOf(jwk)])

/**
 * A key of a set, checked for an algorithm when a token with this algorithm first names it: sets may have many keys. The set
 * may list it several times, once for each algorithm for example.
 */
class IssuerKey {
  readonly jwks: readonly PublishedJwk[]
  readonly life: Life
  readonly #found = new Map<Algorithm, UsableKey | null>()

  constructor (jwks: readonly PublishedJwk[], life: Life) {
    this.jwks = jwks
    this.life = life
  }

  /** Returns the key with other members, such as `alg`. Its tokens go on, unless one was accepted that would not be now. */
  with (jwks: readonly PublishedJwk[]): IssuerKey {
    const same = new IssuerKey(jwks, this.life)
    const goesOn = [...this.#found].every(([algorithm, found]) => found === null || same.for(algorithm) !== null)
    return goesOn ? same : new IssuerKey(jwks, { until: this.life.until })
  }

  /** Returns the key for an algorithm; null where the key must not be used with it. */
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
 * Whether a key is for an issuer. Microsoft Entra publishes the issuer of each key, with the place of a tenant's id in sets
 * for several tenants. Without this check, a key for other tenants could sign for all.
 */
function isFor (issuer: string, { issuer: own }: PublishedJwk): boolean {
  if (own === undefined || own === issuer) return true
  if (typeof own !== 'string') return false
  const [start = '', end, ...rest] = own.split(template)
  if (end === undefined || rest.length > 0 || !issuer.startsWith(start) || !issuer.endsWith(end)) return false
  return /^[^/]+$/.test(issuer.slice(start.length, issuer.length - end.length))
}

/** A token may be tried with as many keys: each verification takes as long as the first. */
const maximumTries = 4

/** A key for encryption may have the `kid` of a key for signatures. */
const isForSignatures = ({ use }: PublishedJwk) => use === undefined || use === 'sig'

/** The keys of one issuer that count now. */
export class IssuerKeys {
  readonly #issuer: string
  #keys: readonly IssuerKey[] = []
  /** Empty for an id whose keys do not count: nothing better can be fetched for it. */
  #byKid: ReadonlyMap<string, readonly IssuerKey[]> = new Map()

  constructor (issuer: string) {
    this.#issuer = issuer
  }

  /** Returns the number of keys that count for one of some algorithms. */
  count (algorithms: Iterable<Algorithm>): number {
    const list = [...algorithms]
    return this.#keys.filter((key) => isAlive(key.life) && list.some((algorithm) => key.for(algorithm) !== null)).length
  }

  /** Whether a key counts for an algorithm. */
  has (algorithm: Algorithm): boolean {
    return this.#keys.some((key) => key.for(algorithm) !== null)
  }

  /**
   * Replaces the keys. Those that were there before keep their life, so that their tokens stay remembered; tokens of those
   * that are gone die.
   * @param until until when the keys count if they are not replaced again, in milliseconds since 1970
   * @returns how many keys without `kid` are left out: those after the first 100
   */
  replace (list: readonly PublishedJwk[], until: number): number {
    const before = new Map(this.#keys.map((key) => [identityOf(key.jwks[0]!), key]))
    // A private key that is published is known to everybody, and its "kid" must not be left to another one.
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
   * Finds the keys that a token may be signed with: those that fit, four at most (RFC 7515 appendix D).
   * @returns null where the keys that are meant do not count; undefined where none is known, so that a newer set may have it
   */
  find (algorithm: Algorithm, kid: string | undefined): readonly UsableKey[] | null | undefined {
    const named = kid === undefined ? this.#keys : this.#byKid.get(kid)
    const alive = named?.filter(({ life }) => isAlive(life)) ?? []
    const fitting = new Map(alive.flatMap((key) => {
      const found = key.for(algorithm)
      return found === null ? [] : [[found.verifying.fingerprint, found] as const]
    }))
    if (fitting.size > 0) return [...fitting.values()].slice(0, maximumTries)
    // A key that is too old counts again after the next set; one that is known and does not fit is no reason to read it.
    return kid === undefined || named === undefined || alive.length < named.length ? undefined : null
  }
}
