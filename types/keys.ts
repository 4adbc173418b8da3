import type { KeyObject } from 'node:crypto'

/**
 * A key in a file: PEM for asymmetric algorithms, the bytes of the secret for HS algorithms. The file is read at
 * registration; where a getter names it, it is read again after it was replaced.
 */
export interface KeyFile {
  /** Path of the file. */
  path: string
  /** Passphrase of an encrypted private key. */
  passphrase?: string | undefined
}

/** An encrypted private key in PEM: PKCS 8 (`BEGIN ENCRYPTED PRIVATE KEY`), or the older form with a `DEK-Info` header. */
export interface EncryptedPem {
  /** The key. */
  pem: string | Buffer
  /** The passphrase that decrypts it. */
  passphrase: string
}

/**
 * A key as a JSON Web Key (RFC 7517): `kty` is `RSA`, `EC` or `OKP` for the halves of a pair, and `oct` for the secret of
 * an HS algorithm. Members with other names are ignored. Where `use`, `key_ops` or `alg` is given, it must allow what the
 * key is used for.
 */
export interface JsonWebKey {
  /** Key type. */
  kty?: string | undefined
  /** Intended use: must be `sig`. */
  use?: string | undefined
  /** Permitted operations: must include `sign` for a key that signs and `verify` for one that verifies. */
  key_ops?: readonly string[] | undefined
  /** Algorithm: must be the algorithm of the setting. */
  alg?: string | undefined
  /** Key ID. */
  kid?: string | undefined
  /** Curve of an EC or OKP key. */
  crv?: string | undefined
  /** X coordinate of an EC key; public key of an OKP key. */
  x?: string | undefined
  /** Y coordinate of an EC key. */
  y?: string | undefined
  /** Modulus of an RSA key. */
  n?: string | undefined
  /** Public exponent of an RSA key. */
  e?: string | undefined
  /** Private exponent of an RSA key; private key of an EC or OKP key. */
  d?: string | undefined
  /** First prime factor of an RSA key. */
  p?: string | undefined
  /** Second prime factor of an RSA key. */
  q?: string | undefined
  /** First CRT exponent of an RSA key. */
  dp?: string | undefined
  /** Second CRT exponent of an RSA key. */
  dq?: string | undefined
  /** First CRT coefficient of an RSA key. */
  qi?: string | undefined
  /** Secret of an `oct` key. */
  k?: string | undefined
}

/**
 * What `secret`, `publicKey` and `privateKey` may be: text (PEM or a secret), bytes, a key object, the URL or path of a
 * file, an encrypted private key with its passphrase, or a JSON Web Key.
 */
export type KeyMaterial = string | Buffer | KeyObject | URL | KeyFile | EncryptedPem | JsonWebKey
