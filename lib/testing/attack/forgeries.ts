/** Forged tokens, made without the key of the accepted token. */
import { createSecretKey, randomBytes } from 'node:crypto'
import { algorithmTable, isHmac, type Algorithm } from '../../algorithms.ts'
import { knownSecrets } from '../../keys/known-secrets.ts'
import { encode, foreignKey, inputOf, signed, type ReadToken } from './jws.ts'
import { causes, variantsOf, type Variant } from './variants.ts'

/** Tokens whose algorithm is none, written in several ways (RFC 8725 section 3.1). */
function unsigned ({ algorithm, header, payload, signature }: ReadToken): Variant[] {
  const withAlg = (alg: unknown, end: Uint8Array | string = '') => `${inputOf({ ...header, alg }, payload)}.${encode(end)}`
  return variantsOf(causes.unsigned, {
    'alg "none"': withAlg('none'),
    'alg "None"': withAlg('None'),
    'alg "NONE"': withAlg('NONE'),
    'alg "nOnE"': withAlg('nOnE'),
    'alg "none" with a space': withAlg('none '),
    'alg "none" with a signature': withAlg('none', signature),
    'alg null': withAlg(null),
    'alg empty': withAlg(''),
    'alg as a list': withAlg(['none', algorithm]),
    'no alg': withAlg(undefined),
    'the right alg, and no signature': withAlg(algorithm)
  })
}

function wrongSignatures ({ algorithm, text, header, payload, signature }: ReadToken): Variant[] {
  const input = text.slice(0, text.lastIndexOf('.'))
  const ending = (bytes: Uint8Array) => `${input}.${encode(bytes)}`
  const changed = (index: number) => {
    const bytes = Buffer.from(signature)
    bytes.writeUInt8(bytes.readUInt8(index) ^ 1, index)
    return ending(bytes)
  }
  const { key } = foreignKey(algorithm)
  const kept = (other: object) => `${inputOf(header, { ...payload, ...other })}.${encode(signature)}`
  return variantsOf(causes.unverified, {
    'a signature of zeros': ending(Buffer.alloc(signature.length)),
    'a signature of ones': ending(Buffer.alloc(signature.length, 0xff)),
    'a random signature': ending(randomBytes(signature.length)),
    'a signature of one byte': ending(signature.subarray(0, 1)),
    'a signature without its last byte': ending(signature.subarray(0, -1)),
    'a signature with a byte appended': ending(Buffer.concat([signature, Buffer.alloc(1)])),
    'a signature twice': ending(Buffer.concat([signature, signature])),
    'the first bit of the signature changed': changed(0),
    'the last bit of the signature changed': changed(signature.length - 1),
    'a signature of hexadecimal digits': `${input}.${signature.toString('hex')}`,
    'a signature with another key': signed(input, algorithm, key),
    'the payload changed': kept({ admin: true }),
    'the expiry moved': kept({ exp: Math.floor(Date.now() / 1000) + 86_400 }),
    'the payload emptied': `${inputOf(header, {})}.${encode(signature)}`,
    'the header changed': `${inputOf({ ...header, attacked: true }, payload)}.${encode(signature)}`
  })
}

/** Tokens signed with secrets of examples and tutorials; with HS256 if the accepted token has an asymmetric algorithm. */
function withKnownSecrets ({ algorithm, header, payload }: ReadToken): Variant[] {
  const alg = isHmac(algorithm) ? algorithm : 'HS256'
  return ['', ...knownSecrets].map((secret) => ({
    name: secret === '' ? 'signed with an empty secret' : `signed with the secret "${secret}"`,
    wrong: causes.knownSecret,
    token: signed(inputOf({ ...header, alg }, payload), alg, createSecretKey(Buffer.from(secret)))
  }))
}

/**
 * Tokens that name the key which verifies them (RFC 8725 section 3.10), signed with an untrusted key.
 * @param listener the address of a listener that serves this key
 */
