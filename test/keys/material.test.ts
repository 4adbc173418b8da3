// @slow
/** Key material on its own. What registration says of wrong keys, number by number: test/hostile/startup.test.ts. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createPrivateKey, createPublicKey, createSecretKey, generateKeyPairSync, randomBytes, sign, verify, type KeyObject } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import type { Algorithm, JsonWebKey } from '../../lib/index.ts'
import { identityOf } from '../../lib/keys/key-forms.ts'
import { checkPair, hmacKey, pick, privateKey, publicKey, signingKey, signingNames, verifyingKey, verifyingNames, type ConfiguredKeys } from '../../lib/keys/material.ts'
import { Refusal } from '../../lib/refusal.ts'
import { signerOf } from '../../lib/token/codec.ts'
import { findersOf } from '../../lib/authorities/own.ts'
import { verifierOf, type TokenVerifier } from '../../lib/authorities/verifier.ts'
import { algorithms, bearer, build, caseOf, claims, ecPair, edPair, environment, forge, keysFor, mistyped, otherSecret, pairFor, refusal, rsaPair, secret, warnings } from '../helper.ts'
import { base64, certificate, certified, ec, ecPrivate, ecPublic, ed, encrypted, refused, rsa, rsaPrivate, rsaPublic } from './fixtures.ts'

const accepts = (verify: TokenVerifier, token: string) => !(verify(token) instanceof Refusal)
const asymmetric = algorithms.filter((name) => !name.startsWith('HS'))

/** Bytes in each form that Node.js has. */
function bytesOf (text: string): Record<string, unknown> {
  const bytes = new TextEncoder().encode(text)
  const { buffer } = bytes.slice()
  const around = Buffer.from(`before${text}after`)
  return {
    'a Uint8Array': bytes,
    'an ArrayBuffer': buffer,
    'a DataView of a part': new DataView(around.buffer, around.byteOffset + 6, bytes.length),
    'a Uint8Array of another realm': runInNewContext('Uint8Array.from(bytes)', { bytes: [...bytes] }),
    'an ArrayBuffer of another realm': runInNewContext('Uint8Array.from(bytes).buffer', { bytes: [...bytes] })
  }
}

/** The forms that a key may have: text is also written to a file. */
function forms (path: string, text: string, object: KeyObject): Record<string, unknown> {
  writeFileSync(path, text)
  const jwk = object.export({ format: 'jwk' })
  return {
    text,
    Buffer: Buffer.from(text),
    KeyObject: object,
    ...bytesOf(text),
    'a path': { path },
    'a file: URL': pathToFileURL(path),
    'a JWK': jwk,
    'a JWK that says what it is for': { ...jwk, use: 'sig', key_ops: ['verify', 'sign'], kid: 'any', x5t: 'any' }
  }
}

/** The forms that a private key may have, encrypted ones included. */
function privateForms (file: (name: string) => string, pem: string): Record<string, unknown> {
  const object = createPrivateKey(pem)
  const older = object.asymmetricKeyType === 'rsa' ? 'pkcs1' : object.asymmetricKeyType === 'ec' ? 'sec1' : undefined
  const [text, path] = [encrypted(pem), file('an encrypted key')]
  writeFileSync(path, text)
  return {
    ...forms(file('a private key'), pem, object),
    'an encrypted PEM': { pem: text, passphrase: 'x' },
    'an encrypted PEM as a Buffer': { pem: Buffer.from(text), passphrase: 'x' },
    'an encrypted file': { path, passphrase: 'x' },
    'an opened PEM': createPrivateKey({ key: text, passphrase: 'x' }),
    'a PEM that is not encrypted': { pem, passphrase: 'x' },
    ...(older !== undefined && { 'an encrypted PEM with DEK-Info': { pem: encrypted(pem, older), passphrase: 'x' } })
  }
}

for (const algorithm of algorithms) {
  // Promise: keys/bytes-in-every-form
  t.test(`${algorithm}: a key may be text, bytes, KeyObject, file, JWK or encrypted PEM, and is the same key in every form`, async (t) => {
    const keys = keysFor(algorithm)
    const directory = t.testdir({})
    const file = (name: string) => join(directory, name)
    const [signing, verifying] = 'secret' in keys
      ? [forms(file('a secret'), secret, createSecretKey(Buffer.from(secret)))]
      : [privateForms(file, keys.privateKey), forms(file('a public key'), keys.publicKey, createPublicKey(keys.publicKey))]
    const [signingName, verifyingName] = 'secret' in keys ? ['secret', 'secret'] : ['privateKey', 'publicKey']
    const token = forge(claims(), { algorithm, key: 'secret' in keys ? keys.secret : keys.privateKey })
    const verifiers = Object.entries(verifying ?? signing).map(([form, value]) => {
      const key = verifyingKey(algorithm, { [verifyingName]: value })
      t.ok(accepts(verifierOf(findersOf(algorithm, key), 0), token), form)
      t.equal(key.keyObject.type, 'secret' in keys ? 'secret' : 'public', form)
      return key
    })
    t.equal(new Set(verifiers.map(({ fingerprint }) => fingerprint)).size, 1)
    for (const [form, value] of Object.entries(signing)) {
      const key = signingKey(algorithm, { [signingName]: value })
      const { token: issued } = await signerOf(algorithm, key, false)({ user_id: 1 })
      assert.ok(verifiers.every((verifying) => accepts(verifierOf(findersOf(algorithm, verifying), 0), issued)), form)
      assert.equal(key.keyObject.type, 'secret' in keys ? 'secret' : 'private', form)
      t.doesNotThrow(() => verifiers.forEach((verifying) => checkPair(key, verifying)))
    }
  })
}

