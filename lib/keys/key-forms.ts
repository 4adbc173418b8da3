/** Reads key material in each of its forms, and identifies it without reading it. */
import type { KeyObject } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readFileSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { types } from 'node:util'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { bytesOf, describeKey, memberOf } from '../values.ts'
import { algorithmNamed, type Algorithm } from '../algorithms.ts'

/** The members of a JWK that are read (RFC 7517 section 4, RFC 7518 section 6, RFC 8037 section 2). */
const jwkMembers = ['kty', 'kid', 'use', 'key_ops', 'alg', 'crv', 'x', 'y', 'n', 'e', 'd', 'p', 'q', 'dp', 'dq', 'qi', 'k'] as const

/** The members of a JWK, with values of any type: node:crypto checks those that it reads. */
export type Jwk = Readonly<Record<string, unknown>>

/** Key material as it was read: bytes (PEM or a secret), a key object, or a JWK. */
export type ReadMaterial =
  { readonly bytes: Buffer, readonly passphrase: string | undefined } | { readonly object: KeyObject } | { readonly jwk: Jwk }

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null

/** Returns the file to which key material refers, as a path or URL; otherwise undefined. */
function fileOf (value: unknown): string | URL | undefined {
  if (value instanceof URL) return value
  return isObject(value) && 'path' in value && typeof value.path === 'string' ? value.path : undefined
}

function passphraseOf (value: unknown): string | undefined {
  return isObject(value) && 'passphrase' in value && typeof value.passphrase === 'string' ? value.passphrase : undefined
}

/** The PEM of `{ pem, passphrase }`. */
function pemOf (value: unknown): string | Buffer | undefined {
  if (!isObject(value) || !('pem' in value)) return undefined
  return typeof value.pem === 'string' ? value.pem : bytesOf(value.pem)
}

/**
 * Copies the members of a JWK. Each is read once, so that a getter or proxy cannot return one value for the check and another later.
 * Any object with the member `kty` is a JWK.
 */
function jwkOf (value: unknown): Jwk | undefined {
  if (!isObject(value) || !('kty' in value)) return undefined
  return Object.fromEntries(jwkMembers.map((name) => [name, memberOf(value, name)] as const).filter(([, member]) => member !== undefined))
}

/** The members of other forms, which a JWK must not have: a key set that was fetched must not name a file of this machine. */
const otherForms = ['path', 'pem', 'passphrase'] as const

/** Reads a JWK; undefined for other values. @throws {InvalidConfiguration} for a JWK with members of another form */
function readJwk (name: string, value: unknown): Jwk | undefined {
  const jwk = jwkOf(value)
  const other = jwk && otherForms.find((member) => member in Object(value))
  if (other !== undefined) {
    throw new InvalidConfiguration(
      `"${name}" is a JWK, because it has the member "kty", and it has the member "${other}", too. Remove one of them: a JWK names no file and contains no PEM.`,
      { finding: 'E08' }
    )
  }
  return jwk
}

function readFile (name: string, file: string | URL): Buffer {
  if (file instanceof URL && file.protocol !== 'file:') {
    throw new InvalidConfiguration(`"${name}" is a URL with "${file.protocol}"; only "file:" URLs are read. Keys are never fetched.`, {
      finding: 'E08'
    })
  }
  let content
  try {
    content = readRegularFile(file)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // Without the original error as the cause: it quotes the path, which is the key itself if the user mixed up the two.
    throw new InvalidConfiguration(`The file given as "${name}" cannot be read (${code}). Check its path and permissions.`, {
      finding: 'E08'
    })
  }
  if (content !== undefined) return content
  throw new InvalidConfiguration(`The file given as "${name}" is not a regular file. Write the key into a file, and give its path.`, {
    finding: 'E08'
  })
}

/** Reads a file. Undefined for a pipe, which could wait for its writer for ever, a device or a folder. */
function readRegularFile (file: string | URL): Buffer | undefined {
  // On Windows, which has no such pipes, O_NONBLOCK is undefined, which `|` treats as 0.
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    return fstatSync(descriptor).isFile() ? readFileSync(descriptor) : undefined
  } finally {
    closeSync(descriptor)
  }
}

