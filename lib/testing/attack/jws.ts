/** Signs tokens with node:crypto only, so that the tested code does not verify itself. */
import {
  constants,
  createHmac,
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  generateKeyPairSync,
  randomBytes,
  sign as signBytes,
  verify as verifyBytes,
  type KeyObject
} from 'node:crypto'
import { types } from 'node:util'
import type { JsonWebKey } from '../../../types/keys.ts'
import { InvalidConfiguration } from '../../configuration-errors.ts'
import { algorithms, algorithmTable, isHmac, type Algorithm } from '../../algorithms.ts'
import { bytesOf, memberOf } from '../../values.ts'

/** A key as text (a secret, or PEM), bytes, `KeyObject` or JWK. */
export type AttackKey = string | ArrayBufferView | ArrayBuffer | KeyObject | JsonWebKey

/** A token, read without any verification. */
export interface ReadToken {
  readonly text: string
  readonly algorithm: Algorithm
  readonly header: Readonly<Record<string, unknown>>
  readonly payload: Readonly<Record<string, unknown>>
  readonly signature: Buffer
}

export const encode = (value: string | Uint8Array): string => Buffer.from(value).toString('base64url')

/** Encodes a header and a payload as they are signed. */
export const inputOf = (header: unknown, payload: unknown): string => `${encode(JSON.stringify(header))}.${encode(JSON.stringify(payload))}`

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)

function parse (segment: string): unknown {
  try {
    return JSON.parse(Buffer.from(segment, 'base64url').toString())
  } catch {
    return undefined
  }
}

/** @throws {InvalidConfiguration} where the text is no JSON Web Token of a known algorithm */
export function readToken (text: unknown): ReadToken {
  const [head = '', body = '', signature = '', ...others] = typeof text === 'string' ? text.split('.') : []
  const [header, payload] = [parse(head), parse(body)]
  if (typeof text !== 'string' || signature === '' || others.length > 0 || !isRecord(header) || !isRecord(payload)) {
    throw new InvalidConfiguration(
      `"token" of attack() must be a signed JSON Web Token, as createTestToken() creates it; given: ${typeof text === 'string' ? 'another text' : typeof text}.`,
      { page: 'testing.md' }
    )
  }
  const algorithm = algorithms.find((name) => name === header.alg)
  if (algorithm === undefined) {
    throw new InvalidConfiguration(
      `"token" of attack() is signed with an algorithm that attack() does not know. Give a token of ${algorithms.join(', ')}.`,
      { page: 'testing.md' }
    )
  }
  return { text, algorithm, header, payload, signature: Buffer.from(signature, 'base64url') }
}

const optionsOf = {
  HMAC: {},
  RSA: { padding: constants.RSA_PKCS1_PADDING },
  'RSA-PSS': { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST },
  EC: { dsaEncoding: 'ieee-p1363' },
  Ed25519: {}
} as const

/** The algorithm Ed25519 includes its hash. */
const hashOf = (algorithm: Algorithm) => algorithmTable[algorithm].curve === 'ed25519' ? null : algorithmTable[algorithm].hash

/** Returns the signature of `<header>.<payload>`. */
export function signatureOf (input: string, algorithm: Algorithm, key: KeyObject): Buffer {
  const { signatureType, hash } = algorithmTable[algorithm]
  if (signatureType === 'HMAC') return createHmac(hash, key).update(input).digest()
  return signBytes(hashOf(algorithm), Buffer.from(input), { key, ...optionsOf[signatureType] })
}

/** Signs an input, whatever algorithm its header names. */
export const signed = (input: string, algorithm: Algorithm, key: KeyObject): string =>
  `${input}.${encode(signatureOf(input, algorithm, key))}`

/** Whether a secret, or the public half of a key, verifies a token. */
export function verifies (key: KeyObject, { text, algorithm, signature }: ReadToken): boolean {
  const input = text.slice(0, text.lastIndexOf('.'))
  if (isHmac(algorithm)) return key.type === 'secret' && signatureOf(input, algorithm, key).equals(signature)
  try {
    return verifyBytes(
      hashOf(algorithm),
      Buffer.from(input),
      { key: key.type === 'private' ? createPublicKey(key) : key, ...optionsOf[algorithmTable[algorithm].signatureType] },
      signature
    )
  } catch {
    // A key of another type than the algorithm needs.
    return false
  }
}

/** Reads a key. The original error is dropped: it may quote the key. @returns undefined for any other value */
export function readKey (given: unknown, kind: 'secret' | 'private' | 'public'): KeyObject | undefined {
  try {
    const key = types.isKeyObject(given) ? given : readMaterial(given, kind)
    return key?.type === kind ? key : undefined
  } catch {
    return undefined
  }
}

/** The text or the bytes of a key; undefined for one of another form. */
export const textOf = (given: unknown): string | Buffer | undefined => typeof given === 'string' ? given : bytesOf(given)

function readMaterial (given: unknown, kind: 'secret' | 'private' | 'public'): KeyObject | undefined {
  const text = textOf(given)
  if (text === undefined && !isRecord(given)) return undefined
  if (kind === 'secret') {
    return createSecretKey(text === undefined ? Buffer.from(String(memberOf(given, 'k')), 'base64url') : Buffer.from(text))
  }
  const material = text ?? ({ key: Object(given), format: 'jwk' } as const)
  return kind === 'private' ? createPrivateKey(material) : createPublicKey(material)
}

/** An untrusted key, and the JWK that verifies its signatures. */
export interface ForeignKey { readonly key: KeyObject, readonly jwk: Readonly<Record<string, unknown>> }

/** Cached by algorithm: the generation of an RSA pair takes a tenth of a second. */
const foreignKeys = new Map<Algorithm, ForeignKey>()

function createForeignKey (algorithm: Algorithm): ForeignKey {
  const { signatureType, curve } = algorithmTable[algorithm]
  if (signatureType === 'HMAC') {
    const bytes = randomBytes(64)
    return { key: createSecretKey(bytes), jwk: { kty: 'oct', k: bytes.toString('base64url') } }
  }
  const { privateKey, publicKey } = signatureType === 'EC'
    ? generateKeyPairSync('ec', { namedCurve: String(curve) })
    : signatureType === 'Ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('rsa', { modulusLength: 2048 })
  return { key: privateKey, jwk: publicKey.export({ format: 'jwk' }) }
}

/** Returns the untrusted key of an algorithm, the same at every call. */
export function foreignKey (algorithm: Algorithm): ForeignKey {
  const key = foreignKeys.get(algorithm) ?? createForeignKey(algorithm)
  foreignKeys.set(algorithm, key)
  return key
}