t.test('older and longer spellings of keys in PEM are keys too', async (t) => {
  const publicKeys: Array<[Algorithm, string, string | Buffer]> = [
    ['RS256', 'RSA PUBLIC KEY', rsaPublic.export({ type: 'pkcs1', format: 'pem' })],
    ['RS256', 'text around it', `a comment\n${rsa.publicKey}\nanother`],
    ['RS256', 'line ends of Windows', rsa.publicKey.replaceAll('\n', '\r\n')],
    ['ES256', 'a certificate', certificate],
    ['ES256', 'a certificate as a Buffer', Buffer.from(certificate)]
  ]
  for (const [algorithm, name, given] of publicKeys) assert.ok(publicKey(algorithm, 'publicKey', given).material.includes('BEGIN PUBLIC KEY'), name)
  t.ok(accepts(verifierOf(findersOf('ES256', publicKey('ES256', 'publicKey', certificate)), 0), certified), 'the key of a certificate verifies')
  t.notOk(accepts(verifierOf(findersOf('ES256', publicKey('ES256', 'publicKey', ec.publicKey)), 0), certified))

  const sec1 = ecPrivate.export({ type: 'sec1', format: 'pem' }).toString()
  const privateKeys: Array<[Algorithm, string, string]> = [
    ['RS256', 'RSA PRIVATE KEY', rsaPrivate.export({ type: 'pkcs1', format: 'pem' }).toString()],
    ['ES256', 'EC PRIVATE KEY', sec1],
    ['ES256', 'EC PARAMETERS before it, as openssl ecparam -genkey writes it', `-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n${sec1}`]
  ]
  for (const [algorithm, name, given] of privateKeys) {
    const verifying = publicKey(algorithm, 'publicKey', algorithm === 'RS256' ? rsa.publicKey : ec.publicKey)
    t.doesNotThrow(() => checkPair(privateKey(algorithm, 'privateKey', given), verifying), name)
  }
})

/** How a key in PEM is spoiled on its way, and what the message says of it. */
const spoilings: Record<string, [spoil: (pem: string) => string, advice: RegExp[]]> = {
  'in double quotes': [(pem) => `"${pem}"`, [/remove the quotation marks/]],
  'in single quotes, with a line end': [(pem) => `'${pem}'\n`, [/remove the quotation marks/]],
  'with one quotation mark, and a comma': [(pem) => `${pem.trim()}",`, [/remove the quotation marks/]],
  'in quotes, with line ends written as \\n': [(pem) => `"${pem.replaceAll('\n', '\\n')}"`, [/remove the quotation marks/, /replace them by line ends/]],
  'with line ends written as \\n': [(pem) => pem.replaceAll('\n', '\\n'), [/replace them by line ends/]],
  'with spaces in place of line ends': [(pem) => pem.trim().replaceAll('\n', ' '), [/lines are joined/]],
  'without line ends': [(pem) => pem.replaceAll('\n', ''), [/lines are joined/]],
  indented: [(pem) => pem.replaceAll('\n', '\n    '), [/lines are indented/]],
  'in Base64': [(pem) => Buffer.from(pem).toString('base64'), [/decode it, as Buffer\.from\(text, "base64"\) does/]]
}

// Promise: keys/spoiled-pem
t.test('a key in PEM that was spoiled in a variable or a file is refused, and the message names what spoils it, without a part of it', async () => {
  const halves: Record<string, [pem: string, read: (value: string) => unknown]> = {
    'a public key': [ec.publicKey, (value) => publicKey('ES256', 'publicKey', value)],
    'a private key': [ec.privateKey, (value) => privateKey('ES256', 'privateKey', value)],
    'a certificate': [certificate, (value) => publicKey('ES256', 'publicKey', value)]
  }
  for (const [half, [pem, read]] of Object.entries(halves)) {
    for (const [name, [spoil, advice]] of Object.entries(spoilings)) {
      const label = caseOf([half, name])
      let message = 'no error'
      try {
        read(spoil(pem))
      } catch (error) {
        message = String(Object(error).message)
      }
      for (const pattern of advice) assert.match(message, pattern, label)
      assert.ok(pem.split('\n').slice(1, -2).every((line) => !message.includes(line)), label)
    }
  }
})

t.test('an empty or blank secret is refused in every form', async (t) => {
  const blanks: unknown[] = [
    '', ' ', ' \t\r\n ', '\u2003\u3000', Buffer.alloc(0), Buffer.from('  \n'), createSecretKey(Buffer.from(' ')), { path: join(t.testdir({ blank: '\n' }), 'blank') },
    { kty: 'oct', k: '' }, { kty: 'oct', k: base64(' ', 'base64url') }
  ]
  for (const given of blanks) {
    refused(inspect(given), /^"secret" is empty or blank\. Give a random secret of at least 48 bytes\. See /, () => hmacKey('HS384', 'secret', given, 'verify'))
  }
})

t.test('a secret is short below the length of its hash, counted in bytes (RFC 7518 section 3.2)', async () => {
  for (const [algorithm, length] of [['HS256', 32], ['HS384', 48], ['HS512', 64]] as const) {
    const text = secret.slice(0, length)
    assert.equal(hmacKey(algorithm, 'secret', text, 'verify').isWeak, false, algorithm)
    assert.equal(hmacKey(algorithm, 'secret', text.slice(1), 'verify').isWeak, true, algorithm)
    assert.equal(hmacKey(algorithm, 'secret', `é${text.slice(2)}`, 'verify').isWeak, false, algorithm)
  }
})

