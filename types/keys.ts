import type { KeyObject } from 'node:crypto'
import type { Algorithm } from '../lib/algorithms.ts'
import type { MaybePromise, Payload } from './handlers.ts'

/**
 * A key in a file: PEM for asymmetric algorithms, the bytes of the secret for HS algorithms. The file is read at
 * registration; if a getter returns it, it is read again after it was replaced.
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
  pem: string | ArrayBufferView | ArrayBuffer
  /** The passphrase that decrypts it. */
  passphrase: string
}

/**
 * A key as a JSON Web Key (RFC 7517): `kty` is `RSA`, `EC` or `OKP` for the halves of a pair, and `oct` for the secret of an
 * HS algorithm. Members with other names are ignored. If `use`, `key_ops` or `alg` is present, it must allow the use of the
 * key.
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
  /** In the key set of an issuer: the issuer that the key is for, as Microsoft Entra publishes it. */
  issuer?: string | undefined
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
 * The values that `secret`, `publicKey` and `privateKey` accept: text (PEM or a secret), bytes such as a `Buffer`, a key
 * object, the URL or path of a file, an encrypted private key with its passphrase, or a JSON Web Key.
 */
export type KeyMaterial = string | ArrayBufferView | ArrayBuffer | KeyObject | URL | KeyFile | EncryptedPem | JsonWebKey

/** One of the keys of an instance: an entry of the option `keys`. */
export interface SigningKey {
  /** A secret, a private key (signs and verifies) or a public key (verifies). */
  key: KeyMaterial
  /** The algorithm of the key. Default: `alg` of a JWK, otherwise the setting `algorithm`. */
  algorithm?: Algorithm | undefined
  /**
   * The id of the key, which its tokens carry: 1 to 256 visible ASCII characters. Default: `kid` of a JWK, otherwise the
   * thumbprint of the key (RFC 7638), or for a secret the first 22 characters of an HMAC of "kid".
   */
  kid?: string | undefined
  /**
   * When the key starts to sign: a `Date`, or ISO 8601 text with a time zone. Of all keys whose date has passed, the one with
   * the latest date signs. The key verifies before that date, too. Default: from the beginning.
   */
  signFrom?: Date | string | undefined
  /** Until when tokens of the key are accepted, in the form of `signFrom`. Default: as long as the key is in the list. */
  verifyUntil?: Date | string | undefined
}

/** A set of public keys (RFC 7517 section 5), as issuers publish it. */
export interface JsonWebKeySet {
  /** The keys. */
  keys: readonly JsonWebKey[]
}

/** Returns the scopes of a token of an issuer from its payload. Must be synchronous. An error, or another result, is answered with 500. */
export type ScopesOfPayload = (payload: Payload) => readonly string[]

/** An issuer whose tokens an instance accepts: an entry of the option `issuers`. It has either `jwksUri` or `jwks`. */
export interface TrustedIssuer {
  /** The claim `iss` of its tokens, compared as a whole. */
  issuer: string
  /** The audience of your service: one of these must be in the claim `aud` of a token. `null` accepts tokens for any audience. */
  audience: string | readonly string[] | null
  /** The address of its keys: `https:`, or `http:` for 127.0.0.1, [::1] and localhost. Requires the package `jose`. */
  jwksUri?: string | undefined
  /** Its keys, or a function that returns them and is called as often as an address is fetched. */
  jwks?: JsonWebKeySet | (() => MaybePromise<JsonWebKeySet>) | undefined
  /** The algorithms of its tokens: only asymmetric ones. `EdDSA` and `Ed25519` (RFC 9864) are the same. Default: `['RS256']`. */
  algorithms?: ReadonlyArray<Exclude<Algorithm, `HS${string}`> | 'Ed25519'> | undefined
  /** The claim with the user id. Default: `sub`. */
  userId?: string | undefined
  /** The claim, or list of claims, with the scopes; or a function that finds them, such as `(payload) => payload.realm_access?.roles`. Default: `scope`. */
  scopesName?: string | readonly string[] | ScopesOfPayload | undefined
  /** Whether scopes are compared as whole strings. False: by the rules of this plugin, for tokens of another instance. Default: true. */
  exactScopes?: boolean | undefined
  /** The `typ` that tokens must have in their header: `at+jwt` (RFC 9068) refuses ID tokens. Default: no `typ`, `JWT` or `at+jwt`. */
  typ?: 'at+jwt' | undefined
  /** The claim that is compared with `audience`. Default: `aud`. */
  audienceName?: string | undefined
  /** How many seconds keys stay in use after the last successful read, at least 600; a key set in `jwks` always stays. Default: 86400. */
  staleIfError?: number | undefined
}

/** The state of the keys of an instance, without key material: for health checks and tests. Dates are ISO 8601 text; null for none. */
export interface KeyStatus {
  /** The keys of the option `keys`, in their order; empty without this option. */
  keys: Array<{
    /** The id of the key. */
    kid: string
    /** Its algorithm. */
    algorithm: Algorithm
    /** `next`: it verifies, and `signFrom` is in the future; `signing`; `verifying`: it only verifies; `gone`: `verifyUntil` has passed. */
    state: 'next' | 'signing' | 'verifying' | 'gone'
    /** From when it signs. */
    signFrom: string | null
    /** Until when its tokens are accepted. */
    verifyUntil: string | null
  }>
  /** The trusted issuers. */
  issuers: Array<{
    /** The issuer. */
    issuer: string
    /** The number of its keys that are in use now, for the algorithms of its tokens. */
    keys: number
    /** When its keys were read last; also null for keys that never change. */
    fetchedAt: string | null
    /** When they could not be read; null if the last attempt succeeded. */
    failedAt: string | null
  }>
}
