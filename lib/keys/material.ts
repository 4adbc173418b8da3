/** Key material: loaded from what the user gave, checked, and handed on in the one form that the codec takes. */
import {
  createHash, createPrivateKey, createPublicKey, KeyObject, X509Certificate
} from 'node:crypto'
import { readFileSync } from 'node:fs'
import { InvalidConfiguration } from '../errors.ts'
import type { Algorithm, KeySetting } from '../settings/schema.ts'

/** A checked key: what fast-jwt takes, and a fingerprint that says whether two keys are the same. */
export interface Key {
  readonly material: Buffer
  /** Digest of algorithm and material. Never leaves the process. */
  readonly fingerprint: string
  /** The hash of an HS algorithm is longer than the secret (RFC 7518 section 3.2). */
  readonly short: boolean
}

export const isHmac = (algorithm: Algorithm) => algorithm.startsWith('HS')

const curves: Partial<Record<Algorithm, string>> = { ES256: 'prime256v1', ES384: 'secp384r1', ES512: 'secp521r1' }
const minimumModulus = 2048

function readFile (name: KeySetting, path: string | URL): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // Without the original as cause: it quotes the path, which is the secret itself where somebody mixed up the two.
    throw new InvalidConfiguration(`The file given as "${name}" cannot be read (${code}). Check its path and permissions.`, { finding: 'E08', section: 'settings' })
  }
}

/** Text, bytes and files become bytes; key objects stay what they are. */
function load (name: KeySetting, given: unknown): Buffer | KeyObject {
  if (typeof given === 'string') return Buffer.from(given, 'utf8')
  if (Buffer.isBuffer(given)) return Buffer.from(given)
  if (given instanceof KeyObject) return given
  if (given instanceof URL) {
    if (given.protocol !== 'file:') {
      throw new InvalidConfiguration(`"${name}" is a URL with "${given.protocol}"; only "file:" URLs are read. Nothing is ever fetched.`, { finding: 'E08', section: 'settings' })
    }
    return readFile(name, given)
  }
  if (typeof given === 'object' && given !== null && 'path' in given && typeof given.path === 'string') return readFile(name, given.path)
  throw new InvalidConfiguration(`"${name}" must be a string, a Buffer, a KeyObject, a file: URL or { path }.`, { section: 'settings' })
}

function parses (parse: () => unknown): boolean {
  try {
    parse()
    return true
  } catch {
    return false
  }
}

/** Whether bytes are a key or certificate in DER: what a PEM holds between its two lines. */
function isDerKey (bytes: Buffer): boolean {
  // Every one of them is an ASN.1 SEQUENCE; nothing else is worth a try.
  if (bytes[0] !== 0x30 || bytes.length < 32) return false
  return (['spki', 'pkcs1'] as const).some((type) => parses(() => createPublicKey({ key: bytes, format: 'der', type }))) ||
    (['pkcs8', 'pkcs1', 'sec1'] as const).some((type) => parses(() => createPrivateKey({ key: bytes, format: 'der', type }))) ||
    parses(() => new X509Certificate(bytes))
}