t.test('in production a secret shorter than 32 bytes is refused in every form, and nowhere else', async (t) => {
  const canary = 'canary-0123456789-0123456789-01'
  const short = forms(join(t.testdir({}), 'a secret'), canary, createSecretKey(Buffer.from(canary)))
  for (const value of Object.values(short)) assert.equal(hmacKey('HS256', 'secret', value, 'verify').isWeak, true, caseOf(value))
  environment(t, 'production')
  for (const [form, value] of Object.entries(short)) {
    for (const algorithm of ['HS256', 'HS384', 'HS512'] as const) {
      refused(form, /^"secret" is shorter than 32 bytes, and NODE_ENV is "production": it can be guessed/, () => hmacKey(algorithm, 'secret', value, 'sign'), canary)
    }
  }
  for (const algorithm of ['HS256', 'HS384', 'HS512'] as const) assert.equal(hmacKey(algorithm, 'secret', `${canary}2`, 'verify').isWeak, algorithm !== 'HS256', algorithm)
  for (const algorithm of asymmetric) assert.ok(publicKey(algorithm, 'publicKey', pairFor(algorithm).publicKey), 'the keys of pairs have lengths of their own')
})

t.test('a Buffer that its owner wipes later was copied', async (t) => {
  const given = Buffer.from(secret)
  const key = hmacKey('HS256', 'secret', given, 'verify')
  given.fill(0)
  t.equal(key.material.toString(), secret)
  t.equal(key.keyObject.export().toString(), secret)
})

const withExponent = (e: string) => createPublicKey({ key: { ...rsaPublic.export({ format: 'jwk' }), e }, format: 'jwk' })
/** An odd number of so many bits, which serves as a modulus that nobody signs with. */
const withModulus = (bits: number) => {
  const bytes = randomBytes(bits / 8)
  bytes[0]! |= 0x80
  bytes[bytes.length - 1]! |= 1
  return createPublicKey({ key: { ...rsaPublic.export({ format: 'jwk' }), n: base64(bytes, 'base64url') }, format: 'jwk' })
}

