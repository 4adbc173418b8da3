/** `fastify-token-auth keys`: new keys. */
import { createSecretKey, generateKeyPairSync, randomBytes, type KeyObject } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { algorithmTable, type Algorithm } from '../algorithms.ts'
import { defaultKid, publicJwk } from '../keys/key-id.ts'
import { done, failed, type Outcome } from './outcome.ts'

const json = (value: object) => `${JSON.stringify(value, null, 2)}\n`

function createPair (algorithm: Algorithm): { publicKey: KeyObject, privateKey: KeyObject } {
  const { signatureType, curve } = algorithmTable[algorithm]
  if (signatureType === 'EC') return generateKeyPairSync('ec', { namedCurve: String(curve) })
  return signatureType === 'Ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('rsa', { modulusLength: 2048 })
}

/** What the command has created: a secret, or the halves of a pair. */
interface Created {
  /** The secret or the private key, which nobody else may read. */
  readonly secret: string
  readonly publicKey?: string
  /** Both halves of a pair, as they are printed. */
  readonly both?: string
  /** A note for standard error, such as the id of the key. */
  readonly note?: string
}

function secret (algorithm: Algorithm, asJwk: boolean): Created {
  const bytes = randomBytes(algorithmTable[algorithm].hashLength)
  const text = bytes.toString('base64url')
  return {
    secret: asJwk ? json({ kty: 'oct', k: text, alg: algorithm, kid: defaultKid(createSecretKey(bytes)) }) : `SERVICE_JWT_SECRET=${text}\n`
  }
}

function pair (algorithm: Algorithm, asJwk: boolean): Created {
  const pair = createPair(algorithm)
  const kid = defaultKid(pair.publicKey)
  if (asJwk) {
    const privateKey = { ...pair.privateKey.export({ format: 'jwk' }), alg: algorithm, kid }
    const publicKey = { ...publicJwk(pair.publicKey), alg: algorithm, kid }
    return { secret: json(privateKey), publicKey: json(publicKey), both: json({ privateKey, publicKey }) }
  }
  const privateKey = String(pair.privateKey.export({ type: 'pkcs8', format: 'pem' }))
  const publicKey = String(pair.publicKey.export({ type: 'spki', format: 'pem' }))
  return { secret: privateKey, publicKey, both: privateKey + publicKey, note: `The id of the key (kid) is ${kid}\n` }
}

/** Writes a text to a new file that nobody else can read. @returns why that failed */
function save (file: string, text: string): string | undefined {
  try {
    writeFileSync(file, text, { flag: 'wx', mode: 0o600 })
    return undefined
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'EEXIST'
      ? `The file "${file}" exists, and was not changed. Give another name, or leave out --output to print the keys.`
      : `The file "${file}" cannot be written (${code}). Check its path and permissions.`
  }
}

/**
 * Creates a secret or a pair of keys.
 * @param file where to write the secret or private key, instead of printing it. A public key is printed: each key has its own file.
 */
export function keys (algorithm: Algorithm, asJwk: boolean, file?: string): Outcome {
  const {
    secret: secretText,
    publicKey = '',
    both = secretText,
    note = ''
  } = (algorithmTable[algorithm].signatureType === 'HMAC' ? secret : pair)(algorithm, asJwk)
  if (file === undefined) return done(both, note)
  const problem = save(file, secretText)
  if (problem !== undefined) return failed(problem)
  return done(publicKey, `${note}${publicKey === '' ? 'Written' : 'The private key was written'} to ${file}.\n`)
}
