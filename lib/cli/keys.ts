/** `fastify-token-auth keys`: new keys. */
import { createSecretKey, generateKeyPairSync, randomBytes, type KeyObject } from 'node:crypto'
import { algorithmTable, type Algorithm } from '../keys/algorithms.ts'
import { defaultKid, publicJwk } from '../keys/key-id.ts'
import { done, type Outcome } from './outcome.ts'

const json = (value: object) => `${JSON.stringify(value, null, 2)}\n`

function createPair (algorithm: Algorithm): { publicKey: KeyObject, privateKey: KeyObject } {
  const { family, curve } = algorithmTable[algorithm]
  if (family === 'EC') return generateKeyPairSync('ec', { namedCurve: String(curve) })
  return family === 'Ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('rsa', { modulusLength: 2048 })
}

function secret (algorithm: Algorithm, asJwk: boolean): Outcome {
  const bytes = randomBytes(algorithmTable[algorithm].hashLength)
  const text = bytes.toString('base64url')
  return done(asJwk ? json({ kty: 'oct', k: text, alg: algorithm, kid: defaultKid(createSecretKey(bytes)) }) : `SERVICE_JWT_SECRET=${text}\n`)
}

function pair (algorithm: Algorithm, asJwk: boolean): Outcome {
  const { publicKey, privateKey } = createPair(algorithm)
  const kid = defaultKid(publicKey)
  if (asJwk) return done(json({ privateKey: { ...privateKey.export({ format: 'jwk' }), alg: algorithm, kid }, publicKey: { ...publicJwk(publicKey), alg: algorithm, kid } }))
  const pems = [privateKey.export({ type: 'pkcs8', format: 'pem' }), publicKey.export({ type: 'spki', format: 'pem' })]
  return done(pems.join(''), `The private key, and the public key. Their id (kid) is ${kid}\n`)
}

/** Creates a secret or a pair of keys. */
export function keys (algorithm: Algorithm, asJwk: boolean): Outcome {
  return algorithmTable[algorithm].family === 'HMAC' ? secret(algorithm, asJwk) : pair(algorithm, asJwk)
}
