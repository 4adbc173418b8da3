/** The entries of the option `keys`: read and checked, each by itself. */
import { createPublicKey } from 'node:crypto'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { describeOther, isPlainObject, typeName } from '../values.ts'
import { allowedValues, describeValue, fits } from '../settings/check.ts'
import type { Settings } from '../settings/schema.ts'
import { suggest } from '../settings/suggest.ts'
import { isHmac, type Algorithm } from './algorithms.ts'
import { readDate, type Period } from './calendar.ts'
import { readMaterial, type ReadMaterial } from './key-forms.ts'
import { defaultKid } from './key-id.ts'
import { hmacKey, isPrivate, privateKey, publicKey, type Key } from './material.ts'

/** One entry, checked. */
export interface Entry extends Period {
  readonly kid: string
  readonly algorithm: Algorithm
  readonly verifying: Key
  /** Undefined for a public key. */
  readonly signing: Key | undefined
  /** Until when its tokens count, in milliseconds since 1970; Infinity: as long as it is in the list. */
  readonly verifyUntil: number
}

const members = ['key', 'algorithm', 'kid', 'signFrom', 'verifyUntil']
const maximumKeys = 16
const kidForm = /^[!-~]{1,256}$/
const page = 'keys.md'

function readTime (name: string, value: unknown): number | undefined {
  if (value === undefined) return undefined
  const time = readDate(value)
  if (time !== undefined) return time
  const found = typeof value === 'string' ? JSON.stringify(value.slice(0, 60)) : value instanceof Date ? 'a Date that is invalid or out of range' : typeName(value)
  throw new InvalidConfiguration(`"${name}" must be a Date, or ISO 8601 text with a time zone such as "2027-01-01T00:00:00Z", from 1970 to 9999; given: ${found}. Check the date, and give the time zone.`, { finding: 'E13', page })
}

function readKid (name: string, value: unknown): string {
  if (typeof value === 'string' && kidForm.test(value)) return value
  throw new InvalidConfiguration(`"${name}" must have 1 to 256 visible ASCII characters; given: ${typeof value === 'string' ? 'a string of another form' : typeName(value)}. Choose another one, or leave it out for the default.`, { finding: 'E12', page })
}

function readAlgorithm (name: string, value: unknown, source: ReadMaterial, fallback: Algorithm): Algorithm {
  // What a JWK says is compared where the key is checked.
  const alg = 'jwk' in source && fits('algorithm', source.jwk.alg) ? source.jwk.alg : fallback
  const algorithm = value === undefined ? alg : value
  if (fits('algorithm', algorithm)) return algorithm as Algorithm
  throw new InvalidConfiguration(`"${name}" must be ${allowedValues('algorithm')}; given: ${describeValue('algorithm', value)}.`, { page })
}

/** Reads the halves of a key. The material was read before, so that a file is read once. */
function readHalves (algorithm: Algorithm, name: string, source: ReadMaterial): { verifying: Key, signing: Key | undefined } {
  const value = 'object' in source ? source.object : 'jwk' in source ? source.jwk : source.passphrase === undefined ? source.bytes : { pem: source.bytes, passphrase: source.passphrase }
  if (isHmac(algorithm)) {
    const verifying = hmacKey(algorithm, name, value, 'verify')
    return { verifying, signing: 'jwk' in source ? hmacKey(algorithm, name, value, 'sign') : verifying }
  }
  if (!isPrivate(source)) return { verifying: publicKey(algorithm, name, value), signing: undefined }
  const signing = privateKey(algorithm, name, value)
  return { verifying: publicKey(algorithm, name, createPublicKey(signing.keyObject)), signing }
}

function readEntry (given: unknown, place: string, settings: Settings): Entry {
  if (!isPlainObject(given)) {
    throw new InvalidConfiguration(`"${place}" must be a plain object, such as { key, signFrom }; given: ${describeOther(given)}.`, { page })
  }
  const unknown = Object.keys(given).find((name) => !members.includes(name))
  if (unknown !== undefined) throw new InvalidConfiguration(`"${place}" has the unknown member "${unknown}".${suggest(unknown, members)} An entry has ${members.join(', ')}.`, { page })
  // Without a prototype, so that members of a polluted `Object.prototype` do not count. Each is read once.
  const entry: Record<string, unknown> = Object.assign(Object.create(null), given)
  const name = `${place}.key`
  if (!fits('secret', entry.key)) throw new InvalidConfiguration(`"${name}" must be ${allowedValues('secret')}; given: ${typeName(entry.key)}.`, { page })
  const source = readMaterial(name, entry.key)
  const algorithm = readAlgorithm(`${place}.algorithm`, entry.algorithm, source, settings.algorithm)
  const { verifying, signing } = readHalves(algorithm, name, source)
  const kid = entry.kid === undefined && 'jwk' in source ? source.jwk.kid : entry.kid
  return {
    kid: kid === undefined ? defaultKid(verifying.keyObject) : readKid(`${place}.kid`, kid),
    algorithm,
    verifying,
    signing,
    canSign: signing !== undefined,
    signFrom: readTime(`${place}.signFrom`, entry.signFrom) ?? -Infinity,
    verifyUntil: readTime(`${place}.verifyUntil`, entry.verifyUntil) ?? Infinity
  }
}

/**
 * Reads a list of keys.
 * @throws {InvalidConfiguration} also for two keys of one id, which a token could not tell apart
 */
export function readEntries (list: unknown, settings: Settings): readonly Entry[] {
  if (!Array.isArray(list)) throw new InvalidConfiguration(`"keys" must be a list of keys such as [{ key }], or a function that returns one; given: ${typeName(list)}.`, { page })
  if (list.length === 0) throw new InvalidConfiguration('"keys" is an empty list, so no token could be issued or accepted. Give at least one key: [{ key }].', { finding: 'E12', page })
  if (list.length > maximumKeys) throw new InvalidConfiguration(`"keys" has ${list.length} entries; at most ${maximumKeys} are allowed. Remove the keys whose tokens no longer count.`, { finding: 'E12', page })
  const entries = Array.from(list, (given: unknown, index) => readEntry(given, `keys[${index}]`, settings))
  for (const [index, { kid }] of entries.entries()) {
    const first = entries.findIndex((other) => other.kid === kid)
    if (first !== index) throw new InvalidConfiguration(`"keys[${index}]" and "keys[${first}]" have the same "kid", so a token would not say with which of them it is signed. Remove one of them, or give another "kid".`, { finding: 'E12', page })
  }
  return entries
}
