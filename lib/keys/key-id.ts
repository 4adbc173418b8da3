/** The default ids of keys, which tokens carry as `kid`, and keys as public JWKs. */
import { createHash, createHmac, type KeyObject } from 'node:crypto'

/**
 * The public members of a JWK by its type, in the order in which they are published. Members are copied by name, because the
 * JWK of a private key also has private members.
 */
const publicMembers: Readonly<Record<string, readonly string[]>> = {
  RSA: ['kty', 'n', 'e'],
  EC: ['kty', 'crv', 'x', 'y'],
  OKP: ['kty', 'crv', 'x']
}

/** Returns the public members of a half of a pair as a JWK (RFC 7517), without `kid`, `alg` and `use`. */
export function publicJwk (key: KeyObject): Readonly<Record<string, unknown>> {
  const jwk: Record<string, unknown> = key.export({ format: 'jwk' })
  return Object.fromEntries(publicMembers[String(jwk.kty)]!.map((name) => [name, jwk[name]]))
}

/** The thumbprint of a key of a pair (RFC 7638): the same for both halves, and the same wherever it is computed. */
function thumbprint (key: KeyObject): string {
  const members = Object.entries(publicJwk(key)).sort(([one], [other]) => one < other ? -1 : 1)
  return createHash('sha256').update(JSON.stringify(Object.fromEntries(members))).digest('base64url')
}

/**
 * Returns the default id of a key. For a secret, it is an HMAC: every token contains it, and an attacker could look up a
 * plain hash in a list of hashed secrets (RFC 7638 section 7).
 */
export function defaultKid (key: KeyObject): string {
  return key.type === 'secret' ? createHmac('sha256', key).update('kid').digest('base64url').slice(0, 22) : thumbprint(key)
}