// Promise: security/ed25519-public-key
t.test('keys that are too weak, too slow, of the wrong kind or in the wrong place are refused, and the message says what is wrong', async () => {
  const pss = generateKeyPairSync('rsa-pss', { modulusLength: 2048 })
  const [ed448, x25519, x448] = [generateKeyPairSync('ed448'), generateKeyPairSync('x25519'), generateKeyPairSync('x448')]
  const small = rsaPair(1024)
  const jwk = rsaPublic.export({ format: 'jwk' })
  const rows: Array<[string, Algorithm, unknown, RegExp]> = [
    ['RSA, 1024 bits', 'RS256', small.publicKey, /RSA key of 1024 bits; RS256 needs at least 2048/],
    ['RSA, 2047 bits', 'RS512', rsaPair(2047).publicKey, /RSA key of 2047 bits; RS512 needs at least 2048/],
    ['RSA, 1024 bits, PSS', 'PS384', createPublicKey(small.publicKey), /1024 bits; PS384/],
    ['RSA, 8200 bits', 'RS256', withModulus(8200), /RSA key of 8200 bits; at most 8192 are accepted/],
    ['RSA, 16384 bits, as a JWK', 'PS256', withModulus(16384).export({ format: 'jwk' }), /RSA key of 16384 bits; at most 8192/],
    ['the exponent 1', 'RS256', withExponent('AQ'), /public exponent below 3/],
    ['an even exponent', 'RS256', withExponent('AQAA'), /even public exponent/],
    ['an exponent of 65 bits', 'PS512', withExponent(base64(Buffer.from('010000000000000001', 'hex'), 'base64url')), /public exponent of more than 64 bits/],
    ['an exponent as long as the modulus', 'RS256', { ...jwk, e: jwk.n }, /public exponent of more than 64 bits/],
    ['EC for RS256', 'RS256', ec.publicKey, /of the type ec; RS256 needs an RSA key/],
    ['Ed25519 for PS256', 'PS256', ed.publicKey, /of the type ed25519; PS256 needs an RSA key/],
    ['a key that is for PSS alone', 'PS256', pss.publicKey, /of the type rsa-pss; PS256 needs an RSA key/],
    ['RSA for ES256', 'ES256', rsa.publicKey, /of the type rsa; ES256 needs an EC key on the curve prime256v1/],
    ['Ed25519 for ES512', 'ES512', ed.publicKey, /of the type ed25519; ES512 needs an EC key on the curve secp521r1/],
    ['P-384 for ES256', 'ES256', ecPair('secp384r1').publicKey, /on the curve secp384r1; ES256 needs an EC key on the curve prime256v1/],
    ['P-256 for ES384', 'ES384', ec.publicKey, /on the curve prime256v1; ES384 needs an EC key on the curve secp384r1/],
    ['P-256 for ES512', 'ES512', ec.publicKey, /on the curve prime256v1; ES512/],
    ['secp256k1 for ES256', 'ES256', ecPair('secp256k1').publicKey, /on the curve secp256k1; ES256/],
    ['secp256k1 as a JWK for ES256', 'ES256', createPublicKey(ecPair('secp256k1').publicKey).export({ format: 'jwk' }), /on the curve secp256k1; ES256/],
    ['RSA for EdDSA', 'EdDSA', rsa.publicKey, /of the type rsa; EdDSA needs an Ed25519 key/],
    ['EC for EdDSA', 'EdDSA', ec.publicKey, /of the type ec; EdDSA needs an Ed25519 key/],
    ['Ed448 for EdDSA', 'EdDSA', ed448.publicKey, /of the type ed448; EdDSA needs an Ed25519 key/],
    ['Ed448 as a JWK', 'EdDSA', ed448.publicKey.export({ format: 'jwk' }), /of the type ed448; EdDSA needs an Ed25519 key/],
    ['X25519 for EdDSA', 'EdDSA', x25519.publicKey, /of the type x25519; EdDSA needs an Ed25519 key/],
    ['X448 for EdDSA', 'EdDSA', x448.publicKey, /of the type x448; EdDSA needs an Ed25519 key/],
    ['a private key in PEM', 'RS256', rsa.privateKey, /is a private key; give the public key/],
    ['an older private key in PEM', 'ES256', ecPrivate.export({ type: 'sec1', format: 'pem' }), /is a private key; give the public key/],
    ['an encrypted private key with its passphrase', 'RS256', { pem: encrypted(rsa.privateKey), passphrase: 'x' }, /is a private key; give the public key/],
    ['both halves in one PEM', 'RS256', rsa.publicKey + rsa.privateKey, /is a private key together with a public key or certificate; give the public key/],
    ['a private KeyObject', 'RS256', rsaPrivate, /is a private key; give the public key/],
    ['a private JWK', 'RS256', rsaPrivate.export({ format: 'jwk' }), /is a private key; give the public key/],
    ['a private OKP JWK', 'EdDSA', createPrivateKey(ed.privateKey).export({ format: 'jwk' }), /is a private key; give the public key/],
    ['a secret KeyObject', 'RS256', createSecretKey(Buffer.from(secret)), /is a secret key; give the public key/],
    ['a secret JWK', 'ES256', { kty: 'oct', k: base64(secret, 'base64url') }, /is a secret key; give the public key/],
    ['a public key with a passphrase', 'RS256', { pem: rsa.publicKey, passphrase: 'x' }, /has a passphrase, but only a private key is encrypted/],
    ['a secret', 'RS256', secret, /not a public key or certificate in PEM form/],
    ['nothing', 'RS256', '', /not a public key or certificate in PEM form/],
    ['DER', 'RS256', rsaPublic.export({ type: 'spki', format: 'der' }), /not a public key or certificate in PEM form/],
    ['a JWK as text', 'RS256', JSON.stringify(jwk), /not a public key or certificate in PEM form.* Give a JWK as an object/],
    ['a cut PEM', 'RS256', rsa.publicKey.slice(0, 200), /not a public key or certificate in PEM form/],
    ['a spoiled PEM', 'RS256', rsa.publicKey.replace('MII', 'XXX'), /not a public key or certificate in PEM form/]
  ]
  for (const [title, algorithm, given, message] of rows) {
    refused(title, message, () => publicKey(algorithm, 'publicKey', given), String(given))
  }
  const privateRows: Array<[string, Algorithm, unknown, RegExp]> = [
    ['RSA, 1024 bits', 'PS256', small.privateKey, /RSA key of 1024 bits/],
    ['EC for RS256', 'RS256', ec.privateKey, /of the type ec/],
    ['P-384 for ES256', 'ES256', ecPair('secp384r1').privateKey, /on the curve secp384r1/],
    ['Ed448 for EdDSA', 'EdDSA', ed448.privateKey, /of the type ed448; EdDSA needs an Ed25519 key/],
    ['X25519 for EdDSA', 'EdDSA', x25519.privateKey.export({ format: 'jwk' }), /of the type x25519/],
    ['Ed25519 for ES256', 'ES256', ed.privateKey, /of the type ed25519; ES256/],
    ['a public key in PEM', 'RS256', rsa.publicKey, /is a public key or certificate; give the private key/],
    ['both halves in one PEM', 'RS256', rsa.privateKey + rsa.publicKey, /is a private key together with a public key or certificate; give the private key/],
    ['an older public key in PEM', 'RS256', rsaPublic.export({ type: 'pkcs1', format: 'pem' }), /is a public key or certificate; give the private key/],
    ['a certificate', 'ES256', certificate, /is a public key or certificate; give the private key/],
    ['a public KeyObject', 'RS256', rsaPublic, /is a public key; give the private key/],
    ['a public JWK', 'ES256', ecPublic.export({ format: 'jwk' }), /is a public key; give the private key/],
    ['a secret KeyObject', 'RS256', createSecretKey(Buffer.from(secret)), /is a secret key; give the private key/],
    ['a secret JWK', 'RS256', { kty: 'oct', k: base64(secret, 'base64url'), d: 'x' }, /is a secret key; give the private key/],
    ['a secret', 'ES256', secret, /not a private key in PEM form/],
    ['a secret with a passphrase', 'ES256', { pem: secret, passphrase: 'x' }, /not a private key in PEM form/],
    ['a cut PEM', 'RS256', rsa.privateKey.slice(0, 400), /not a private key in PEM form/]
  ]
  for (const [title, algorithm, given, message] of privateRows) {
    refused(title, message, () => privateKey(algorithm, 'privateKey', given), String(given))
  }
})

// Promise: security/3-4-validate
// Promise: security/ed25519-public-key
t.test('no Ed25519 key of small order is accepted, in none of its 14 encodings: everyone can sign with it', async (t) => {
  const prefix = Buffer.from('302a300506032b6570032100', 'hex')
  const keyOf = (point: Buffer) => createPublicKey({ key: Buffer.concat([prefix, point]), format: 'der', type: 'spki' })
  const ys = [
    `00${'00'.repeat(31)}`, `01${'00'.repeat(31)}`, '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
    'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a', `ec${'ff'.repeat(30)}7f`, `ed${'ff'.repeat(30)}7f`, `ee${'ff'.repeat(30)}7f`
  ]
  const encodings = ys.flatMap((y) => [0, 0x80].map((sign) => Buffer.from(y.slice(0, -2) + (Number.parseInt(y.slice(-2), 16) | sign).toString(16).padStart(2, '0'), 'hex')))
  t.equal(new Set(encodings.map((point) => point.toString('hex'))).size, 14)
  for (const point of encodings) {
    // A signature of nobody: such a point, and zero.
    const isForged = encodings.some((r) => Array.from({ length: 64 }, (_, at) => Buffer.from(`message ${at}`))
      .some((message) => verify(null, message, keyOf(point), Buffer.concat([r, Buffer.alloc(32)]))))
    assert.ok(isForged, 'control: OpenSSL accepts what nobody signed')
    const object = keyOf(point)
    for (const form of [object, object.export({ type: 'spki', format: 'pem' }), object.export({ format: 'jwk' })]) {
      refused(point.toString('hex'), /^"publicKey" is an Ed25519 key of small order, with which everyone can sign/, () => publicKey('EdDSA', 'publicKey', form))
    }
  }
})

