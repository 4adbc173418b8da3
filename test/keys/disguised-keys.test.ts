// @slow
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { createPublicKey, createSecretKey, generateKeyPairSync, X509Certificate } from 'node:crypto'
import t from 'tap'
import { asymmetricForm } from '../../lib/keys/disguised-keys.ts'
import { hmacKey } from '../../lib/keys/material.ts'
import { build, keysFor, refusal, rsaPair, secret } from '../helper.ts'
import { base64, certificate, ec, ecPrivate, ecPublic, ed, encrypted, refused, rsa, rsaPrivate, rsaPublic } from './fixtures.ts'

const edPublic = createPublicKey(ed.publicKey)

const pems: Record<string, string> = {
  'RSA public': rsa.publicKey,
  'EC public': ec.publicKey,
  'RSA private': rsa.privateKey,
  'EC private': ec.privateKey,
  'RSA public, older': rsaPublic.export({ type: 'pkcs1', format: 'pem' }).toString(),
  'RSA private, older': rsaPrivate.export({ type: 'pkcs1', format: 'pem' }).toString(),
  'EC private, older': ecPrivate.export({ type: 'sec1', format: 'pem' }).toString(),
  encrypted: encrypted(rsa.privateKey),
  Ed25519: ed.publicKey,
  'RSA-PSS': generateKeyPairSync('rsa-pss', { modulusLength: 2048 }).publicKey.export({ type: 'spki', format: 'pem' }).toString(),
  certificate,
  'another certificate': certificate.replaceAll('CERTIFICATE', 'TRUSTED CERTIFICATE'),
  'OpenSSH private': '-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU=\n-----END OPENSSH PRIVATE KEY-----\n'
}
const ders: Record<string, Buffer> = {
  'RSA public': rsaPublic.export({ type: 'spki', format: 'der' }),
  'RSA public, older': rsaPublic.export({ type: 'pkcs1', format: 'der' }),
  'EC public': ecPublic.export({ type: 'spki', format: 'der' }),
  'Ed25519 public': edPublic.export({ type: 'spki', format: 'der' }),
  'RSA private': rsaPrivate.export({ type: 'pkcs8', format: 'der' }),
  'RSA private, older': rsaPrivate.export({ type: 'pkcs1', format: 'der' }),
  'EC private': ecPrivate.export({ type: 'pkcs8', format: 'der' }),
  'EC private, older': ecPrivate.export({ type: 'sec1', format: 'der' }),
  certificate: new X509Certificate(certificate).raw
}
const jwk = rsaPublic.export({ format: 'jwk' })
const jwks: Record<string, string> = {
  'a JWK': JSON.stringify(jwk),
  'a JWK, indented': `\n${JSON.stringify(ecPublic.export({ format: 'jwk' }), null, 2)}`,
  'an OKP JWK': JSON.stringify(edPublic.export({ format: 'jwk' })),
  'a private JWK': JSON.stringify(ecPrivate.export({ format: 'jwk' })),
  'a secret JWK as text': JSON.stringify({ kty: 'oct', k: base64(secret, 'base64url') }),
  'a JWK set': JSON.stringify({ keys: [jwk] }),
  'a list of JWKs': JSON.stringify([jwk]),
  'a JWK behind others in a list': JSON.stringify([1, null, {}, jwk]),
  'a JWK inside another object': JSON.stringify({ signing: { key: jwk } }),
  'a JWK in a list in an object in a list': JSON.stringify([[{ keys: { rsa: [[jwk]] } }]]),
  'a JWK as text inside another object': JSON.stringify({ key: JSON.stringify(jwk) }),
  'a JWK as text in text inside another object': JSON.stringify([{ key: JSON.stringify({ key: JSON.stringify(jwk) }) }]),
  'a JWK in JSON with a comma too many': `{"key":${JSON.stringify(jwk)},}`,
  'a JWK with single quotes': JSON.stringify(jwk).replaceAll('"', "'"),
  'a JWK with its letters escaped': JSON.stringify(jwk).replace('kty', '\\u006bty')
}
const ssh: Record<string, string> = {
  'an ssh key': 'ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC7 someone@somewhere',
  'an Ed25519 ssh key': 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI',
  'an EC ssh key': ' ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTY=',
  'an ssh key of a security token': 'sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29t',
  'an SSH2 key': '---- BEGIN SSH2 PUBLIC KEY ----\nAAAAB3NzaC1yc2E\n---- END SSH2 PUBLIC KEY ----'
}

