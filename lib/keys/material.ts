/** Turns key material of any form into a checked key that signs or verifies. */
import { createHash, createPrivateKey, createPublicKey, createSecretKey, sign, verify, type KeyObject } from 'node:crypto'
import { existsSync } from 'node:fs'
import { InvalidConfiguration, RequiredKeysNotFound } from '../configuration-errors.ts'
import type { KeySetting } from '../settings/schema.ts'
import { algorithmTable, isHmac, type Algorithm } from '../algorithms.ts'
import { asymmetricForm } from './disguised-keys.ts'
import { checkPairHalf } from './key-checks.ts'
import { checkIntendedUse, readMaterial, type Jwk, type ReadMaterial } from './key-forms.ts'
import { publicJwk } from './key-id.ts'
import { weaknessOf } from './known-secrets.ts'
import { residueOf } from './residue.ts'

/** A checked key. */
export interface Key {
  readonly keyObject: KeyObject
  /** The key for fast-jwt: PEM, or the bytes of a secret. */
  readonly material: Buffer
  /** Digest of the algorithm and of the secret or public key: the same for both halves of a pair. Never leaves the process. */
  readonly fingerprint: string
  /** The secret is shorter than the hash of its algorithm (RFC 7518 section 3.2), or it can be guessed regardless of its length. */
  readonly isWeak: boolean
  /** Advice on characters that probably do not belong to the secret; undefined if there are none. */
  readonly residue: string | undefined
}

/** Returns the first residue of some keys. */
export const residueIn = (keys: readonly Key[]): string | undefined => keys.find(({ residue }) => residue !== undefined)?.residue

/** In bytes. A shorter secret can be guessed from one token, so that production refuses it. */
const minimumSecretLength = 32

function fingerprint (algorithm: Algorithm, material: Buffer | string): string {
  return createHash('sha256').update(algorithm).update('\0').update(material).digest('base64url')
}

function refusePassphrase (name: string, material: ReadMaterial): void {
  if (!('passphrase' in material) || material.passphrase === undefined) return
  throw new InvalidConfiguration(
    `"${name}" has a passphrase, but only a private key is encrypted with one. Use the form without "passphrase".`,
    { finding: 'E07' }
  )
}

/** The secret in a JWK with `kty: "oct"` (RFC 7518 section 6.4). */
function octBytes (name: string, { k }: Jwk): Buffer {
  // Node.js would ignore other characters, and the secret would be shorter than intended.
  if (typeof k === 'string' && /^[\w-]*$/.test(k)) return Buffer.from(k, 'base64url')
  throw new InvalidConfiguration(
    `"${name}" is a JWK whose "k" is not base64url without padding (RFC 7518 section 6.4.1). Give the secret in this form, or as text or a Buffer.`,
    { finding: 'E07' }
  )
}

/** Describes material that cannot be a secret; otherwise returns undefined. */
function pairForm (material: ReadMaterial): string | undefined {
  if ('object' in material) return material.object.type === 'secret' ? undefined : `a ${material.object.type} key`
  return 'jwk' in material && material.jwk.kty !== 'oct' ? 'a JWK of another type than "oct"' : undefined
}

function secretBytes (name: string, material: ReadMaterial): Buffer {
  if ('object' in material) return material.object.export()
  return 'jwk' in material ? octBytes(name, material.jwk) : material.bytes
}

/**
 * Checks the secret of an HS algorithm.
 * @param name the setting that holds it, for messages
 * @param operation the use of the secret, which a JWK must permit
 * @throws {InvalidConfiguration} for a blank secret or an asymmetric key; in production also for a short or guessable secret
 */
