/** Secrets that can be guessed: well-known examples and repeated characters. */

/**
 * Secrets of examples, tutorials and templates, in lower case: those of jwt.io, of RFC 7515, and of the documents of
 * frameworks and services. `attack()` tries each of them.
 */
export const knownSecrets: readonly string[] = [
  'secret',
  'secretkey',
  'secret_key',
  'supersecret',
  'changeme',
  'password',
  'jwt_secret',
  'your_jwt_secret',
  'shhhhh',
  'test',
  'key',
  '123456',
  'undefined',
  'null',
  'your-256-bit-secret',
  'your-384-bit-secret',
  'your-512-bit-secret',
  'a-string-secret-at-least-256-bits-long',
  'a-valid-string-secret-that-is-at-least-384-bits-long',
  'a-valid-string-secret-that-is-at-least-512-bits-long-which-is-very-long',
  'super-secret-jwt-token-with-at-least-32-characters-long',
  'reallyreallyreallyreallyverysafe',
  'do not use this value. instead, create a complex secret and keep it safe outside of the source code.',
  '09d25e094faa6ca2556c818166b7a9563b93f7099f6f0f4caa6cf63b88e8d3e7',
  '404e635266556a586e3272357538782f413f4428472b4b6250645367566b5970',
  'aym1sysppbydfgzld3umj1qzkobwvmkoqq-estjqlr_t-1qs0gzh75aktmn3yj0ips4hcguutwjazzr1z9caow'
]

const known: ReadonlySet<string> = new Set(knownSecrets)

/** A secret as text, and as the text from which it may have been decoded: examples occur in both forms. */
const spellingsOf = (secret: Buffer) =>
  (['utf8', 'base64', 'base64url', 'hex'] as const).map((encoding) => secret.toString(encoding).trim().toLowerCase())

/** Distinct bytes. 32 random bytes have about 30; in hexadecimal, they have about 14. */
const minimumDifferent = 10
const maximumPeriod = 16

/** Whether a secret is a part of at most 16 bytes, repeated. */
function repeats (secret: Buffer): boolean {
  for (let period = 1; period <= maximumPeriod && period * 2 <= secret.length; period++) {
    if (secret.length % period === 0 && secret.subarray(period).equals(secret.subarray(0, -period))) return true
  }
  return false
}

/**
 * Checks whether a secret can be guessed, regardless of its length.
 * @returns the weakness, as the predicate of a message; undefined if none was found
 */
export function weaknessOf (secret: Buffer): string | undefined {
  if (spellingsOf(secret).some((text) => known.has(text))) return 'is a well-known example'
  return new Set(secret).size < minimumDifferent || repeats(secret) ? 'repeats a few characters' : undefined
}