/**
 * Reads key material. Buffers are copied, because their owner may wipe them later.
 * @param name the setting that holds it, for messages
 * @throws {InvalidConfiguration} for a file that cannot be read, and for anything that is not key material
 */
export function readMaterial (name: string, value: unknown): ReadMaterial {
  // Not `instanceof`: Jest, for example, runs each test file in another realm.
  if (types.isKeyObject(value)) return { object: value }
  const jwk = readJwk(name, value)
  if (jwk !== undefined) return { jwk }
  const content = typeof value === 'string' ? value : (bytesOf(value) ?? pemOf(value))
  if (content !== undefined) return { bytes: Buffer.from(content), passphrase: passphraseOf(value) }
  const file = fileOf(value)
  if (file !== undefined) return { bytes: readFile(name, file), passphrase: passphraseOf(value) }
  throw new InvalidConfiguration(
    `"${name}" must be a string, a Buffer or other bytes, a KeyObject, a JWK, a file: URL, { path } or { pem, passphrase }; given: ${describeKey(value)}.`,
    { page: 'settings.md' }
  )
}

/**
 * Checks that a JWK permits an operation (RFC 7517 sections 4.2 to 4.4).
 * @throws {InvalidConfiguration} if `use`, `key_ops` or `alg` does not permit it
 */
export function checkIntendedUse (algorithm: Algorithm, name: string, jwk: Jwk, operation: 'sign' | 'verify'): void {
  const { use = 'sig', key_ops: operations = [operation], alg = algorithm } = jwk
  if (use !== 'sig') {
    throw new InvalidConfiguration(
      `"${name}" is a JWK whose "use" is not "sig" (RFC 7517 section 4.2), so it must not sign or verify. Use a key that is made for signatures.`,
      { finding: 'E15' }
    )
  }
  if (!Array.isArray(operations) || !operations.includes(operation)) {
    throw new InvalidConfiguration(
      `"${name}" is a JWK whose "key_ops" do not include "${operation}" (RFC 7517 section 4.3). Use a key that permits it.`,
      { finding: 'E15' }
    )
  }
  if (algorithmNamed(alg) !== algorithm) {
    throw new InvalidConfiguration(
      `"${name}" is a JWK for another "alg" than ${algorithm} (RFC 7517 section 4.4). Set "algorithm" to that of the key, or use another key.`,
      { finding: 'E15' }
    )
  }
}

/** Identifies the present version of a file. Follows links, because a mounted secret is replaced by changing a link. */
function versionOf (file: string | URL): string | undefined {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(file, { bigint: true })
    return [file instanceof URL ? fileURLToPath(file) : file, dev, ino, size, mtimeNs, ctimeNs].join('\0')
  } catch {
    return undefined
  }
}

/**
 * Identifies key material, so that a key that was read and checked before is not read again. Two values have the same
 * identity only if they are the same key. A file that was replaced has another identity.
 * @returns undefined for a value that must be read each time, because it is invalid or cannot be identified
 */
export function identityOf (value: unknown): string | KeyObject | undefined {
  if (typeof value === 'string') return `text ${value}`
  if (types.isKeyObject(value)) return value
  const bytes = bytesOf(value)
  if (bytes !== undefined) return `bytes ${bytes.toString('latin1')}`
  const members = Object.entries(jwkOf(value) ?? {})
  if (members.length > 0) {
    const isText = members.flatMap(([, member]) => member).every((part) => typeof part === 'string')
    const isPlain = otherForms.every((member) => !(member in Object(value)))
    return isText && isPlain ? `jwk ${JSON.stringify(members)}` : undefined
  }
  const passphrase = JSON.stringify(passphraseOf(value) ?? null)
  const pem = pemOf(value)
  if (pem !== undefined) return `pem ${passphrase} ${Buffer.from(pem).toString('latin1')}`
  const file = fileOf(value)
  const version = file === undefined ? undefined : versionOf(file)
  return version === undefined ? undefined : `file ${passphrase} ${version}`
}