// Promise: security/wrong-missing-passphrase
t.test('a wrong or missing passphrase is an error that shows neither key nor passphrase', async (t) => {
  const canary = 'canary-0123456789-0123456789'
  for (const [algorithm, pem, types] of [['RS256', rsa.privateKey, ['pkcs8', 'pkcs1']], ['ES256', ec.privateKey, ['pkcs8', 'sec1']], ['EdDSA', ed.privateKey, ['pkcs8']]] as const) {
    for (const type of types) {
      const text = encrypted(pem, type, canary)
      const path = join(t.testdir({ [type]: text }), type)
      const read = (value: unknown) => () => privateKey(algorithm, 'privateKey', value)
      const missing = /^"privateKey" is encrypted; give its passphrase too, as \{ pem, passphrase \} or \{ path, passphrase \}\./
      for (const value of [text, Buffer.from(text), { path }, pathToFileURL(path), { path, passphrase: undefined }, { pem: text }]) refused(`${type}: none`, missing, read(value), text, canary)
      const wrong = /^"privateKey" cannot be decrypted with its passphrase\./
      for (const passphrase of ['', 'wrong', `${canary}x`, canary.toUpperCase(), `${canary}-`.repeat(200)]) {
        for (const value of [{ pem: text, passphrase }, { path, passphrase }]) refused(`${type}: wrong`, wrong, read(value), text, canary, passphrase)
      }
      refused(`${type}: cut`, wrong, read({ pem: text.slice(0, text.length * 0.7), passphrase: canary }), text, canary)
    }
  }
  for (const value of [{ pem: canary.repeat(2), passphrase: canary }, { path: join(t.testdir({ secret }), 'secret'), passphrase: canary }]) {
    refused('a secret is not encrypted', /^"secret" has a passphrase, but only a private key is encrypted/, () => hmacKey('HS256', 'secret', value, 'sign'), canary)
  }
})

// Promise: security/use-key-ops
// Promise: keys/bytes-in-every-form
t.test('a CryptoKey is refused by its name, with what to do, wherever a key is given', async (t) => {
  const cryptoKey = await crypto.subtle.generateKey({ name: 'HMAC', hash: 'SHA-256' }, true, ['sign'])
  const advice = /a CryptoKey, which only Web Crypto reads\. Convert it with KeyObject\.from\(\) of node:crypto/
  for (const options of [{ secret: cryptoKey }, { secret: undefined, keys: [{ key: cryptoKey }] }, { sessions: { secret: cryptoKey } }, { secret: undefined, algorithm: 'ES256', publicKey: cryptoKey }]) {
    t.match((await refusal(t, mistyped({ authenticate: () => ({ user_id: 1 }), retrieveUser: () => null, secret, ...options })))?.message, advice)
  }
})

t.test('a JWK that is made for something else is refused (RFC 7517 sections 4.2 to 4.4)', async () => {
  const wrong: Array<[object, RegExp]> = [
    [{ use: 'enc' }, /"use" is not "sig"/], [{ use: '' }, /"use"/], [{ use: null }, /"use"/], [{ use: ['sig'] }, /"use"/],
    [{ key_ops: ['encrypt'] }, /"key_ops" do not include "(?:sign|verify)"/], [{ key_ops: [] }, /"key_ops"/], [{ key_ops: null }, /"key_ops"/], [{ key_ops: 'verify sign' }, /"key_ops"/],
    [{ alg: 'none' }, /for another "alg" than/], [{ alg: null }, /"alg"/], [{ alg: 'Ed448' }, /"alg"/], [{ alg: 'RSA-OAEP' }, /"alg"/]
  ]
  for (const algorithm of algorithms) {
    const keys = keysFor(algorithm)
    const [signing, verifying]: JsonWebKey[] = 'secret' in keys
      ? [{ kty: 'oct', k: base64(secret, 'base64url') }, { kty: 'oct', k: base64(secret, 'base64url') }]
      : [createPrivateKey(keys.privateKey).export({ format: 'jwk' }), createPublicKey(keys.publicKey).export({ format: 'jwk' })]
    const [signingName, verifyingName] = 'secret' in keys ? ['secret', 'secret'] : ['privateKey', 'publicKey']
    const other = algorithm === 'EdDSA' ? 'HS256' : 'Ed25519'
    for (const [members, message] of [...wrong, [{ alg: other }, /"alg"/] as const]) {
      const title = `${algorithm}: ${JSON.stringify(members)}`
      refused(title, message, () => verifyingKey(algorithm, { [verifyingName]: { ...verifying, ...members } }))
      refused(title, message, () => signingKey(algorithm, { [signingName]: { ...signing, ...members } }), String(signing?.d ?? signing?.k))
    }
    // What one half must permit, the other need not.
    assert.ok(verifyingKey(algorithm, { [verifyingName]: { ...verifying, key_ops: ['verify'], alg: algorithm } }), algorithm)
    assert.ok(signingKey(algorithm, { [signingName]: { ...signing, key_ops: ['sign'], alg: algorithm } }), algorithm)
    refused(algorithm, /"key_ops" do not include "sign"/, () => signingKey(algorithm, { [signingName]: { ...signing, key_ops: ['verify'] } }))
    refused(algorithm, /"key_ops" do not include "verify"/, () => verifyingKey(algorithm, { [verifyingName]: { ...verifying, key_ops: ['sign'] } }))
  }
})