function isJwk (text: string): boolean {
  if (!/^\s*[[{]/.test(text)) return false
  try {
    const parsed: unknown = JSON.parse(text)
    const [first]: unknown[] = Array.isArray(parsed) ? parsed : [parsed]
    return typeof first === 'object' && first !== null && ('kty' in first || 'keys' in first)
  } catch {
    return false
  }
}

function plainForm (bytes: Buffer): string | undefined {
  const text = bytes.toString('latin1')
  if (/-----BEGIN [A-Z0-9 ]+-----/.test(text)) return 'a PEM key or certificate'
  if (/^\s*(?:ssh-|ecdsa-sha2-|sk-ssh-|sk-ecdsa-)/.test(text) || text.includes('---- BEGIN SSH2')) return 'an ssh key'
  if (isJwk(text)) return 'a JWK'
  return isDerKey(bytes) ? 'a DER key or certificate' : undefined
}

/**
 * RFC 8725 section 2.1: whoever knows a public key could sign with it, if it were taken for a secret. So nothing that is
 * an asymmetric key in any of its usual spellings is. Environment variables often hold them in base64, PEM and all.
 */
function asymmetricForm (bytes: Buffer): string | undefined {
  const text = bytes.toString('latin1')
  const isBase64 = /^[A-Za-z0-9+/_=\s-]+$/.test(text)
  return plainForm(bytes) ?? (isBase64 && plainForm(Buffer.from(text, 'base64')) !== undefined ? 'a base64 key or certificate' : undefined)
}

function fingerprint (algorithm: Algorithm, material: Buffer): string {
  return createHash('sha256').update(algorithm).update('\0').update(material).digest('base64url')
}

/**
 * Checks the secret of an HS algorithm.
 * @param name the setting it was given as, for messages
 * @throws {InvalidConfiguration} for an empty or blank secret, and for anything that is really an asymmetric key
 */
export function hmacKey (algorithm: Algorithm, name: KeySetting, given: unknown): Key {
  let material = load(name, given)
  if (material instanceof KeyObject) {
    if (material.type !== 'secret') {
      throw new InvalidConfiguration(`"${name}" is a ${material.type} key, but ${algorithm} signs with a secret (RFC 8725 section 2.1). Use an RS, PS or ES algorithm with this key, or a random secret with ${algorithm}.`, { finding: 'E02', section: 'settings' })
    }
    material = material.export()
  }
  if (material.toString().trim() === '') {
    throw new InvalidConfiguration(`"${name}" is empty or blank. Give a random secret of at least ${Number(algorithm.slice(2)) / 8} bytes.`, { finding: 'E01', section: 'settings' })
  }
  const form = asymmetricForm(material)
  if (form !== undefined) {
    throw new InvalidConfiguration(`"${name}" is ${form}, but ${algorithm} signs with a secret (RFC 8725 section 2.1). Use an RS, PS or ES algorithm with this key, or a random secret with ${algorithm}.`, { finding: 'E02', section: 'settings' })
  }
  return { material, fingerprint: fingerprint(algorithm, material), short: material.length < Number(algorithm.slice(2)) / 8 }
}

function checkKind (algorithm: Algorithm, name: KeySetting, key: KeyObject): void {
  const details = { ...key.asymmetricKeyDetails }
  const curve = curves[algorithm]
  if (curve !== undefined) {
    if (key.asymmetricKeyType !== 'ec' || details.namedCurve !== curve) {
      const found = key.asymmetricKeyType === 'ec' ? `on the curve ${details.namedCurve}` : `of the type ${key.asymmetricKeyType}`
      throw new InvalidConfiguration(`"${name}" is a key ${found}; ${algorithm} needs an EC key on the curve ${curve} (RFC 7518 section 3.4).`, { finding: 'E05', section: 'settings' })
    }
    return
  }
  if (key.asymmetricKeyType !== 'rsa') {
    throw new InvalidConfiguration(`"${name}" is a key of the type ${key.asymmetricKeyType}; ${algorithm} needs an RSA key.`, { finding: 'E05', section: 'settings' })
  }
  if (details.modulusLength === undefined || details.modulusLength < minimumModulus) {
    throw new InvalidConfiguration(`"${name}" is an RSA key of ${details.modulusLength} bits; ${algorithm} needs at least ${minimumModulus} (RFC 7518 section 3.3).`, { finding: 'E04', section: 'settings' })
  }
  if (details.publicExponent === undefined || details.publicExponent < 3n) {
    throw new InvalidConfiguration(`"${name}" is an RSA key with a public exponent below 3, with which everyone can sign. Make a new pair.`, { finding: 'E04', section: 'settings' })
  }
}

/** What text that is no key was probably meant as; it is never quoted. */
function hint (text: string): string {
  if (/^(?:(?:\.{0,2}|~|[a-z]:)[\\/]|file:)|^[^\n]*\.\w{3,4}$/i.test(text.trim())) {
    return ' It looks like the path of a file, but text is taken for the key itself: give { path } or a file: URL.'
  }
  return text.includes('\\n') ? ' Its line ends are written as "\\n", as in many environment files: replace them by line ends, as .replaceAll("\\\\n", "\\n") does.' : ''
}

/** The private part can sign: it must not lie where a public key is expected, which is passed around freely. */
function readPublic (name: KeySetting, material: Buffer | KeyObject): KeyObject {
  if (material instanceof KeyObject) {
    if (material.type === 'public') return material
    throw new InvalidConfiguration(`"${name}" is a ${material.type} key; give the public key of the pair.`, { finding: 'E07', section: 'settings' })
  }
  const text = material.toString('latin1')
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text)) throw new InvalidConfiguration(`"${name}" is a private key; give the public key of the pair.`, { finding: 'E07', section: 'settings' })
  try {
    return createPublicKey(material)
  } catch {
    // The original message is left out: it may quote the input.
    throw new InvalidConfiguration(`"${name}" is not a public key or certificate in PEM form; give one ("-----BEGIN PUBLIC KEY-----").${hint(text)}`, { finding: 'E07', section: 'settings' })
  }
}

