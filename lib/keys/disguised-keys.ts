/**
 * Recognizes asymmetric keys that are configured as the secret of an HS algorithm. Everyone who knows a public key could
 * sign with it if it were used as a secret (RFC 8725 section 2.1). Deployments store keys in many encodings, one inside another.
 *
 * All text here is latin1: each character stands for one byte, so that text can hold the output of every decoder.
 */
import { createPrivateKey, createPublicKey, X509Certificate } from 'node:crypto'

function parses (parse: () => unknown): boolean {
  try {
    parse()
    return true
  } catch {
    return false
  }
}

/** Whether text starts with a key or certificate in DER, the encoding inside PEM. OpenSSL ignores the bytes after it. */
function isDer (text: string): boolean {
  // All of them are an ASN.1 SEQUENCE. This check excludes most secrets without an attempt to parse them.
  if (!text.startsWith('\x30') || text.length < 32) return false
  const key = Buffer.from(text, 'latin1')
  return (['spki', 'pkcs1'] as const).some((type) => parses(() => createPublicKey({ key, format: 'der', type }))) ||
    (['pkcs8', 'pkcs1', 'sec1'] as const).some((type) => parses(() => createPrivateKey({ key, format: 'der', type }))) ||
    parses(() => new X509Certificate(key))
}

/** Algorithm identifiers in the base64 of PEM without its first line. Ignores case: lowercased base64 cannot be decoded. */
const pemBody = /gkqhkig9w0baq|yhkozizj0c|gbyqgsm49|bqydk2vw|akcaqea/i

/** In bytes: the lengths that RSA keys have. */
const modulusLengths: readonly number[] = [256, 384, 512, 1024]

/** The odd primes below 65,536. */
function smallPrimes (): bigint[] {
  const isComposite = new Uint8Array(65_536)
  const primes: bigint[] = []
  for (let number = 3; number < isComposite.length; number += 2) {
    if (isComposite[number] === 1) continue
    primes.push(BigInt(number))
    for (let multiple = number * number; multiple < isComposite.length; multiple += number) isComposite[multiple] = 1
  }
  return primes
}

/**
 * Whether bytes can be the modulus of an RSA key, which is public. A modulus has its first and last bit set and no small
 * prime factor. The same is true of 2 in 100 random numbers of such a length.
 */
function isModulus (text: string): boolean {
  const digits = text.replace(/^\0/, '')
  if (!modulusLengths.includes(digits.length) || digits.charCodeAt(0) < 0x80 || digits.charCodeAt(digits.length - 1) % 2 === 0) return false
  const modulus = BigInt(`0x${Buffer.from(digits, 'latin1').toString('hex')}`)
  return smallPrimes().every((prime) => modulus % prime !== 0n)
}

function formOf (text: string): string | undefined {
  // A line may be incomplete, and its case may have been changed.
  if (/-----(?:BEGIN|END) |(?:KEY|CERTIFICATE)-----/i.test(text)) return 'a PEM key or certificate'
  if (/^\s*(?:ssh-|ecdsa-sha2-|sk-ssh-|sk-ecdsa-)/.test(text) || text.includes('---- BEGIN SSH2')) return 'an ssh key'
  // Every JWK has this member. Inside other JSON its quotes may be escaped.
  if (/["']kty\\*["']\s*:/.test(text)) return 'a JWK'
  if (isModulus(text)) return 'the modulus of an RSA key'
  return isDer(text) ? 'a DER key or certificate' : undefined
}

const character = (digits: string) => String.fromCharCode(Number.parseInt(digits, 16))

/** Decodes text. Returns undefined for text that cannot be in this encoding. */
type Decode = (text: string) => string | undefined

/** By their names in messages. */
const encodings: Readonly<Record<string, Decode>> = {
  // Leading quotes, white space, a byte order mark, or U+FFFD in its place. Text after a key is ignored.
  'a quoted': (text) => text.replace(/^[\s"'`\xfe\xff\xef\xbb\xbf\xbd]+/, ''),
  // Escapes of JSON and of many programming languages.
  'an escaped': (text) =>
    text.includes('\\')
      ? text.replace(/\\(?:(?:u00|x)([\da-f]{2})|[nr]|([^]))/gi, (_match, digits?: string, other = '\n') =>
        digits === undefined ? other : character(digits)
      )
      : undefined,
  'a percent-encoded': (text) =>
    /%[\da-f]{2}/i.test(text)
      ? text.replaceAll('+', ' ').replace(/%([\da-f]{2})/gi, (_match, digits: string) => character(digits))
      : undefined,
  // Every second byte of ASCII text is zero.
  'a UTF-16': (text) => (text.includes('\0') ? text.replaceAll('\0', '') : undefined),
  // Bytes that were converted to text, one character for each byte, and encoded as UTF-8.
  'a binary': (text) => {
    const decoded = Buffer.from(text, 'latin1').toString('utf8')
    return /^[\0-\xff]*$/.test(decoded) ? decoded : undefined
  },
  'a hexadecimal': (text) =>
    /^(?:modulus=)?[\da-fx\s:"'`]+$/i.test(text)
      ? Buffer.from(text.replace(/^modulus=|0x|[^\da-f]/gi, ''), 'hex').toString('latin1')
      : undefined,
  // Node.js ignores the characters outside the alphabet.
  'a base64': (text) => (/^[\w+/=\s"'`-]+$/.test(text) ? Buffer.from(text, 'base64').toString('latin1') : undefined)
}

/** How many nested encodings are decoded. */
const maximumDepth = 4

/**
 * Recognizes an asymmetric key.
 * @returns its form with an article, for messages; undefined for a secret that is not recognized as a key
 */
export function asymmetricForm (secret: Buffer): string | undefined {
  const found = new Map<string, string | undefined>([[secret.toString('latin1'), undefined]])
  let layer = [...found]
  for (let depth = 0; depth <= maximumDepth; depth++) {
    const inside: typeof layer = []
    for (const [text, encoding] of layer) {
      const form = formOf(text)
      if (form !== undefined) return encoding === undefined ? form : `${encoding} key or certificate`
      for (const [name, decode] of Object.entries(encodings)) {
        const decoded = decode(text)
        if (decoded !== undefined && !found.has(decoded)) {
          found.set(decoded, encoding ?? name)
          inside.push([decoded, encoding ?? name])
        }
      }
    }
    layer = inside
  }
  // Last, because text that can be decoded is named by its encoding.
  return [...found.keys()].some((text) => pemBody.test(text)) ? 'a PEM key or certificate' : undefined
}
