/** Reads and checks the entries of the option `keys`. */
import { createPublicKey } from 'node:crypto'
import type { KeyMaterial } from '../../types/keys.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { describeGiven, isText, quote } from '../values.ts'
import { ofSetting } from '../settings/check.ts'
import { matching, listOf, oneOf, textLike, Wrong, type Kind } from '../settings/kinds.ts'
import { entryAt, optional, preset, readRecord, readValue, required } from '../settings/records.ts'
import type { Settings } from '../settings/schema.ts'
import { algorithmNamed, algorithms, isHmac, type Algorithm } from '../algorithms.ts'
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
  /** Until when its tokens are valid, in milliseconds since 1970; Infinity: as long as it is in the list. */
  readonly verifyUntil: number
}

const page = 'keys.md'
const maximumKeys = 16

const kid = required(
  textLike('text of 1 to 256 visible ASCII characters', (text) => /^[!-~]{1,256}$/.test(text)),
  { finding: 'E12', advice: 'Choose another one, or leave it out for the default.' }
)

/** As milliseconds since 1970. */
const date: Kind<number> = {
  allowed: 'a Date, or ISO 8601 text with a time zone such as "2027-01-01T00:00:00Z", from 1970 to 9999',
  read: (value) =>
    readDate(value) ??
    new Wrong(isText(value) ? quote(value) : value instanceof Date ? 'a Date that is invalid or out of range' : describeGiven(value))
}
const aboutDates = { finding: 'E13', advice: 'Check the date, and give the time zone.' }

/** An entry of the option `keys`. */
export const signingKey = {
  members: {
    key: required(ofSetting<KeyMaterial>('secret')),
    algorithm: optional(oneOf(algorithms)),
    // Checked in `readEntry`, like the `kid` of a JWK.
    kid: optional(matching<unknown>(kid.allowed)),
    signFrom: preset(date, -Infinity, aboutDates),
    verifyUntil: preset(date, Infinity, aboutDates)
  },
  example: '{ key, signFrom }',
  page
} as const

const list = required(
  listOf(`a list of 1 to ${maximumKeys} keys such as [{ key }], or a function that returns one`, matching<unknown>('a key'), {
    most: maximumKeys
  }),
  { finding: 'E12', advice: 'Give at least one key, and remove the keys whose tokens have expired.' }
)

/** Reads the halves of a key from material that was already read, so that a file is read once. */
function readHalves (algorithm: Algorithm, name: string, source: ReadMaterial): { verifying: Key; signing: Key | undefined } {
  const value =
    'object' in source
      ? source.object
      : 'jwk' in source
        ? source.jwk
        : source.passphrase === undefined
          ? source.bytes
          : { pem: source.bytes, passphrase: source.passphrase }
  if (isHmac(algorithm)) {
    const verifying = hmacKey(algorithm, name, value, 'verify')
    return { verifying, signing: 'jwk' in source ? hmacKey(algorithm, name, value, 'sign') : verifying }
  }
  if (!isPrivate(source)) return { verifying: publicKey(algorithm, name, value), signing: undefined }
  const signing = privateKey(algorithm, name, value)
  return { verifying: publicKey(algorithm, name, createPublicKey(signing.keyObject)), signing }
}

function readEntry (value: unknown, path: string, settings: Settings): Entry {
  const place = entryAt(path)
  const entry = readRecord(place, value, signingKey)
  const name = `${path}.key`
  const source = readMaterial(name, entry.key)
  const jwk = 'jwk' in source ? source.jwk : undefined
  // `checkIntendedUse` compares the result with the members of a JWK.
  const algorithm = entry.algorithm ?? algorithmNamed(jwk?.alg) ?? settings.algorithm
  const { verifying, signing } = readHalves(algorithm, name, source)
  const ownKid = entry.kid === undefined ? jwk?.kid : entry.kid
  return {
    kid: ownKid === undefined ? defaultKid(verifying.keyObject) : readValue(place.nameOf('kid'), ownKid, kid, signingKey),
    algorithm,
    verifying,
    signing,
    canSign: signing !== undefined,
    signFrom: entry.signFrom,
    verifyUntil: entry.verifyUntil
  }
}

/**
 * Reads a list of keys.
 * @throws {InvalidConfiguration} also for two keys with the same id
 */
export function readEntries (value: unknown, settings: Settings): readonly Entry[] {
  const entries = readValue('"keys"', value, list, signingKey).map((entry, index) => readEntry(entry, `keys[${index}]`, settings))
  for (const [index, { kid }] of entries.entries()) {
    const first = entries.findIndex((other) => other.kid === kid)
    if (first !== index) {
      throw new InvalidConfiguration(
        `"keys[${index}]" and "keys[${first}]" have the same "kid", so a token would not identify the key that signed it. Remove one of them, or give another "kid".`,
        { finding: 'E12' }
      )
    }
  }
  return entries
}