/** Encodings of bytes in which deployments store keys. */
const encodings: Record<string, (bytes: Buffer) => string | Buffer> = {
  'as it is': (bytes) => bytes,
  base64: (bytes) => base64(bytes),
  base64url: (bytes) => base64(bytes, 'base64url'),
  'base64 in lines': (bytes) => base64(bytes).replace(/.{64}/g, '$&\n'),
  'base64 in lines with their ends spelled out': (bytes) => base64(bytes).replace(/.{64}/g, '$&\\n'),
  'base64 after a byte order mark': (bytes) => `\uFEFF${base64(bytes)}`,
  hexadecimal: (bytes) => bytes.toString('hex'),
  'hexadecimal in capitals, with 0x': (bytes) => `0x${bytes.toString('hex').toUpperCase()}`,
  'hexadecimal with colons, in lines': (bytes) => bytes.toString('hex').replace(/..(?!$)/g, '$&:').replace(/.{45}/g, '$&\n    '),
  'hexadecimal escapes': (bytes) => bytes.toString('hex').replace(/../g, '\\x$&'),
  'percent-encoded': (bytes) => bytes.toString('hex').replace(/../g, '%$&'),
  'characters of one byte': (bytes) => bytes.toString('latin1'),
  'base64 in base64': (bytes) => base64(base64(bytes)),
  'base64 in hexadecimal in quotes': (bytes) => `"${Buffer.from(base64(bytes)).toString('hex')}"`
}
const textEncodings: Record<string, (text: string) => string | Buffer> = {
  ...Object.fromEntries(Object.entries(encodings).map(([name, encode]) => [name, (text: string) => encode(Buffer.from(text))])),
  'after white space': (text) => ` \r\n\t${text}`,
  'as a component of a URL': encodeURIComponent,
  'as a field of a form': (text) => new URLSearchParams({ key: text }).toString().replace('key=', ''),
  'as JSON': (text) => JSON.stringify(text),
  'as JSON in JSON': (text) => JSON.stringify(JSON.stringify(text)),
  'UTF-16, little-endian': (text) => Buffer.from(text, 'utf16le'),
  'UTF-16, little-endian, with a mark': (text) => Buffer.from(`\uFEFF${text}`, 'utf16le'),
  'UTF-16, big-endian': (text) => Buffer.from(text, 'utf16le').swap16(),
  'UTF-16, big-endian, with a mark': (text) => Buffer.from(`\uFEFF${text}`, 'utf16le').swap16(),
  'UTF-16 that was read as UTF-8': (text) => Buffer.from(`\uFEFF${text}`, 'utf16le').toString('utf8'),
  'UTF-16 in base64': (text) => base64(Buffer.from(text, 'utf16le'))
}
const quotes: Record<string, (content: string | Buffer) => string | Buffer> = Object.fromEntries(['"', "'", '`', '"\'', ' " '].map((quote) => [
  quote, (content) => Buffer.concat([quote, content, quote].map((part) => Buffer.from(part)))
]))

// Promise: security/public-key-secret
t.test('nothing that is an asymmetric key is a secret, however it is spelled (RFC 8725 section 2.1)', async (t) => {
  const attempt = (title: string, value: string | Buffer) => {
    const shown = /^"publicKey" is an? .+, but HS\d+ signs with a secret \(RFC 8725 section 2\.1\)\./
    refused(title, shown, () => hmacKey('HS256', 'publicKey', value, 'verify'), String(value))
    for (const [quote, put] of Object.entries(quotes)) if (asymmetricForm(Buffer.from(put(value))) === undefined) t.fail(`${title} between ${quote}`)
  }
  for (const [name, text] of Object.entries({ ...pems, ...jwks, ...ssh })) {
    for (const [encoding, encode] of Object.entries(textEncodings)) attempt(`${name}, ${encoding}`, encode(text))
  }
  for (const [name, text] of Object.entries(pems)) {
    attempt(`${name} with its line ends spelled out`, text.replaceAll('\n', '\\n'))
    attempt(`${name} inside JSON`, JSON.stringify({ keys: [{ pem: text }] }))
  }
  for (const [name, der] of Object.entries(ders)) {
    for (const [encoding, encode] of Object.entries(encodings)) attempt(`${name} in DER, ${encoding}`, encode(der))
    attempt(`${name} in DER, UTF-16 of base64`, Buffer.from(base64(der), 'utf16le'))
    attempt(`${name} in DER, after a line end and before one`, Buffer.concat([Buffer.from('\n'), der, Buffer.from('\r\n')]))
  }
  for (const [name, object] of Object.entries({ rsaPublic, rsaPrivate, ecPublic, ecPrivate, edPublic })) {
    refused(name, /^"secret" is a (?:public|private) key, but HS256/, () => hmacKey('HS256', 'secret', object, 'verify'))
  }
  refused('bytes of a PEM in a KeyObject', /PEM/, () => hmacKey('HS256', 'secret', createSecretKey(Buffer.from(rsa.publicKey)), 'verify'), rsa.publicKey)
  refused('an encrypted PEM with its passphrase', /^"secret" is a PEM key/, () => hmacKey('HS256', 'secret', { pem: encrypted(rsa.privateKey), passphrase: 'x' }, 'sign'))
})