function readPrivate (name: KeySetting, material: Buffer | KeyObject): KeyObject {
  if (material instanceof KeyObject) {
    if (material.type === 'private') return material
    throw new InvalidConfiguration(`"${name}" is a ${material.type} key; give the private key of the pair.`, { finding: 'E07', section: 'settings' })
  }
  const text = material.toString('latin1')
  if (/-----BEGIN (?:[A-Z ]*PUBLIC KEY|CERTIFICATE)-----/.test(text)) {
    throw new InvalidConfiguration(`"${name}" is a public key or certificate; give the private key of the pair.`, { finding: 'E07', section: 'settings' })
  }
  if (/ENCRYPTED/.test(text)) {
    throw new InvalidConfiguration(`"${name}" is encrypted; decrypt it, or give a KeyObject made by crypto.createPrivateKey({ key, passphrase }).`, { finding: 'E07', section: 'settings' })
  }
  try {
    return createPrivateKey(material)
  } catch {
    throw new InvalidConfiguration(`"${name}" is not a private key in PEM form; give one ("-----BEGIN PRIVATE KEY-----").${hint(text)}`, { finding: 'E07', section: 'settings' })
  }
}

const publicBytes = (key: KeyObject) => key.export({ type: 'spki', format: 'der' })

/** Checks the public key of an RS, PS or ES algorithm. @throws {InvalidConfiguration} */
export function publicKey (algorithm: Algorithm, name: KeySetting, given: unknown): Key {
  const key = readPublic(name, load(name, given))
  checkKind(algorithm, name, key)
  return { material: Buffer.from(key.export({ type: 'spki', format: 'pem' })), fingerprint: fingerprint(algorithm, publicBytes(key)), short: false }
}

/** Checks the private key of an RS, PS or ES algorithm. Its fingerprint is that of its public half. @throws {InvalidConfiguration} */
export function privateKey (algorithm: Algorithm, name: KeySetting, given: unknown): Key {
  const key = readPrivate(name, load(name, given))
  checkKind(algorithm, name, key)
  return {
    material: Buffer.from(key.export({ type: 'pkcs8', format: 'pem' })),
    fingerprint: fingerprint(algorithm, publicBytes(createPublicKey(key))),
    short: false
  }
}

/** A pair whose halves do not match would sign tokens that nobody accepts. @throws {InvalidConfiguration} */
export function checkPair (signing: Key, verifying: Key): void {
  if (signing.fingerprint === verifying.fingerprint) return
  throw new InvalidConfiguration('"privateKey" and "publicKey" are not the halves of one pair, so no token signed with the one would be accepted with the other. Give both halves of one pair.', { finding: 'E06', section: 'settings' })
}
