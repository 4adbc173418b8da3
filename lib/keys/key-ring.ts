/** The ring of the option `keys`: which key signs now, and which keys may have signed a token. */
import { InvalidConfiguration } from '../configuration-errors.ts'
import { accessorOf, keySettings, keyUseSettings, lifetimeSettings, type Settings } from '../settings/schema.ts'
import type { Resolved } from '../settings/configuration.ts'
import type { KeyStatus } from '../../types/keys.ts'
import { isHmac } from '../algorithms.ts'
import { endOfSigning, signingAt, type Period } from './calendar.ts'
import { publicJwk } from './key-id.ts'
import { isAlive, remove, type Life } from './life.ts'
import type { Key } from './material.ts'
import type { Entry } from './ring-entries.ts'

/** One key of a ring. */
export interface RingKey extends Omit<Entry, 'verifyUntil'> {
  readonly life: Life
}

/** A list of keys that passed every check. */
export interface KeyRing {
  readonly keys: readonly RingKey[]
  /** Finds the keys that may have signed a token with this header: at most one, unless it has no `kid`. */
  find (algorithm: string, kid: string | undefined): readonly RingKey[]
}

const none: readonly RingKey[] = []

/** Whether a key of the new list accepts all tokens that a key of the old list accepted. */
const isSame = (key: RingKey, { kid, verifying, signFrom }: Entry) =>
  // A key that gets its first date no longer accepts tokens without `kid`.
  key.kid === kid && key.verifying.fingerprint === verifying.fingerprint && (key.signFrom !== -Infinity || signFrom === -Infinity)

/**
 * Creates a ring. Keys that were in the ring before keep their life, so that their tokens stay remembered.
 * @param before the previous ring. Tokens of its keys that are not in the list become invalid
 */
export function createRing (entries: readonly Entry[], before?: KeyRing): KeyRing {
  const keys = entries.map((entry): RingKey => {
    const { verifyUntil, ...rest } = entry
    const life = before?.keys.find((known) => isSame(known, entry))?.life ?? { until: verifyUntil }
    life.until = verifyUntil
    return { ...rest, life }
  })
  const kept = new Set(keys.map(({ life }) => life))
  for (const { life } of before?.keys ?? []) if (!kept.has(life)) remove(life)

  const byKid = new Map(keys.map((key) => [key.kid, [key]]))
  // Only undated keys verify tokens without `kid`; this bounds the cost of forgeries.
  const undated = keys.filter(({ signFrom }) => signFrom === -Infinity)
  return {
    keys,
    find (algorithm, kid) {
      if (kid === undefined) return undated.filter((key) => key.algorithm === algorithm)
      const found = byKid.get(kid) ?? none
      return found[0]?.algorithm === algorithm ? found : none
    }
  }
}

const iso = (time: number) => new Date(time).toISOString()
const isoOrNull = (time: number) => Number.isFinite(time) ? iso(time) : null

/** Checks that tokens do not outlive their key. @param leeway of the registration or of a guard, in seconds */
function checkEnd (entry: Entry, index: number, entries: readonly Period[], { settings, getters }: Resolved, leeway: number): void {
  const { verifyUntil } = entry
  if (verifyUntil === Infinity) return
  const name = `keys[${index}].verifyUntil`
  const getter = lifetimeSettings.find((setting) => getters.has(setting))
  if (getter !== undefined) {
    throw new InvalidConfiguration(
      `"${name}" and "${accessorOf('get', getter)}" are given, so it is not known how long tokens live. Give "${getter}", or remove "verifyUntil".`,
      { finding: 'E14' }
    )
  }
  if (!settings.verifyExp) {
    throw new InvalidConfiguration(
      `"${name}" is given, and "verifyExp" is false, so tokens of this key have no end. Set "verifyExp" to true, or remove "verifyUntil".`,
      { finding: 'E14' }
    )
  }
  const end = endOfSigning(entry, entries)
  if (end === Infinity) {
    throw new InvalidConfiguration(
      `"${name}" is given, but no key signs after this one. Add a key with a later "signFrom", or remove "verifyUntil".`,
      { finding: 'E14' }
    )
  }
  const earliest = end + (settings.expirationDelta + leeway) * 1000
  if (verifyUntil < earliest) {
    throw new InvalidConfiguration(
      `"${name}" is ${iso(verifyUntil)}, but the key signs until ${iso(end)}, and its tokens stay valid for ${settings.expirationDelta + leeway} seconds ("expirationDelta" and "leeway") after that. Set it to ${iso(earliest)} or later.`,
      { finding: 'E14' }
    )
  }
}