// Promise: security/public-key-secret
t.test('a disguised key is refused at registration, in a guard and by a getter alike', async (t) => {
  const hexadecimal = rsaPublic.export({ type: 'spki', format: 'der' }).toString('hex')
  t.match(await refusal(t, { secret: hexadecimal }), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E02', message: /^"secret" is a hexadecimal key or certificate/ })
  const app = await build(t)
  t.throws(() => app.tokenAuth.protect({ secret: hexadecimal }), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E02' })
  const computed = await build(t, { secret: undefined, getSecret: () => hexadecimal })
  t.match(await computed.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } }), { statusCode: 500 })
})

t.test('a key in PEM is recognized in lower case, with cut lines, and without its first line', async () => {
  for (const algorithm of ['RS256', 'ES256', 'ES384', 'ES512', 'EdDSA'] as const) {
    const { publicKey, privateKey } = { publicKey: '', privateKey: '', ...keysFor(algorithm) }
    for (const pem of [publicKey, privateKey]) {
      const lines = pem.trim().split('\n')
      const cut = [pem.toLowerCase(), pem.toUpperCase(), pem.toLowerCase().slice(0, 40), pem.toLowerCase().slice(4), lines.slice(1).join('\n').toLowerCase(), lines.slice(1, -1).join('').toLowerCase()]
      for (const text of cut) assert.ok(asymmetricForm(Buffer.from(text)), `${algorithm}: ${text.slice(0, 30)}`)
    }
  }
})

t.test('the modulus of an RSA key is recognized, in every encoding', async (t) => {
  for (const modulusLength of [2048, 3072, 4096]) {
    const { n = '' } = createPublicKey(rsaPair(modulusLength).publicKey).export({ format: 'jwk' })
    const bytes = Buffer.from(n, 'base64url')
    const hex = bytes.toString('hex')
    const forms = [bytes, Buffer.concat([Buffer.alloc(1), bytes]), n, bytes.toString('base64'), hex, `00${hex}`, `Modulus=${hex.toUpperCase()}\n`, hex.replace(/../g, '$&:').slice(0, -1)]
    for (const form of forms) assert.match(String(asymmetricForm(Buffer.from(form))), /modulus|key or certificate/, String(form).slice(0, 20))
  }
  t.match(asymmetricForm(Buffer.from(createPublicKey(rsaPair().publicKey).export({ format: 'jwk' }).n ?? '', 'base64url')), 'the modulus of an RSA key')
  const odd = Buffer.alloc(256, 0xff)
  t.equal(asymmetricForm(odd), undefined, 'divisible by three')
  t.equal(asymmetricForm(Buffer.concat([odd.subarray(1), Buffer.from([0xfe])])), undefined, 'an even number')
})

t.test('what only resembles a key is a secret like any other', async () => {
  const good = [
    secret, 'ssh', 'BEGIN PUBLIC KEY', '-----', '{"a":1}', '{not json', '[]', '[1]', '[null]', '{"keys":[]}', '0'.repeat(64), 'a'.repeat(64), '{"kty', 'kty: RSA', 'MIIB'.repeat(40),
    base64(Buffer.alloc(64, 0x30)), Buffer.alloc(64, 0x30), Buffer.concat([Buffer.from([0x30, 0x82]), Buffer.alloc(62, 1)]), Buffer.alloc(64, 0xff), Buffer.from([0x30]),
    '%41%ZZ100%', '\\x41\\u0041\\n', `0x${'30'.repeat(40)}`, '\0'.repeat(40), '"quoted, and nothing else"'
  ]
  for (const given of good) assert.ok(hmacKey('HS256', 'secret', given, 'verify').material.equals(Buffer.from(given)), String(given).slice(0, 20))
})

// Promise: security/public-key-secret
t.test('no random secret is taken for a key, in any of the encodings in which secrets are made', async () => {
  const bytes = fc.uint8Array({ minLength: 16, maxLength: 80 }).map((array) => Buffer.from(array))
  // Every DER key begins with this byte: random bytes hardly ever do.
  const sequence = bytes.map((array) => Buffer.concat([Buffer.from([0x30]), array]))
  fc.assert(fc.property(fc.oneof(bytes, sequence), (array) => {
    return [array, array.toString('hex'), base64(array), base64(array, 'base64url')].every((form) => asymmetricForm(Buffer.from(form)) === undefined)
  }), { numRuns: 150 })
  fc.assert(fc.property(fc.string({ unit: 'binary', minLength: 1 }), (text) => asymmetricForm(Buffer.from(text)) === undefined))
})

t.test('the refusal of a JWK as text says that a secret JWK is given as an object', async () => {
  refused('a JWK as text', /^"secret" is a JWK, but HS256 .* Give a JWK with "kty": "oct" as an object, not as text\./, () => hmacKey('HS256', 'secret', jwks['a secret JWK as text'], 'sign'), secret)
})