export function keysInHeaders ({ algorithm, header, payload }: ReadToken, listener: string): Variant[] {
  const { key, jwk } = foreignKey(algorithm)
  const made = (members: object, claims: object = {}) =>
    signed(inputOf({ ...header, ...members }, { ...payload, ...claims }), algorithm, key)
  const wrong = causes.namedKey
  const hash = algorithmTable[isHmac(algorithm) ? algorithm : 'HS256']
  const ofNothing = `HS${hash.hashLength * 8}` as Algorithm
  return [
    { name: 'a key in the header jwk', wrong, token: made({ jwk }) },
    ...(['jku', 'x5u'] as const).map((name) => ({
      name: `the address of a key in the header ${name}`,
      wrong,
      token: made({ kid: 'attack', [name]: `${listener}/${name}` }),
      trap: `/${name}` as const
    })),
    { name: 'the address of a key in the claim iss', wrong, token: made({ kid: 'attack' }, { iss: `${listener}/iss` }), trap: '/iss' },
    {
      name: 'the path of an empty file in the header kid',
      wrong,
      token: signed(
        inputOf({ ...header, alg: ofNothing, kid: '../../../../../../../../dev/null' }, payload),
        ofNothing,
        createSecretKey(Buffer.alloc(0))
      )
    }
  ]
}

/** The orders n of the ECDSA curves: (r, s) and (r, n - s) are valid signatures of the same text (SEC 1 section 4.1.4). */
const orders: Partial<Record<Algorithm, bigint>> = {
  ES256: 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n,
  ES384: 0xffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973n,
  ES512:
    0x1fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409n
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

/** Other forms of the same valid signature, which a holder of the token can make. They matter only if tokens are compared as text. */
function twins ({ algorithm, text, signature }: ReadToken): Variant[] {
  const wrong = ''
  const note = 'The signature is valid. Do not compare tokens as text, for example in a list of revoked tokens.'
  const input = text.slice(0, text.lastIndexOf('.'))
  const order = orders[algorithm]
  const size = signature.length / 2
  const mirrored = (n: bigint) => (n - BigInt(`0x${signature.subarray(size).toString('hex')}`)).toString(16).padStart(size * 2, '0')
  return [
    // Some bits of the last character of base64url are unused (RFC 4648 section 3.5).
    ...(signature.length % 3 === 0
      ? []
      : [
          {
            name: 'spare bits of the last character set',
            wrong,
            note,
            token: `${text.slice(0, -1)}${alphabet[alphabet.indexOf(text.at(-1)!) | 1]}`
          }
        ]),
    ...(order === undefined
      ? []
      : [
          {
            name: 'the other signature (r, n - s)',
            wrong,
            note,
            token: `${input}.${encode(Buffer.concat([signature.subarray(0, size), Buffer.from(mirrored(order), 'hex')]))}`
          }
        ])
  ]
}

/** Texts that are no compact serialization (RFC 7515 section 7.1). */
function wrongForms ({ text, algorithm, header, signature }: ReadToken): Variant[] {
  const [head = '', body = '', tail = ''] = text.split('.')
  const { key } = foreignKey(algorithm)
  return variantsOf('The guard accepts texts that are no tokens (RFC 7515 section 7.1).', {
    'one segment': body,
    'two segments': `${head}.${body}`,
    'four segments': `${text}.${tail}`,
    'five segments': `${head}..${body}.${body}.${tail}`,
    'nothing but dots': '..',
    padding: `${text}==`,
    'a space in the token': `${head}.${body.slice(0, 4)} ${body.slice(4)}.${tail}`,
    'quotes around the token': `"${text}"`,
    'JSON serialization': JSON.stringify({ payload: body, protected: head, signature: tail }),
    'a header that is no JSON': signed(`${encode('{')}.${body}`, algorithm, key),
    'a header that is null': signed(`${encode('null')}.${body}`, algorithm, key),
    'a payload that is no JSON': signed(`${head}.${encode('{')}`, algorithm, key),
    'a payload that is null': signed(`${head}.${encode('null')}`, algorithm, key),
    'a header of 5,000 levels': `${encode(`${'['.repeat(5000)}${']'.repeat(5000)}`)}.${body}.${tail}`,
    'a token of 100,000 characters': `${inputOf({ ...header, x: 'x'.repeat(75_000) }, {})}.${encode(signature)}`
  })
}

export const forgeries = (token: ReadToken): Variant[] => [
  ...unsigned(token),
  ...wrongSignatures(token),
  ...withKnownSecrets(token),
  ...wrongForms(token),
  ...twins(token)
]