t.test('a JWK that is none is refused, and none of its members is shown', async () => {
  const [publicJwk, privateJwk] = [rsaPublic.export({ format: 'jwk' }), rsaPrivate.export({ format: 'jwk' })]
  const edJwk = createPublicKey(ed.publicKey).export({ format: 'jwk' })
  const canary = 'canary-0123456789-0123456789'
  const publicJwks: Array<[Algorithm, object]> = [
    ['RS256', { kty: 'RSA' }], ['RS256', { ...publicJwk, n: 5 }], ['RS256', { ...publicJwk, e: undefined }], ['RS256', { kty: canary, n: canary }], ['RS256', { ...publicJwk, kty: 'rsa' }],
    ['ES256', { ...ecPublic.export({ format: 'jwk' }), x: base64(randomBytes(32), 'base64url') }], ['ES256', { kty: 'EC', crv: canary, x: canary, y: canary }],
    ['EdDSA', { ...edJwk, x: 'AAAA' }], ['EdDSA', { ...edJwk, crv: canary }], ['EdDSA', { kty: 'OKP', x: edJwk.x }]
  ]
  for (const [algorithm, jwk] of publicJwks) {
    refused(JSON.stringify(jwk), /^"publicKey" is a JWK that cannot be read as a public key\. Check its members/, () => publicKey(algorithm, 'publicKey', jwk), canary, String(publicJwk.n))
  }
  for (const jwk of [{ ...privateJwk, p: undefined }, { kty: 'RSA', d: canary }, { ...privateJwk, d: 5 }]) {
    refused(JSON.stringify(jwk), /^"privateKey" is a JWK that cannot be read as a private key/, () => privateKey('RS256', 'privateKey', jwk), canary, String(privateJwk.d))
  }
  for (const k of [undefined, null, 5, `${canary}!`, `${canary} `, `${canary}=`, [canary]]) {
    refused(String(k), /^"secret" is a JWK whose "k" is not base64url without padding/, () => hmacKey('HS256', 'secret', { kty: 'oct', k }, 'sign'), canary)
  }
  for (const jwk of [publicJwk, privateJwk, edJwk, { kty: 'OCT', k: canary }, { kty: 'AKP' }]) {
    refused(JSON.stringify(jwk), /^"secret" is a JWK of another type than "oct", but HS256 signs with a secret/, () => hmacKey('HS256', 'secret', jwk, 'sign'), canary, String(privateJwk.d))
  }
  const pem = base64(rsa.publicKey, 'base64url')
  refused('a public key as the secret of a JWK', /^"secret" is a PEM key or certificate/, () => hmacKey('HS256', 'secret', { kty: 'oct', k: pem }, 'sign'), pem)
})

t.test('each member of a JWK is read once: what was checked is what is used', async (t) => {
  const reads: string[] = []
  const jwk = new Proxy({ ...ecPublic.export({ format: 'jwk' }), use: 'sig' }, { get (target, name) { reads.push(String(name)); return Reflect.get(target, name) } })
  t.ok(publicKey('ES256', 'publicKey', jwk))
  const members = reads.filter((name) => ['kty', 'use', 'key_ops', 'alg', 'crv', 'x', 'y'].includes(name))
  t.strictSame(members.length, new Set(members).size)
})

// Promise: security/wrong-weak-confused
t.test('a private key that holds the public numbers of another is refused: it would borrow the signer of that other', async (t) => {
  const [own, other] = [ecPair('prime256v1', 1), ecPair('prime256v1')]
  const [ownJwk, otherJwk] = [own, other].map(({ privateKey }) => createPrivateKey(privateKey).export({ format: 'jwk' }))
  const [n1] = [createPrivateKey(rsaPair(2048, 1).privateKey).export({ format: 'jwk' })]
  const sec1 = createPrivateKey(own.privateKey).export({ type: 'sec1', format: 'der' })
  createPublicKey(other.publicKey).export({ type: 'spki', format: 'der' }).subarray(-65).copy(sec1, sec1.length - 65)
  const impostor = createPrivateKey({ key: sec1, format: 'der', type: 'sec1' })
  t.ok(createPublicKey(impostor).equals(createPublicKey(other.publicKey)), 'control: OpenSSL believes it')
  t.notOk(verify(null, Buffer.from('x'), createPublicKey(impostor), sign(null, Buffer.from('x'), impostor)))
  const rows: Array<[Algorithm, unknown]> = [
    ['ES256', impostor],
    ['ES256', impostor.export({ type: 'sec1', format: 'pem' })],
    ['ES256', { ...ownJwk, x: otherJwk?.x, y: otherJwk?.y }],
    ['RS256', { ...rsaPrivate.export({ format: 'jwk' }), n: n1?.n }],
    ['PS256', { ...n1, n: rsaPublic.export({ format: 'jwk' }).n }],
    ['RS256', { ...n1, q: 'AA' }],
    ['RS256', { ...n1, p: 'Ag' }]
  ]
  for (const [algorithm, value] of rows) {
    refused(algorithm, /^"privateKey" holds public and private numbers that do not belong together/, () => privateKey(algorithm, 'privateKey', value), String(ownJwk?.d), String(n1?.d))
  }
})

t.test('an Ed25519 private key has the public number of its private one, whatever it says: it cannot borrow the signer of another', async (t) => {
  const [own, other] = [0, 1].map((which) => createPrivateKey(edPair(which).privateKey).export({ format: 'jwk' }))
  const [known, borrowed] = [0, 1].map((which) => publicKey('EdDSA', 'publicKey', edPair(which).publicKey).fingerprint)
  t.not(known, borrowed)
  t.equal(privateKey('EdDSA', 'privateKey', { ...own, x: other?.x }).fingerprint, known)
  // RFC 5958, with the public key of the other.
  const body = Buffer.concat([Buffer.from('020101300506032b657004220420', 'hex'), Buffer.from(own?.d ?? '', 'base64url'), Buffer.from('812100', 'hex'), Buffer.from(other?.x ?? '', 'base64url')])
  const pem = `-----BEGIN PRIVATE KEY-----\n${Buffer.concat([Buffer.from([0x30, body.length]), body]).toString('base64')}\n-----END PRIVATE KEY-----\n`
  let fingerprint: string | undefined
  try {
    fingerprint = privateKey('EdDSA', 'privateKey', pem).fingerprint
  } catch (error) {
    t.match(error, { name: 'InvalidConfiguration' }, 'OpenSSL versions that do not read this form')
  }
  t.not(fingerprint, borrowed)
})