export function hmacKey (algorithm: Algorithm, name: string, value: unknown, operation: 'sign' | 'verify'): Key {
  const { hashLength } = algorithmTable[algorithm]
  const source = readMaterial(name, value)
  let form = pairForm(source)
  const bytes = form === undefined ? secretBytes(name, source) : Buffer.alloc(0)
  form ??= asymmetricForm(bytes)
  if (form !== undefined) {
    const hint = form === 'a JWK' ? ' Give a JWK with "kty": "oct" as an object, not as text.' : ''
    throw new InvalidConfiguration(
      `"${name}" is ${form}, but ${algorithm} signs with a secret (RFC 8725 section 2.1). Use an RS, PS, ES or EdDSA algorithm with this key, or a random secret with ${algorithm}.${hint}`,
      { finding: 'E02' }
    )
  }
  refusePassphrase(name, source)
  if (typeof value === 'string' && pathForm.test(value) && existsSync(value)) {
    throw new InvalidConfiguration(
      `"${name}" is the path of a file, but text is the secret itself, so everyone who knows the path could sign tokens. Give { path } or a file: URL.`,
      { finding: 'E08' }
    )
  }
  if ('jwk' in source) checkIntendedUse(algorithm, name, source.jwk, operation)
  if (bytes.toString().trim() === '') {
    throw new InvalidConfiguration(`"${name}" is empty or blank. Give a random secret of at least ${hashLength} bytes.`, { finding: 'E01' })
  }
  if (bytes.length < minimumSecretLength && process.env.NODE_ENV === 'production') {
    throw new InvalidConfiguration(
      `"${name}" is shorter than ${minimumSecretLength} bytes, and NODE_ENV is "production": it can be guessed from one token. Give a random secret of at least ${hashLength} bytes.`,
      { finding: 'E23' }
    )
  }
  const weakness = weaknessOf(bytes)
  if (weakness !== undefined && process.env.NODE_ENV === 'production') {
    throw new InvalidConfiguration(
      `"${name}" ${weakness}, and NODE_ENV is "production": whoever guesses it can issue tokens. Give a random secret of at least ${hashLength} bytes.`,
      { finding: 'E23' }
    )
  }
  return {
    keyObject: createSecretKey(bytes),
    material: bytes,
    fingerprint: fingerprint(algorithm, bytes),
    isWeak: bytes.length < hashLength || weakness !== undefined,
    residue: 'bytes' in source ? residueOf(bytes) : undefined
  }
}

const pathForm = /^(?:\.{0,2}|~|[a-z]:)[\\/]/i

