/** Tokens with a valid signature and other faults, and tokens signed with the public key as a secret. */
import { createSecretKey, type KeyObject } from 'node:crypto'
import { algorithmTable, algorithms, isHmac } from '../../algorithms.ts'
import { encode, inputOf, signed, textOf, type AttackKey, type ReadToken } from './jws.ts'
import { causes, variantsOf, type Variant } from './variants.ts'

const day = 86_400

function wrongTimes (make: (claims: object) => string, { payload }: ReadToken): Variant[] {
  const now = Math.floor(Date.now() / 1000)
  return [
    ...variantsOf('The guard accepts tokens that have expired.', {
      'expired a day ago': make({ exp: now - day }),
      'expired in 1970': make({ exp: 0 }),
      'expired before 1970': make({ exp: -1 })
    }),
    ...variantsOf(
      'The guard accepts tokens whose times are no numbers, and thus never expire or are always active (RFC 7519 section 4.1).',
      {
        // The application may issue tokens without expiry.
        ...(payload.exp !== undefined && { 'no exp': make({ exp: undefined }) }),
        'exp as text': make({ exp: String(now + day) }),
        'exp as a list': make({ exp: [now + day] }),
        'exp as an object': make({ exp: { valueOf: now + day } }),
        'exp true': make({ exp: true }),
        'exp null': make({ exp: null }),
        'nbf as text': make({ nbf: String(now + day) }),
        'nbf as a list': make({ nbf: [now + day] })
      }
    ),
    ...variantsOf('The guard accepts tokens that are not active yet.', { 'not active for a day': make({ nbf: now + day }) })
  ]
}

/** Returns the host that a guard may ask for the keys of an issuer; empty if the issuer contains none. */
function hostOf (issuer: string): string {
  if (URL.canParse(issuer)) return new URL(issuer).host
  return issuer.includes('.') ? issuer.split('/', 1)[0]! : ''
}

/** Only for claims that the application issues: one that it does not use may have any value. */
function wrongParties (make: (claims: object) => string, { payload: { iss, aud } }: ReadToken): Variant[] {
  const text = (value: unknown) => String([value].flat()[0])
  const part = text(iss).slice(0, -1)
  return [
    ...iss === undefined
      ? []
      : variantsOf('The guard accepts tokens of other issuers (RFC 7519 section 4.1.1).', {
        'another issuer': make({ iss: 'https://attack.invalid' }),
        'no issuer': make({ iss: undefined }),
        'the issuer in a list': make({ iss: ['https://attack.invalid', iss] }),
        'an issuer that begins like the right one': make({ iss: `${text(iss)}.attack.invalid` }),
        // Not if that shortens the host: it may belong to another owner, and a guard that fetches keys would ask it.
        ...hostOf(part) === hostOf(text(iss)) && { 'a part of the issuer': make({ iss: part }) }
      }),
    ...aud === undefined
      ? []
      : variantsOf('The guard accepts tokens that were issued for other services (RFC 7519 section 4.1.3).', {
        'another audience': make({ aud: 'https://attack.invalid' }),
        'no audience': make({ aud: undefined }),
        'an empty list of audiences': make({ aud: [] }),
        'an audience that begins like the right one': make({ aud: `${text(aud)}.attack.invalid` }),
        'a part of the audience': make({ aud: text(aud).slice(0, -1) }),
        'the audience as an object': make({ aud: { [text(aud)]: true } })
      })
  ]
}

function wrongPayloads (sign: (payload: string | Buffer) => string, { payload }: ReadToken): Variant[] {
  return variantsOf('The guard accepts tokens whose payload is no JSON object (RFC 7519 section 7.2).', {
    'a list as the payload': sign(JSON.stringify([payload])),
    'text as the payload': sign(JSON.stringify('text')),
    'a number as the payload': sign('1'),
    'null as the payload': sign('null'),
    'no JSON as the payload': sign(`${JSON.stringify(payload)}}`),
    'no UTF-8 in the payload': sign(
      Buffer.concat([Buffer.from('{"x":"'), Buffer.from([0xff, 0xfe]), Buffer.from(`",${JSON.stringify(payload).slice(1)}`)])
    )
  })
}