t.test('halves of two pairs are refused, with every algorithm', async (t) => {
  for (const algorithm of asymmetric) {
    const [one, other] = [pairFor(algorithm), pairFor(algorithm, 1)]
    const read = () => checkPair(privateKey(algorithm, 'privateKey', one.privateKey), publicKey(algorithm, 'publicKey', other.publicKey))
    refused(algorithm, /"privateKey" and "publicKey" are not the halves of one pair/, read, one.privateKey, other.publicKey)
    t.match(await refusal(t, { secret: undefined, algorithm, publicKey: other.publicKey, privateKey: one.privateKey }), { name: 'InvalidConfiguration' })
  }
})

t.test('a file that cannot be read is named by its setting and its error, and never quoted', async (t) => {
  const directory = t.testdir({})
  const canary = 'canary-0123456789-0123456789'
  const rows: Array<[string, unknown, RegExp]> = [
    ['a missing file', { path: join(directory, canary) }, /^The file given as "secret" cannot be read \(ENOENT\)/],
    ['the secret itself as a path', { path: canary }, /cannot be read \(ENOENT\)/],
    ['a key as a path', { path: `${canary}${rsa.privateKey}` }, /cannot be read \((?:ENOENT|ENAMETOOLONG)\)/],
    ['an empty path', { path: '' }, /cannot be read \(ENOENT\)/],
    ['a directory', { path: directory }, /^The file given as "secret" is not a regular file\. /],
    ['a path that no system has', { path: `${canary}\0` }, /cannot be read \(ERR_INVALID_ARG_VALUE\)/],
    ['a missing file: URL', pathToFileURL(join(directory, canary)), /cannot be read \(ENOENT\)/],
    ['a file: URL with a host', new URL(`file://host/${canary}`), /cannot be read \(\w+\)/],
    ['a file: URL with an encoded separator', new URL(`file:///a%2F${canary}`), /cannot be read \(\w+\)/],
    ['a URL to fetch', new URL(`https://127.0.0.1:1/${canary}`), /is a URL with "https:"; only "file:" URLs are read/],
    ['a data: URL', new URL(`data:text/plain,${canary}`), /is a URL with "data:"/],
    ['a path that is no text', { path: 5 }, /must be a string, a Buffer or other bytes, a KeyObject, a JWK, a file: URL, \{ path \} or \{ pem, passphrase \}/],
    ['a PEM that is no text', { pem: 5, passphrase: canary }, /must be a string, a Buffer/],
    ['an object', { key: canary }, /must be a string, a Buffer/],
    ['a number', 5, /must be a string, a Buffer/]
  ]
  for (const [title, given, message] of rows) refused(title, message, () => hmacKey('HS256', 'secret', given, 'verify'), canary)
  for (const given of [{ path: canary }, new URL(`file://host/${canary}`)]) t.match(await refusal(t, { secret: given }), { name: 'InvalidConfiguration', message: /cannot be read/ })
})

// Promise: security/jwk-names-file
t.test('whatever has the member "kty" is a JWK, and names no file, in whatever option it stands', async (t) => {
  const folder = t.testdir({ secret })
  const path = join(folder, 'secret')
  const jwk = { kty: 'oct', k: Buffer.from(otherSecret).toString('base64url'), kid: 'a' }
  const wrong = ['path', 'pem', 'passphrase'].flatMap((member) => [{ ...jwk, [member]: path }, { kty: 'oct', [member]: path }, { kty: 'EC', [member]: path }])
  const message = /^"[^"]+" is a JWK, because it has the member "kty", and it has the member "(?:path|pem|passphrase)", too\. Remove one of them/
  for (const given of wrong) {
    const places: object[] = [{ secret: given }, { publicKey: given, secret: undefined }, { secret: undefined, keys: [{ key: given, algorithm: 'HS256' }] }, { secret: undefined, keys: async () => [{ key: given }] }, { sessions: { secret: given } }, { secret: undefined, algorithm: 'ES256', privateKey: given, publicKey: given }]
    for (const options of places) {
      const error = await refusal(t, options)
      const cause = Object(error).cause ?? error
      assert.match(String(Object(cause).message), message, caseOf([given, options]))
      assert.ok(!String(Object(cause).message).includes(folder), caseOf([given, options]))
    }
    // Nothing that is read may be remembered under the name of another thing.
    assert.equal(identityOf(given), undefined, caseOf(given))
    const app = await build(t, { secret: undefined, getSecret: () => mistyped(given) })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
    assert.equal((await app.inject({ url: '/', headers: bearer(forge(claims())) })).statusCode, 500, caseOf(given))
    await app.close()
  }
  t.match(hmacKey('HS256', 'secret', jwk, 'verify').material, Buffer.from(otherSecret))
})

t.test('a key file is a regular file, after links: a pipe, which waits for its writer, does not hold up the process', { skip: process.platform === 'win32' && 'Windows has no such files.' }, async (t) => {
  const folder = t.testdir({ secret, link: t.fixture('symlink', 'secret'), 'link-of-link': t.fixture('symlink', 'link'), 'link-to-pipe': t.fixture('symlink', 'pipe') })
  execFileSync('mkfifo', [join(folder, 'pipe')])
  for (const name of ['secret', 'link', 'link-of-link']) t.match(hmacKey('HS256', 'secret', { path: join(folder, name) }, 'verify').material, Buffer.from(secret))
  for (const path of [join(folder, 'pipe'), join(folder, 'link-to-pipe'), '/dev/null', folder]) {
    t.throws(() => hmacKey('HS256', 'secret', { path }, 'verify'), { name: 'InvalidConfiguration', message: /^The file given as "secret" is not a regular file\. / })
  }
})

