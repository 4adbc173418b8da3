/** Keys, and the tokens that the benchmarks send. Tokens have about 460 characters and eight claims. */
import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { createSigner } from 'fast-jwt'

const secret = 'a secret for benchmarks only, never for anything else: 0123456789'

const encodings = { publicKeyEncoding: { type: 'spki', format: 'pem' }, privateKeyEncoding: { type: 'pkcs8', format: 'pem' } }
const pairs = new Map()

/** Generates a pair of keys. @param kind the first two letters of the algorithm */
function generatePair (kind) {
  if (kind === 'Ed') return generateKeyPairSync('ed25519', encodings)
  return kind === 'ES' ? generateKeyPairSync('ec', { namedCurve: 'P-256', ...encodings }) : generateKeyPairSync('rsa', { modulusLength: 2048, ...encodings })
}

/** Returns the keys of an algorithm, which are generated once per run. */
export function keysOf (algorithm) {
  if (algorithm.startsWith('HS')) return { signing: secret, verifying: secret }
  const kind = algorithm.slice(0, 2)
  if (!pairs.has(kind)) {
    const { privateKey, publicKey } = generatePair(kind)
    pairs.set(kind, { signing: privateKey, verifying: publicKey })
  }
  return pairs.get(kind)
}

/** Returns the key options of the library. */
export function keyOptions ({ algorithm, keys }) {
  return algorithm.startsWith('HS') ? { algorithm, secret: keys.verifying } : { algorithm, publicKey: keys.verifying, privateKey: keys.signing }
}

/** The id of the key in a ring with which the tokens of {@link tokenMaker} are signed. */
export const ringKid = 'the-key-of-the-tokens'

/** Returns the option `keys` with four keys. Tokens are signed with the last in the list. */
export function ringOf (algorithm) {
  const others = Array.from({ length: 3 }, (_, index) => algorithm.startsWith('HS') ? `${secret} ${index}` : generatePair(algorithm.slice(0, 2)).privateKey)
  return [...others.map((key) => ({ key })), { key: keysOf(algorithm).signing, kid: ringKid }]
}

/** Returns the option `keys` with three new Ed25519 keys. */
export const ringOfThree = () => Array.from({ length: 3 }, () => ({ key: generatePair('Ed').privateKey }))

/** Returns the option `issuers` with three issuers, none of which is that of the tokens. */
export const threeIssuers = () => Array.from({ length: 3 }, (_, index) => {
  const jwk = createPublicKey(generatePair('Ed').publicKey).export({ format: 'jwk' })
  return { issuer: `https://issuer-${index}.example`, audience: claims.aud, algorithms: ['EdDSA'], jwks: { keys: [{ ...jwk, kid: 'key' }] } }
})

/** Six claims besides the user id and the expiry. */
export const claims = {
  iss: 'https://issuer.example',
  aud: 'https://api.example',
  name: 'Ada Lovelace',
  email: 'ada.lovelace@example.com',
  scopes: ['reports:read', 'reports:write', 'users:read'],
  session: '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'
}

const now = Math.floor(Date.now() / 1000)

/** Returns a function that creates the token of a user. @param header members of the header, such as `kid` */
export function tokenMaker (algorithm = 'HS256', header = {}) {
  const sign = createSigner({ key: keysOf(algorithm).signing, algorithm, noTimestamp: true, ...header })
  return (id, { exp = now + 86_400, ...more } = {}) => sign({ user_id: id, exp, ...claims, ...more })
}

export function manyTokens (count, algorithm) {
  const make = tokenMaker(algorithm)
  return Array.from({ length: count }, (_, index) => make(index + 1))
}

/** Tokens that were valid an hour ago. */
export function expiredTokens (count) {
  const make = tokenMaker()
  return Array.from({ length: count }, (_, index) => make(index + 1, { exp: now - 3600 }))
}

/** Creates tokens with another secret, so that the form is valid but the signature is not. */
export function forgedTokens (count) {
  const forge = createSigner({ key: `not ${secret}`, algorithm: 'HS256', noTimestamp: true })
  return Array.from({ length: count }, (_, index) => forge({ user_id: index + 1, exp: now + 86_400, ...claims }))
}
