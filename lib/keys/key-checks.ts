/** Checks whether a key of a pair suits its algorithm and is strong enough. Messages contain its type, curve and size only. */
import type { KeyObject } from 'node:crypto'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { algorithmTable, type Algorithm } from '../algorithms.ts'

const minimumModulus = 2048
/** The time to verify a signature grows with the square of the length of the modulus, and with the length of the exponent. */
const maximumModulus = 8192
const maximumExponent = 2n ** 64n - 1n

function checkRsa (algorithm: Algorithm, name: string, key: KeyObject): void {
  const { modulusLength = 0, publicExponent = 0n } = { ...key.asymmetricKeyDetails }
  if (key.asymmetricKeyType !== 'rsa') {
    throw new InvalidConfiguration(`"${name}" is a key of the type ${key.asymmetricKeyType}; ${algorithm} needs an RSA key.`, {
      finding: 'E05'
    })
  }
  if (modulusLength < minimumModulus) {
    throw new InvalidConfiguration(
      `"${name}" is an RSA key of ${modulusLength} bits; ${algorithm} needs at least ${minimumModulus} (RFC 7518 section 3.3).`,
      { finding: 'E04' }
    )
  }
  if (modulusLength > maximumModulus) {
    throw new InvalidConfiguration(
      `"${name}" is an RSA key of ${modulusLength} bits; at most ${maximumModulus} are accepted, because longer keys make every signature slower. Use a smaller key.`,
      { finding: 'E04' }
    )
  }
  if (publicExponent < 3n) {
    throw new InvalidConfiguration(
      `"${name}" is an RSA key with a public exponent below 3, with which everyone can sign. Make a new pair.`,
      { finding: 'E04' }
    )
  }
  if (publicExponent % 2n === 0n) {
    throw new InvalidConfiguration(
      `"${name}" is an RSA key with an even public exponent, which no private key belongs to. Make a new pair.`,
      { finding: 'E04' }
    )
  }
  if (publicExponent > maximumExponent) {
    throw new InvalidConfiguration(
      `"${name}" is an RSA key with a public exponent of more than 64 bits, which makes every signature slow to verify. Make a new pair; the usual exponent is 65537.`,
      { finding: 'E04' }
    )
  }
}

function checkEc (algorithm: Algorithm, name: string, key: KeyObject): void {
  const { curve } = algorithmTable[algorithm]
  const found = key.asymmetricKeyDetails?.namedCurve
  if (key.asymmetricKeyType === 'ec' && found === curve) return
  const what = key.asymmetricKeyType === 'ec' ? `on the curve ${found}` : `of the type ${key.asymmetricKeyType}`
  throw new InvalidConfiguration(`"${name}" is a key ${what}; ${algorithm} needs an EC key on the curve ${curve} (RFC 7518 section 3.4).`, {
    finding: 'E05'
  })
}

/**
 * The y coordinates of all points of small order on the curve of Ed25519, including the two that are not reduced modulo
 * the prime of the field. With both signs of x these are 14 encodings.
 */
const smallOrders: ReadonlySet<string> = new Set([
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f'
])

function checkEd25519 (algorithm: Algorithm, name: string, key: KeyObject): void {
  if (key.asymmetricKeyType !== 'ed25519') {
    throw new InvalidConfiguration(
      `"${name}" is a key of the type ${key.asymmetricKeyType}; ${algorithm} needs an Ed25519 key (RFC 8037 section 2).`,
      { finding: 'E05' }
    )
  }
  // The scalar of a private key is a multiple of 8, so that its public key cannot have a small order (RFC 8032 section 5.1.5).
  if (key.type === 'private') return
  const point = Buffer.from(String(key.export({ format: 'jwk' }).x), 'base64url')
  // The highest bit is the sign of x.
  point[31]! &= 0x7f
  // OpenSSL imports such a key and accepts a fixed signature for every message, or for one message in 2 to 8.
  if (smallOrders.has(point.toString('hex'))) {
    throw new InvalidConfiguration(`"${name}" is an Ed25519 key of small order, with which everyone can sign. Make a new pair.`, {
      finding: 'E04'
    })
  }
}

/**
 * Checks a half of a pair: its type, curve, size and exponent.
 * @param name the setting that holds it, for messages
 * @throws {InvalidConfiguration} for a key that the algorithm cannot use, or that is too weak or too slow
 */
export function checkPairHalf (algorithm: Algorithm, name: string, key: KeyObject): void {
  const { signatureType } = algorithmTable[algorithm]
  if (signatureType === 'EC') checkEc(algorithm, name, key)
  else if (signatureType === 'Ed25519') checkEd25519(algorithm, name, key)
  else checkRsa(algorithm, name, key)
}