t.test('an instance issues and verifies with keys in every form, and warns of none', async (t) => {
  const codes = warnings(t)
  const jwks = [createPublicKey(ed.publicKey), createPrivateKey(ed.privateKey)].map((key) => key.export({ format: 'jwk' }))
  const options: Array<Parameters<typeof build>[1]> = [
    { algorithm: 'EdDSA', publicKey: jwks[0], privateKey: jwks[1] },
    { algorithm: 'EdDSA', publicKey: ed.publicKey, privateKey: { pem: encrypted(ed.privateKey), passphrase: 'x' } },
    { algorithm: 'RS256', secret: undefined, publicKey: rsaPublic.export({ format: 'jwk' }), privateKey: { pem: encrypted(rsa.privateKey, 'pkcs1'), passphrase: 'x' } },
    { algorithm: 'HS256', secret: { kty: 'oct', k: base64(secret, 'base64url') } }
  ]
  for (const given of options) {
    const app = await build(t, given)
    t.match(app.tokenAuth.verifyToken(await app.tokenAuth.generateAccessToken({ user_id: 1 })), { user_id: 1 })
  }
  t.same(codes, [])
})

t.test('the alias publicKey of secret: the fitting name wins, either will do, none is an error', async (t) => {
  const verified = (algorithm: Algorithm, keys: ConfiguredKeys, key: string) =>
    !(verifierOf(findersOf(algorithm, verifyingKey(algorithm, keys)), 0)(forge(claims(), { algorithm, key })) instanceof Refusal)
  t.ok(verified('HS256', { publicKey: secret }, secret))
  t.ok(verified('HS256', { publicKey: otherSecret, secret }, secret))
  t.ok(verified('HS256', { secret: null, publicKey: secret, privateKey: 'unused' }, secret))
  t.ok(verified('RS256', { secret: rsa.publicKey }, rsa.privateKey))
  t.ok(verified('RS256', { secret, publicKey: rsa.publicKey }, rsa.privateKey))
  t.ok(verified('EdDSA', { secret: edPair().publicKey }, edPair().privateKey))
  t.throws(() => verifyingKey('HS256', {}), { name: 'RequiredKeysNotFound', message: /HS256 needs "secret" to verify/ })
  t.throws(() => verifyingKey('ES256', { privateKey: ec.privateKey, publicKey: null }), { name: 'RequiredKeysNotFound', message: /ES256 needs "publicKey" to verify/ })
  t.throws(() => signingKey('ES256', { publicKey: ec.publicKey, secret }), { name: 'RequiredKeysNotFound', message: /ES256 needs "privateKey" to issue/ })
  t.throws(() => signingKey('EdDSA', { publicKey: edPair().publicKey, secret }), { name: 'RequiredKeysNotFound', message: /EdDSA needs "privateKey" to issue/ })
  t.throws(() => signingKey('HS256', { privateKey: secret }), { name: 'RequiredKeysNotFound' })
})

t.test('an HS algorithm signs and verifies with one key, every other with the halves of a pair', async (t) => {
  for (const algorithm of algorithms) {
    const isShared = algorithm.startsWith('HS')
    assert.deepEqual(verifyingNames(algorithm), isShared ? ['secret', 'publicKey'] : ['publicKey', 'secret'], algorithm)
    assert.deepEqual(signingNames(algorithm), isShared ? ['secret', 'publicKey'] : ['privateKey'], algorithm)
  }
  t.same(pick(['publicKey', 'secret'], { secret: 'a', publicKey: null }), ['secret', 'a'])
  t.equal(pick(['publicKey'], { secret: 'a' }), undefined)
})

t.test('EdDSA needs both halves to issue, and the public one to verify', async (t) => {
  const { publicKey, privateKey } = edPair()
  t.match(await refusal(t, { algorithm: 'EdDSA', secret: undefined, publicKey }), { name: 'RequiredKeysNotFound' })
  t.match(await refusal(t, { algorithm: 'EdDSA', secret: undefined, privateKey }), { name: 'RequiredKeysNotFound' })
  t.equal(await refusal(t, { algorithm: 'EdDSA', secret: undefined, publicKey, privateKey }), undefined)
  t.equal(await refusal(t, { algorithm: 'EdDSA', secret: undefined, publicKey, authMode: false }), undefined)
})

t.test('one of two names of a key may be computed: the better name decides', async (t) => {
  // secret is the better name for HS256 and is given, so the getter of the alias is not asked.
  const asked: string[] = []
  const given = await build(t, { secret, getPublicKey: () => { asked.push('publicKey'); return otherSecret } })
  const computed = await build(t, { secret: undefined, publicKey: otherSecret, getSecret: () => { asked.push('secret'); return secret } })
  for (const app of [given, computed]) {
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'in')
    assert.equal((await app.inject({ url: '/', headers: bearer(forge(claims())) })).statusCode, 200)
    assert.equal((await app.inject({ url: '/', headers: bearer(forge(claims(), { key: otherSecret })) })).statusCode, 401)
  }
  t.strictSame(asked, ['secret', 'secret'])
})

t.test('a computed algorithm without its key is a 500 of the host, and the route is not reached', async (t) => {
  const app = await build(t, { secret, getAlgorithm: () => 'RS256', authMode: false })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => t.fail('reached'))
  const response = await app.inject({ url: '/', headers: bearer(forge(claims())) })
  t.equal(response.statusCode, 500)
  t.notOk(response.body.includes(secret.slice(0, 20)))
})