function wrongHeaders (make: (members: object) => string, { algorithm }: ReadToken): Variant[] {
  return [
    ...variantsOf('The guard ignores "crit", the extensions that it must understand (RFC 7515 section 4.1.11).', {
      'crit with an unknown extension': make({ crit: ['attack'], attack: true }),
      'crit as an empty list': make({ crit: [] }),
      'an unencoded payload (b64)': make({ crit: ['b64'], b64: false })
    }),
    ...variantsOf('The guard accepts tokens of another kind as access tokens (RFC 8725 section 3.11).', {
      'typ of another kind of token': make({ typ: 'dpop+jwt' }),
      'typ of a logout token': make({ typ: 'logout+jwt' }),
      'cty of a nested token': make({ cty: 'JWT' }),
      'enc of an encrypted token': make({ enc: 'A128GCM' })
    }),
    ...variantsOf('The guard does not compare the algorithm of a token exactly.', {
      'alg "none", signed': make({ alg: 'none' }),
      'no alg, signed': make({ alg: undefined }),
      'alg in lower case, signed': make({ alg: algorithm.toLowerCase() }),
      'alg as a list, signed': make({ alg: [algorithm] })
    })
  ]
}

/** Other algorithms of the same key: a key is used with one only (RFC 8725 section 3.1). A curve has one algorithm. */
function sisters ({ algorithm, header, payload }: ReadToken, key: KeyObject): Variant[] {
  const { signatureType } = algorithmTable[algorithm]
  const types = signatureType.startsWith('RSA') ? ['RSA', 'RSA-PSS'] : signatureType === 'HMAC' ? ['HMAC'] : []
  const others = algorithms.filter((other) => other !== algorithm && types.includes(algorithmTable[other].signatureType))
  return others.map((other) => ({
    name: `the same key with ${other}`,
    wrong: 'The token chooses among the algorithms of a key. Allow one of them only (RFC 8725 section 3.1).',
    token: signed(inputOf({ ...header, alg: other }, payload), other, key)
  }))
}

/** @param key the secret or the private key that signed the token */
export function signedWrongs (token: ReadToken, key: KeyObject): Variant[] {
  const { algorithm, header, payload, text } = token
  const withClaims = (claims: object) => signed(inputOf(header, { ...payload, ...claims }), algorithm, key)
  return [
    ...wrongTimes(withClaims, token),
    ...wrongParties(withClaims, token),
    ...wrongPayloads((bytes) => signed(`${text.split('.', 1)[0]}.${encode(bytes)}`, algorithm, key), token),
    ...wrongHeaders((members) => signed(inputOf({ ...header, ...members }, payload), algorithm, key), token),
    ...sisters(token, key)
  ]
}

/** The spellings of a PEM in files, on other systems and in environment variables: each one is another HMAC secret. */
function spellingsOf (name: string, pem: string): [name: string, secret: string][] {
  const lines = pem.trimEnd().split(/\r?\n/)
  const inWords = { '\n': '', '\r\n': ' with CRLF', '\\n': ' with escaped line ends' }
  return Object.entries(inWords).flatMap(([end, words]) => [
    [`${name}${words} as a secret`, `${lines.join(end)}${end}`],
    [`${name}${words} without its last line end as a secret`, lines.join(end)]
  ])
}

/**
 * Tokens with an HMAC whose secret is the public key in one of its forms (RFC 8725 section 2.1).
 * @param given the key as the test passes it; the application may have the same text
 */
export function confusions ({ algorithm, header, payload }: ReadToken, publicKey: KeyObject, given: AttackKey): Variant[] {
  const pem = publicKey.export({ type: 'spki', format: 'pem' }).toString()
  const text = textOf(given)
  const spellings = [
    // The first one is the secret of HS256 below.
    ...spellingsOf('the public key', pem).slice(1),
    ...(text === undefined
      ? []
      : [
          ['the public key exactly as given as a secret', String(text)] as const,
          ...spellingsOf('the given text of the public key', String(text))
        ])
  ]
  const isRsa = publicKey.asymmetricKeyType === 'rsa'
  const made = (secret: string | Buffer, alg = 'HS256') =>
    signed(
      inputOf({ ...header, alg }, payload),
      algorithms.find((name) => name === alg && isHmac(name)) ?? 'HS256',
      createSecretKey(Buffer.from(secret))
    )
  return variantsOf(causes.publicSecret, {
    'the public key as the secret of HS256': made(pem),
    'the public key as the secret of HS384': made(pem, 'HS384'),
    'the public key as the secret of HS512': made(pem, 'HS512'),
    'the public key as a secret, under the name of its algorithm': made(pem, algorithm),
    'the public key in DER as a secret': made(publicKey.export({ type: 'spki', format: 'der' })),
    'the public key as JWK as a secret': made(JSON.stringify(publicKey.export({ format: 'jwk' }))),
    ...(isRsa && { 'the public key in the older PEM form as a secret': made(publicKey.export({ type: 'pkcs1', format: 'pem' })) }),
    ...Object.fromEntries(spellings.map(([name, secret]) => [name, made(secret)]))
  })
}
