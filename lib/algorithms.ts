/**
 * The signature algorithms, one row each. Everything that depends on the algorithm reads this table: which keys it takes,
 * how long secrets must be, how a signature is computed. No other file lists the algorithms or parses their names.
 */

/** The properties of one algorithm. */
export interface AlgorithmRow {
  /** The kind of signature. It determines the type of the key. */
  readonly signatureType: 'HMAC' | 'RSA' | 'RSA-PSS' | 'EC' | 'Ed25519'
  /** The curve of the key, as node:crypto names it; null where keys have none. */
  readonly curve: string | null
  /** The hash function, as node:crypto names it. */
  readonly hash: 'sha256' | 'sha384' | 'sha512'
  /** Length of a hash in bytes. An HMAC secret must have at least as many (RFC 7518 section 3.2). */
  readonly hashLength: number
  /** Length of a signature in bytes; null if it equals the length of the key's modulus (RFC 8017 section 8.1.2). */
  readonly signatureLength: number | null
  /** Whether signing takes about a millisecond. Each such signature is computed in its own turn of the event loop. */
  readonly isSlowToSign: boolean
}

/** Infers the names of the rows. */
const table = <Name extends string>(rows: Readonly<Record<Name, AlgorithmRow>>) => rows

/** The row of each algorithm. */
export const algorithmTable = table({
  // RFC 7518 section 3.2
  HS256: { signatureType: 'HMAC', curve: null, hash: 'sha256', hashLength: 32, signatureLength: 32, isSlowToSign: false },
  HS384: { signatureType: 'HMAC', curve: null, hash: 'sha384', hashLength: 48, signatureLength: 48, isSlowToSign: false },
  HS512: { signatureType: 'HMAC', curve: null, hash: 'sha512', hashLength: 64, signatureLength: 64, isSlowToSign: false },
  // RFC 7518 section 3.4
  ES256: { signatureType: 'EC', curve: 'prime256v1', hash: 'sha256', hashLength: 32, signatureLength: 64, isSlowToSign: false },
  ES384: { signatureType: 'EC', curve: 'secp384r1', hash: 'sha384', hashLength: 48, signatureLength: 96, isSlowToSign: false },
  ES512: { signatureType: 'EC', curve: 'secp521r1', hash: 'sha512', hashLength: 64, signatureLength: 132, isSlowToSign: false },
  // RFC 7518 section 3.3
  RS256: { signatureType: 'RSA', curve: null, hash: 'sha256', hashLength: 32, signatureLength: null, isSlowToSign: true },
  RS384: { signatureType: 'RSA', curve: null, hash: 'sha384', hashLength: 48, signatureLength: null, isSlowToSign: true },
  RS512: { signatureType: 'RSA', curve: null, hash: 'sha512', hashLength: 64, signatureLength: null, isSlowToSign: true },
  // RFC 7518 section 3.5
  PS256: { signatureType: 'RSA-PSS', curve: null, hash: 'sha256', hashLength: 32, signatureLength: null, isSlowToSign: true },
  PS384: { signatureType: 'RSA-PSS', curve: null, hash: 'sha384', hashLength: 48, signatureLength: null, isSlowToSign: true },
  PS512: { signatureType: 'RSA-PSS', curve: null, hash: 'sha512', hashLength: 64, signatureLength: null, isSlowToSign: true },
  // RFC 8037 section 3.1, with Ed25519 only. Its hash is a part of the algorithm (RFC 8032 section 5.1).
  EdDSA: { signatureType: 'Ed25519', curve: 'ed25519', hash: 'sha512', hashLength: 64, signatureLength: 64, isSlowToSign: false }
})

/**
 * The signature algorithms (RFC 7518 section 3.1, RFC 8037 section 3.1). `EdDSA` takes Ed25519 keys only.
 * @useDeclaredType
 */
export type Algorithm = keyof typeof algorithmTable

/** The names of all algorithms, in the order of the table. */
export const algorithms = Object.keys(algorithmTable) as Algorithm[]

/** Alternative names that tokens and JWKs may contain: `Ed25519` means EdDSA with this curve (RFC 9864 section 2.2). */
const otherNames: Readonly<Partial<Record<Algorithm, string>>> = { EdDSA: 'Ed25519' }

/** Returns the values of `alg` that stand for an algorithm. */
export function namesOf (algorithm: Algorithm): string[] {
  const other = otherNames[algorithm]
  return other === undefined ? [algorithm] : [algorithm, other]
}

/** Returns the algorithm with this value of `alg`; undefined for an unknown one. */
export const algorithmNamed = (name: unknown): Algorithm | undefined =>
  algorithms.find((algorithm) => namesOf(algorithm).some((known) => known === name))

/** Whether an algorithm signs and verifies with one shared secret. */
export const isHmac = (algorithm: Algorithm) => algorithmTable[algorithm].signatureType === 'HMAC'