/** Defects of PEM from environment variables and configuration files, by the advice for messages. */
const spoiled = {
  'It begins or ends with a quotation mark: remove the quotation marks around it, which many tools treat as a part of the value.':
    /^\s*["'`]|["'`],?\s*$/,
  'Its line ends are written as "\\n", as in many environment files: replace them by line ends, as .replaceAll("\\\\n", "\\n") does.':
    /\\n/,
  'Its lines are joined: keep the line ends, at least those after the first and before the last line.':
    /-----BEGIN [A-Z ]+-----(?! *\r?\n|\\)/,
  'Its lines are indented: remove the spaces at their beginning.': /^[ \t]+\S/m
} as const

/** Returns advice on text that is not a key, without quoting it. */
function hint (text: string): string {
  if (pathForm.test(text.trim()) || /^file:|^[^\n]*\.\w{3,4}$/i.test(text.trim())) {
    return ' It looks like the path of a file, but text is the key itself: give { path } or a file: URL.'
  }
  if (/^\s*\{/.test(text)) return ' Give a JWK as an object, not as text: parse it with JSON.parse().'
  if (Buffer.from(text, 'base64').includes('-----BEGIN ')) return ' It is PEM in Base64: decode it, as Buffer.from(text, "base64") does.'
  if (!text.includes('-----')) return ' If it is a secret, set "algorithm" to HS256, HS384 or HS512.'
  return Object.entries(spoiled).flatMap(([advice, pattern]) => pattern.test(text) ? [` ${advice}`] : []).join('')
}

type Half = 'public' | 'private'

const privatePem = /-----BEGIN [A-Z ]*PRIVATE KEY-----/
const publicPem = /-----BEGIN (?:[A-Z ]*PUBLIC KEY|CERTIFICATE)-----/

/** Describes the kind of a key in PEM. Both halves together are neither: the file of a public key is not kept secret. */
function kindOfPem (half: Half, text: string): string {
  const isPublic = publicPem.test(text)
  if (privatePem.test(text)) return isPublic ? 'private key together with a public key or certificate' : 'private key'
  return isPublic && half === 'private' ? 'public key or certificate' : `${half} key`
}

/** Describes the kind of a key by what it declares, before it is parsed. */
function kindOf (half: Half, source: ReadMaterial): string {
  if ('object' in source) return `${source.object.type} key`
  if ('jwk' in source) return source.jwk.kty === 'oct' ? 'secret key' : 'd' in source.jwk ? 'private key' : 'public key'
  return kindOfPem(half, source.bytes.toString('latin1'))
}

/** Whether material for an asymmetric algorithm is, or should be, a private key. */
export function isPrivate (source: ReadMaterial): boolean {
  if ('object' in source) return source.object.type === 'private'
  return 'jwk' in source ? 'd' in source.jwk : privatePem.test(source.bytes.toString('latin1'))
}

function fromJwk (half: Half, name: string, jwk: Jwk): KeyObject {
  try {
    return half === 'public' ? createPublicKey({ key: jwk, format: 'jwk' }) : createPrivateKey({ key: jwk, format: 'jwk' })
  } catch {
    // Here and below without the original error as the cause: it may quote the input.
    throw new InvalidConfiguration(
      `"${name}" is a JWK that cannot be read as a ${half} key. Check its members: "kty", and those that this type needs (RFC 7518 section 6, RFC 8037 section 2).`,
      { finding: 'E07' }
    )
  }
}

function fromPublicPem (name: string, pem: Buffer): KeyObject {
  try {
    return createPublicKey(pem)
  } catch {
    throw new InvalidConfiguration(
      `"${name}" is not a public key or certificate in PEM form; give one ("-----BEGIN PUBLIC KEY-----").${hint(pem.toString('latin1'))}`,
      { finding: 'E07' }
    )
  }
}

function fromPrivatePem (name: string, key: Buffer, passphrase: string | undefined): KeyObject {
  const text = key.toString('latin1')
  // PKCS 8 states it in the first line, the older form in a header (RFC 1421 section 4.6.1.1).
  const isEncrypted = /-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: *4, *ENCRYPTED/m.test(text)
  if (isEncrypted && passphrase === undefined) {
    throw new InvalidConfiguration(`"${name}" is encrypted; give its passphrase too, as { pem, passphrase } or { path, passphrase }.`, {
      finding: 'E07'
    })
  }
  try {
    return createPrivateKey({ key, ...(passphrase !== undefined && { passphrase }) })
  } catch {
    if (isEncrypted) {
      throw new InvalidConfiguration(
        `"${name}" cannot be decrypted with its passphrase. Check the passphrase, and that the file or text is complete.`,
        { finding: 'E07' }
      )
    }
    throw new InvalidConfiguration(`"${name}" is not a private key in PEM form; give one ("-----BEGIN PRIVATE KEY-----").${hint(text)}`, {
      finding: 'E07'
    })
  }
}

function parseHalf (half: Half, name: string, source: ReadMaterial): KeyObject {
  if ('object' in source) return source.object
  if ('jwk' in source) return fromJwk(half, name, source.jwk)
  return half === 'public' ? fromPublicPem(name, source.bytes) : fromPrivatePem(name, source.bytes, source.passphrase)
}

/** Reads and checks one half of a pair. */
function readHalf (half: Half, algorithm: Algorithm, name: string, value: unknown): KeyObject {
  const source = readMaterial(name, value)
  const kind = kindOf(half, source)
  if (kind !== `${half} key`) {
    throw new InvalidConfiguration(`"${name}" is a ${kind}; give the ${half} key of the pair.`, { finding: 'E07' })
  }
  if (half === 'public') refusePassphrase(name, source)
  if ('jwk' in source) checkIntendedUse(algorithm, name, source.jwk, half === 'public' ? 'verify' : 'sign')
  const key = parseHalf(half, name, source)
  checkPairHalf(algorithm, name, key)
  return key
}

/** Creates a key from one half of a pair. `material` is a getter, because the export as PEM is slow and some keys are never used. */
function pairKey (algorithm: Algorithm, keyObject: KeyObject, publicHalf: KeyObject, type: 'spki' | 'pkcs8'): Key {
  return {
    keyObject,
    get material () { return Buffer.from(keyObject.export({ type, format: 'pem' })) },
    fingerprint: fingerprint(algorithm, JSON.stringify(publicJwk(publicHalf))),
    isWeak: false,
    residue: undefined
  }
}

/** Checks the public key of an asymmetric algorithm. @throws {InvalidConfiguration} */
export function publicKey (algorithm: Algorithm, name: string, value: unknown): Key {
  const keyObject = readHalf('public', algorithm, name, value)
  return pairKey(algorithm, keyObject, keyObject, 'spki')
}

function areConsistent (privateHalf: KeyObject, publicHalf: KeyObject): boolean {
  const data = Buffer.from('anything')
  try {
    if (privateHalf.asymmetricKeyType === 'ed25519') {
      // Computes the public key again, in a quarter of the time that a signature and its verification take.
      return createPublicKey(createPrivateKey({ key: privateHalf.export({ format: 'jwk' }), format: 'jwk' })).equals(publicHalf)
    }
    return verify(null, data, publicHalf, sign(null, data, privateHalf))
  } catch {
    // OpenSSL throws if it cannot compute with the numbers of a key.
    return false
  }
}

/**
 * OpenSSL does not compare the public numbers in a private key with the private ones. A key with the public numbers of
 * another key would have the fingerprint of that key, and share its signer: a person who can configure it could sign as
 * the owner of the other key.
 */
function checkConsistency (name: string, privateHalf: KeyObject, publicHalf: KeyObject): void {
  if (areConsistent(privateHalf, publicHalf)) return
  throw new InvalidConfiguration(
    `"${name}" holds public and private numbers that do not belong together, so no verifier would accept its signatures. Give a complete key, or make a new pair.`,
    { finding: 'E06' }
  )
}

/** Checks the private key of an asymmetric algorithm. @throws {InvalidConfiguration} */
export function privateKey (algorithm: Algorithm, name: string, value: unknown): Key {
  const keyObject = readHalf('private', algorithm, name, value)
  const publicHalf = createPublicKey(keyObject)
  checkConsistency(name, keyObject, publicHalf)
  return pairKey(algorithm, keyObject, publicHalf, 'pkcs8')
}

/** Checks that two keys are the halves of one pair, so that one verifies tokens that the other signs. @throws {InvalidConfiguration} */
export function checkPair (signing: Key, verifying: Key): void {
  if (signing.fingerprint === verifying.fingerprint) return
  throw new InvalidConfiguration(
    '"privateKey" and "publicKey" are not the halves of one pair, so no token signed with the one would be accepted with the other. Give both halves of one pair.',
    { finding: 'E06' }
  )
}

/** Key material by the name of its setting. */
export type ConfiguredKeys = Readonly<Partial<Record<KeySetting, unknown>>>

/** The settings that may hold the key that verifies, the preferred one first: `publicKey` is an alias of `secret`. */
export function verifyingNames (algorithm: Algorithm): readonly KeySetting[] {
  return isHmac(algorithm) ? ['secret', 'publicKey'] : ['publicKey', 'secret']
}

/** The settings that may hold the key that signs, the preferred one first. */
export function signingNames (algorithm: Algorithm): readonly KeySetting[] {
  return isHmac(algorithm) ? verifyingNames(algorithm) : ['privateKey']
}

/** Finds the first of several settings that holds a key. */
export function pick (names: readonly KeySetting[], keys: ConfiguredKeys): [KeySetting, unknown] | undefined {
  for (const name of names) if (keys[name] !== undefined && keys[name] !== null) return [name, keys[name]]
  return undefined
}

/**
 * The key that verifies.
 * @throws {RequiredKeysNotFound} if there is none
 * @throws {InvalidConfiguration} if the algorithm cannot use it
 */
export function verifyingKey (algorithm: Algorithm, keys: ConfiguredKeys): Key {
  const found = pick(verifyingNames(algorithm), keys)
  if (found === undefined) {
    throw new RequiredKeysNotFound(
      `${algorithm} needs "${verifyingNames(algorithm)[0]}" to verify tokens. Give it to register(), as text, Buffer, KeyObject, JWK, file: URL or { path }.`,
      { page: 'settings.md' }
    )
  }
  return isHmac(algorithm) ? hmacKey(algorithm, ...found, 'verify') : publicKey(algorithm, ...found)
}

/**
 * The key that signs.
 * @throws {RequiredKeysNotFound} if there is none
 * @throws {InvalidConfiguration} if the algorithm cannot use it
 */
export function signingKey (algorithm: Algorithm, keys: ConfiguredKeys): Key {
  const found = pick(signingNames(algorithm), keys)
  if (found === undefined) {
    throw new RequiredKeysNotFound(
      `${algorithm} needs "${signingNames(algorithm)[0]}" to issue tokens. Give it to register(); an instance that only verifies sets "authMode" to false.`,
      { page: 'settings.md' }
    )
  }
  return isHmac(algorithm) ? hmacKey(algorithm, ...found, 'sign') : privateKey(algorithm, ...found)
}