/**
 * Checks a list of keys as a whole.
 * @param leeway the longest leeway of the registration and its guards, in seconds
 * @throws {InvalidConfiguration} if no key signs, or tokens outlive their key
 */
export function checkEntries (entries: readonly Entry[], resolved: Resolved, leeway: number): void {
  const { settings } = resolved
  if (settings.authMode && signingAt(entries, Date.now()) === undefined) {
    throw new InvalidConfiguration(
      'No key of "keys" signs now. Give a secret or private key without "signFrom", or with a "signFrom" in the past. An instance that only verifies sets "authMode" to false.',
      { finding: 'E13' }
    )
  }
  for (const [index, entry] of entries.entries()) checkEnd(entry, index, entries, resolved, leeway)
  if (settings.pathToJwks !== null) {
    checkPublished(entries.some(({ algorithm, verifyUntil }) => !isHmac(algorithm) && verifyUntil > Date.now()))
  }
}

/** @throws {InvalidConfiguration} if the endpoint of public keys would publish none */
export function checkPublished (hasPublicKey: boolean): void {
  if (hasPublicKey) return
  throw new InvalidConfiguration(
    '"pathToJwks" is given, but there is no public key to publish: secrets are never published, and keys that are computed per request are not known. Use a pair of keys, or remove "pathToJwks".',
    { finding: 'E16' }
  )
}

/** Checks that an instance with `keys` has no other keys, and no getters of keys or `tokenCacheSize`. @throws {InvalidConfiguration} */
export function checkBeside ({ keys, getters }: Resolved): void {
  const given = keys()
  const key = keySettings.find((name) => given[name] !== undefined)
  if (key !== undefined) {
    throw new InvalidConfiguration(
      `"keys" and "${key}" are given. "keys" contains all keys of an instance: add this key to it as an entry, and remove "${key}".`,
      { finding: 'E11' }
    )
  }
  const getter = [...keyUseSettings, 'tokenCacheSize' as const].find((name) => getters.has(name))
  if (getter !== undefined) {
    throw new InvalidConfiguration(
      `"keys" and "${accessorOf('get', getter)}" are given. With "keys", all requests have the same keys and remembered tokens: remove "${accessorOf('get', getter)}".`,
      { finding: 'E11' }
    )
  }
}

/** Checks the overrides of a guard. @param option the option that has all keys. @throws {InvalidConfiguration} */
export function checkKeyOverrides (overrides: Readonly<Record<string, unknown>>, option: 'keys' | 'issuers'): void {
  const name = keyUseSettings.find((setting) => overrides[setting] !== undefined)
  if (name !== undefined) {
    throw new InvalidConfiguration(
      `A guard overrides "${name}". With "${option}", all guards of an instance have the same keys: remove the override, or register another instance.`,
      { finding: 'E11' }
    )
  }
}

/** Whether a ring has both secrets and pairs of keys. */
export function isMixed ({ keys }: KeyRing): boolean {
  return new Set(keys.map(({ algorithm }) => isHmac(algorithm))).size > 1
}

/** Describes the keys of a ring, without key material. */
export function statusOf ({ keys }: KeyRing): KeyStatus['keys'] {
  const now = Date.now()
  const signing = signingAt(keys, now)
  return keys.map((key) => {
    const { kid, algorithm, signFrom, life: { until } } = key
    const state = now >= until ? 'gone' : key === signing ? 'signing' : signFrom > now ? 'next' : 'verifying'
    return { kid, algorithm, state, signFrom: isoOrNull(signFrom), verifyUntil: isoOrNull(until) }
  })
}

/** Creates a JWK set (RFC 7517 section 5) of public keys. */
export function jwkSet (
  keys: ReadonlyArray<{ readonly kid: string; readonly algorithm: Settings['algorithm']; readonly verifying: Key }>
): string {
  return JSON.stringify({
    keys: keys.map(({ kid, algorithm, verifying }) => ({ ...publicJwk(verifying.keyObject), kid, alg: algorithm, use: 'sig' }))
  })
}

/** Returns the JWK set of a ring: the public keys whose tokens are valid, now or later. Never a secret. */
export function jwkSetOf ({ keys }: KeyRing): string {
  return jwkSet(keys.filter(({ algorithm, life }) => !isHmac(algorithm) && isAlive(life)))
}
