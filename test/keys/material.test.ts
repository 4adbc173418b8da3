/** Keys on their own. What registration says of wrong ones, number by number: test/hostile/startup.test.ts. */
import { createPrivateKey, createPublicKey, createSecretKey, generateKeyPairSync, KeyObject, X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTask } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import { InvalidConfiguration } from '../../lib/errors.ts'
import type { Algorithm, Settings } from '../../lib/index.ts'
import { signingKey, verifyingKey, type GivenKeys } from '../../lib/keys/configured-keys.ts'
import { withDefaultSecret } from '../../lib/keys/default-secret.ts'
import { checkPair, hmacKey, privateKey, publicKey } from '../../lib/keys/material.ts'
import { Refusal } from '../../lib/refusal.ts'
import { resolveSettings } from '../../lib/settings/configuration.ts'
import { CodecCache } from '../../lib/token/codec-cache.ts'
import { signerOf, verifierOf, type Verifier } from '../../lib/token/codec.ts'
import { algorithms, bearer, build, claims, ecPair, environment, forge, keysFor, mistyped, otherSecret, refusal, rsaPair, secret } from '../helper.ts'

/** A certificate whose private key is thrown away, and a token that was signed with it before. */
const certificate = `-----BEGIN CERTIFICATE-----
MIIBdTCCARugAwIBAgIUSx5J1rF924G6yasZ15ETEU06bqQwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjEwNjE1NTRaGA8yMTI2MTAyODA2MTU1
NFowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABB/Y
y9vYyYej8/wPhkScTwdgT0NPrnuUhrj7uziDWKOc2mdSRteiWUlVLzxC2Ns1MDqc
g8I4rO8UZLTOyOUOVN2jUzBRMB0GA1UdDgQWBBSbA/q4I5NODVbO0DHA+jnAQOp2
PTAfBgNVHSMEGDAWgBSbA/q4I5NODVbO0DHA+jnAQOp2PTAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0gAMEUCIFTCE88McgRp/vvtn5dvQFBZl1g7DPm8RBUi
ZdGX3H9CAiEAgfFKbW5wDKQMhyd7an6u4ZtsGUTpWODDnYQngv/hdus=
-----END CERTIFICATE-----
`
const certified = 'eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJ1c2VyX2lkIjoxfQ.XsQzL-X35kKM779yvgI5fYEtXmETNnaNZAwtxfRSEPw96jpIh7rjf2BLL1wzv9lDlzWiLQYAqIeK-NRN6lC0Ig'

const rsa = rsaPair()
const ec = ecPair('prime256v1')
const rsaPublic = createPublicKey(rsa.publicKey)
const rsaPrivate = createPrivateKey(rsa.privateKey)
const ecPublic = createPublicKey(ec.publicKey)
const ecPrivate = createPrivateKey(ec.privateKey)

const accepts = (verify: Verifier, token: string) => !(verify(token) instanceof Refusal)

/** Every way to hand over the same text; it is written to a file. */
function forms (path: string, text: string, object: KeyObject): Record<string, unknown> {
  writeFileSync(path, text)
  return { text, Buffer: Buffer.from(text), KeyObject: object, 'a path': { path }, 'a file: URL': pathToFileURL(path) }
}

for (const algorithm of algorithms) {
  t.test(`${algorithm}: keys may be text, Buffer, KeyObject, path or file: URL, and all are the same key`, async (t) => {
    const keys = keysFor(algorithm)
    const file = (name: string) => join(directory, name)
    const directory = t.testdir({})
    const [signing, verifying] = 'secret' in keys
      ? [forms(file('a secret'), secret, createSecretKey(Buffer.from(secret)))]
      : [forms(file('a private key'), keys.privateKey, createPrivateKey(keys.privateKey)), forms(file('a public key'), keys.publicKey, createPublicKey(keys.publicKey))]
    const [signingName, verifyingName] = 'secret' in keys ? ['secret', 'secret'] : ['privateKey', 'publicKey']
    const token = forge(claims(), { algorithm, key: 'secret' in keys ? keys.secret : keys.privateKey })
    const verifiers = Object.entries(verifying ?? signing).map(([form, given]) => {
      const key = verifyingKey(algorithm, { [verifyingName]: given })
      t.ok(accepts(verifierOf(algorithm, key, 0), token), form)
      return key
    })
    t.equal(new Set(verifiers.map(({ fingerprint }) => fingerprint)).size, 1)
    for (const [form, given] of Object.entries(signing)) {
      const key = signingKey(algorithm, { [signingName]: given })
      const issued = await signerOf(algorithm, key, false)({ user_id: 1 })
      t.ok(verifiers.every((verifying) => accepts(verifierOf(algorithm, verifying, 0), issued)), form)
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
  for (const [algorithm, name, given] of publicKeys) t.ok(publicKey(algorithm, 'publicKey', given).material.includes('BEGIN PUBLIC KEY'), name)
  t.ok(accepts(verifierOf('ES256', publicKey('ES256', 'publicKey', certificate), 0), certified), 'the key of a certificate verifies')
  t.notOk(accepts(verifierOf('ES256', publicKey('ES256', 'publicKey', ec.publicKey), 0), certified))

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
  const encrypted = ecPrivate.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' })
  t.ok(privateKey('ES256', 'privateKey', createPrivateKey({ key: encrypted, passphrase: 'x' })), 'an encrypted key that was opened before')
})

/** The InvalidConfiguration of a key, which never shows it. */
function refused (t: Test, title: string, shown: RegExp, read: () => unknown, ...canaries: string[]): void {
  try {
    read()
    t.fail(`${title} was accepted`)
  } catch (error) {
    t.ok(error instanceof InvalidConfiguration, title)
    t.match(error, { message: shown }, title)
    const text = inspect(error, { depth: null, showHidden: true })
    const parts = canaries.map((canary) => canary.replace(/-----[^-]+-----\s*/g, '').slice(0, 20)).filter((part) => part !== '' && !part.startsWith('[object'))
    t.strictSame(parts.filter((part) => text.includes(part)), [], `${title} is not shown`)
  }
}

const base64 = (content: string | Buffer, encoding: 'base64' | 'base64url' = 'base64') => Buffer.from(content).toString(encoding)

t.test('nothing that is an asymmetric key is a secret, however it is spelled (RFC 8725 section 2.1)', async (t) => {
  const certificateBytes = new X509Certificate(certificate).raw
  const pems: Record<string, string> = {
    'RSA public': rsa.publicKey,
    'EC public': ec.publicKey,
    'RSA private': rsa.privateKey,
    'EC private': ec.privateKey,
    'RSA public, older': rsaPublic.export({ type: 'pkcs1', format: 'pem' }).toString(),
    'RSA private, older': rsaPrivate.export({ type: 'pkcs1', format: 'pem' }).toString(),
    'EC private, older': ecPrivate.export({ type: 'sec1', format: 'pem' }).toString(),
    encrypted: rsaPrivate.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }).toString(),
    Ed25519: generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    'RSA-PSS': generateKeyPairSync('rsa-pss', { modulusLength: 2048 }).publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    certificate,
    'another certificate': certificate.replaceAll('CERTIFICATE', 'TRUSTED CERTIFICATE'),
    'OpenSSH private': '-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU=\n-----END OPENSSH PRIVATE KEY-----\n'
  }
  const bytes: Record<string, Buffer> = {
    'RSA public': rsaPublic.export({ type: 'spki', format: 'der' }),
    'RSA public, older': rsaPublic.export({ type: 'pkcs1', format: 'der' }),
    'EC public': ecPublic.export({ type: 'spki', format: 'der' }),
    'RSA private': rsaPrivate.export({ type: 'pkcs8', format: 'der' }),
    'RSA private, older': rsaPrivate.export({ type: 'pkcs1', format: 'der' }),
    'EC private': ecPrivate.export({ type: 'pkcs8', format: 'der' }),
    'EC private, older': ecPrivate.export({ type: 'sec1', format: 'der' }),
    certificate: certificateBytes
  }
  const jwk = rsaPublic.export({ format: 'jwk' })
  const texts: Record<string, string> = {
    'a JWK': JSON.stringify(jwk),
    'a JWK, indented': `\n${JSON.stringify(ecPublic.export({ format: 'jwk' }), null, 2)}`,
    'a private JWK': JSON.stringify(ecPrivate.export({ format: 'jwk' })),
    'a JWK set': JSON.stringify({ keys: [jwk] }),
    'a list of JWKs': JSON.stringify([jwk]),
    'an ssh key': 'ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC7 someone@somewhere',
    'an Ed25519 ssh key': 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI',
    'an EC ssh key': ' ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTY=',
    'an ssh key of a security token': 'sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29t',
    'an SSH2 key': '---- BEGIN SSH2 PUBLIC KEY ----\nAAAAB3NzaC1yc2E\n---- END SSH2 PUBLIC KEY ----'
  }
  const attempt = (title: string, given: string | Buffer) => {
    for (const algorithm of ['HS256', 'HS384', 'HS512'] as const) {
      refused(t, title, /^"publicKey" is an? .+, but HS\d+ signs with a secret \(RFC 8725 section 2\.1\)\./, () => hmacKey(algorithm, 'publicKey', given), String(given))
    }
  }
  for (const [name, text] of Object.entries({ ...pems, ...texts })) {
    attempt(name, text)
    attempt(`${name} in a Buffer`, Buffer.from(text))
    attempt(`${name} after white space`, ` \r\n\t${text}`)
    attempt(`${name} in base64`, base64(text))
    attempt(`${name} in base64url`, base64(text, 'base64url'))
  }
  for (const [name, text] of Object.entries(pems)) {
    attempt(`${name} with its line ends spelled out`, text.replaceAll('\n', '\\n'))
    attempt(`${name} between quotes`, `"${text}"`)
  }
  for (const [name, given] of Object.entries(bytes)) {
    attempt(`${name} in DER`, given)
    attempt(`${name} in DER, base64`, base64(given))
    attempt(`${name} in DER, base64url`, base64(given, 'base64url'))
    attempt(`${name} in DER, base64 in lines`, base64(given).replace(/.{64}/g, '$&\n'))
  }
  for (const [name, object] of Object.entries({ rsaPublic, rsaPrivate, ecPublic, ecPrivate })) {
    refused(t, name, /^"secret" is a (?:public|private) key, but HS256/, () => hmacKey('HS256', 'secret', object))
  }
  refused(t, 'bytes of a PEM in a KeyObject', /PEM/, () => hmacKey('HS256', 'secret', createSecretKey(Buffer.from(rsa.publicKey))), rsa.publicKey)
})

t.test('what only resembles a key is a secret like any other', async (t) => {
  const good = [
    secret, 'ssh', 'BEGIN PUBLIC KEY', '-----', '{"a":1}', '{not json', '[]', '[1]', '[null]', '0'.repeat(64), 'a'.repeat(64), '{"kty', 'MIIB'.repeat(40),
    base64(Buffer.alloc(64, 0x30)), Buffer.alloc(64, 0x30), Buffer.concat([Buffer.from([0x30, 0x82]), Buffer.alloc(62, 1)]), Buffer.alloc(64, 0xff), Buffer.from([0x30])
  ]
  for (const given of good) t.ok(hmacKey('HS256', 'secret', given).material.equals(Buffer.from(given)), String(given).slice(0, 20))
  const given = Buffer.from(secret)
  const key = hmacKey('HS256', 'secret', given)
  given.fill(0)
  t.equal(key.material.toString(), secret, 'a Buffer that the host wipes later was copied')
})

t.test('an empty or blank secret is refused in every form', async (t) => {
  const blanks: unknown[] = ['', ' ', ' \t\r\n ', '\u2003\u3000', Buffer.alloc(0), Buffer.from('  \n'), createSecretKey(Buffer.from(' ')), { path: join(t.testdir({ blank: '\n' }), 'blank') }]
  for (const given of blanks) {
    refused(t, inspect(given), /^"secret" is empty or blank\. Give a random secret of at least 48 bytes\. See /, () => hmacKey('HS384', 'secret', given))
  }
})

t.test('a secret is short below the length of its hash, counted in bytes (RFC 7518 section 3.2)', async (t) => {
  for (const [algorithm, length] of [['HS256', 32], ['HS384', 48], ['HS512', 64]] as const) {
    t.equal(hmacKey(algorithm, 'secret', 'x'.repeat(length)).short, false)
    t.equal(hmacKey(algorithm, 'secret', 'x'.repeat(length - 1)).short, true)
    t.equal(hmacKey(algorithm, 'secret', 'é'.repeat(length / 2)).short, false)
  }
})

t.test('keys that are too weak, of the wrong kind or in the wrong place are refused, and the message says what is wrong', async (t) => {
  const ed = generateKeyPairSync('ed25519')
  const pss = generateKeyPairSync('rsa-pss', { modulusLength: 2048 })
  const small = rsaPair(1024)
  const withExponent = (e: string) => createPublicKey({ key: { ...rsaPublic.export({ format: 'jwk' }), e }, format: 'jwk' })
  const rows: Array<[string, Algorithm, unknown, RegExp]> = [
    ['RSA, 1024 bits', 'RS256', small.publicKey, /RSA key of 1024 bits; RS256 needs at least 2048/],
    ['RSA, 2047 bits', 'RS512', rsaPair(2047).publicKey, /RSA key of 2047 bits; RS512 needs at least 2048/],
    ['RSA, 1024 bits, PSS', 'PS384', createPublicKey(small.publicKey), /1024 bits; PS384/],
    ['the exponent 1', 'RS256', withExponent('AQ'), /public exponent below 3/],
    ['EC for RS256', 'RS256', ec.publicKey, /of the type ec; RS256 needs an RSA key/],
    ['Ed25519 for PS256', 'PS256', ed.publicKey, /of the type ed25519; PS256 needs an RSA key/],
    ['a key that is for PSS alone', 'PS256', pss.publicKey, /of the type rsa-pss; PS256 needs an RSA key/],
    ['RSA for ES256', 'ES256', rsa.publicKey, /of the type rsa; ES256 needs an EC key on the curve prime256v1/],
    ['Ed25519 for ES512', 'ES512', ed.publicKey, /of the type ed25519; ES512 needs an EC key on the curve secp521r1/],
    ['P-384 for ES256', 'ES256', ecPair('secp384r1').publicKey, /on the curve secp384r1; ES256 needs an EC key on the curve prime256v1/],
    ['P-256 for ES384', 'ES384', ec.publicKey, /on the curve prime256v1; ES384 needs an EC key on the curve secp384r1/],
    ['P-256 for ES512', 'ES512', ec.publicKey, /on the curve prime256v1; ES512/],
    ['secp256k1 for ES256', 'ES256', ecPair('secp256k1').publicKey, /on the curve secp256k1; ES256/],
    ['a private key in PEM', 'RS256', rsa.privateKey, /is a private key; give the public key/],
    ['an older private key in PEM', 'ES256', ecPrivate.export({ type: 'sec1', format: 'pem' }), /is a private key; give the public key/],
    ['both halves in one PEM', 'RS256', rsa.publicKey + rsa.privateKey, /is a private key; give the public key/],
    ['a private KeyObject', 'RS256', rsaPrivate, /is a private key; give the public key/],
    ['a secret KeyObject', 'RS256', createSecretKey(Buffer.from(secret)), /is a secret key; give the public key/],
    ['a secret', 'RS256', secret, /not a public key or certificate in PEM form/],
    ['nothing', 'RS256', '', /not a public key or certificate in PEM form/],
    ['DER', 'RS256', rsaPublic.export({ type: 'spki', format: 'der' }), /not a public key or certificate in PEM form/],
    ['a JWK as text', 'RS256', JSON.stringify(rsaPublic.export({ format: 'jwk' })), /not a public key or certificate in PEM form/],
    ['a cut PEM', 'RS256', rsa.publicKey.slice(0, 200), /not a public key or certificate in PEM form/],
    ['a spoiled PEM', 'RS256', rsa.publicKey.replace('MII', 'XXX'), /not a public key or certificate in PEM form/]
  ]
  for (const [title, algorithm, given, message] of rows) {
    refused(t, title, message, () => publicKey(algorithm, 'publicKey', given), String(given))
  }
  const privateRows: Array<[string, Algorithm, unknown, RegExp]> = [
    ['RSA, 1024 bits', 'PS256', small.privateKey, /RSA key of 1024 bits/],
    ['EC for RS256', 'RS256', ec.privateKey, /of the type ec/],
    ['P-384 for ES256', 'ES256', ecPair('secp384r1').privateKey, /on the curve secp384r1/],
    ['a public key in PEM', 'RS256', rsa.publicKey, /is a public key or certificate; give the private key/],
    ['an older public key in PEM', 'RS256', rsaPublic.export({ type: 'pkcs1', format: 'pem' }), /is a public key or certificate; give the private key/],
    ['a certificate', 'ES256', certificate, /is a public key or certificate; give the private key/],
    ['a public KeyObject', 'RS256', rsaPublic, /is a public key; give the private key/],
    ['a secret KeyObject', 'RS256', createSecretKey(Buffer.from(secret)), /is a secret key; give the private key/],
    ['encrypted', 'RS256', rsaPrivate.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }), /is encrypted; decrypt it/],
    ['encrypted, older', 'RS256', rsaPrivate.export({ type: 'pkcs1', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }), /is encrypted; decrypt it/],
    ['a secret', 'ES256', secret, /not a private key in PEM form/],
    ['a cut PEM', 'RS256', rsa.privateKey.slice(0, 400), /not a private key in PEM form/]
  ]
  for (const [title, algorithm, given, message] of privateRows) {
    refused(t, title, message, () => privateKey(algorithm, 'privateKey', given), String(given))
  }
})

t.test('halves of two pairs are refused, with every algorithm', async (t) => {
  for (const algorithm of algorithms.filter((name) => !name.startsWith('HS'))) {
    const curve = createPublicKey(mistyped<{ publicKey: string }>(keysFor(algorithm)).publicKey).asymmetricKeyDetails?.namedCurve
    const [one, other] = curve === undefined ? [rsaPair(), rsaPair(2048, 1)] : [ecPair(curve), ecPair(curve, 1)]
    const read = () => checkPair(privateKey(algorithm, 'privateKey', one.privateKey), publicKey(algorithm, 'publicKey', other.publicKey))
    refused(t, algorithm, /"privateKey" and "publicKey" are not the halves of one pair/, read, one.privateKey, other.publicKey)
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
    ['a directory', { path: directory }, /cannot be read \(EISDIR\)/],
    ['a path that no system has', { path: `${canary}\0` }, /cannot be read \(ERR_INVALID_ARG_VALUE\)/],
    ['a missing file: URL', pathToFileURL(join(directory, canary)), /cannot be read \(ENOENT\)/],
    ['a file: URL with a host', new URL(`file://host/${canary}`), /cannot be read \(\w+\)/],
    ['a file: URL with an encoded separator', new URL(`file:///a%2F${canary}`), /cannot be read \(\w+\)/],
    ['a URL to fetch', new URL(`https://127.0.0.1:1/${canary}`), /is a URL with "https:"; only "file:" URLs are read/],
    ['a data: URL', new URL(`data:text/plain,${canary}`), /is a URL with "data:"/],
    ['a path that is no text', { path: 5 }, /must be a string, a Buffer, a KeyObject, a file: URL or \{ path \}/],
    ['an object', { key: canary }, /must be a string, a Buffer/],
    ['a number', 5, /must be a string, a Buffer/]
  ]
  for (const [title, given, message] of rows) refused(t, title, message, () => hmacKey('HS256', 'secret', given), canary)
  for (const given of [{ path: canary }, new URL(`file://host/${canary}`)]) t.match(await refusal(t, { secret: given }), { name: 'InvalidConfiguration', message: /cannot be read/ })
})

t.test('the alias publicKey of secret: the fitting name wins, either will do, none is an error', async (t) => {
  const verified = (algorithm: Algorithm, given: GivenKeys, key: string) => accepts(verifierOf(algorithm, verifyingKey(algorithm, given), 0), forge(claims(), { algorithm, key }))
  t.ok(verified('HS256', { publicKey: secret }, secret))
  t.ok(verified('HS256', { publicKey: otherSecret, secret }, secret))
  t.ok(verified('HS256', { secret: null, publicKey: secret, privateKey: 'unused' }, secret))
  t.ok(verified('RS256', { secret: rsa.publicKey }, rsa.privateKey))
  t.ok(verified('RS256', { secret, publicKey: rsa.publicKey }, rsa.privateKey))
  t.throws(() => verifyingKey('HS256', {}), { name: 'RequiredKeysNotFound', message: /HS256 needs "secret" to verify/ })
  t.throws(() => verifyingKey('ES256', { privateKey: ec.privateKey, publicKey: null }), { name: 'RequiredKeysNotFound', message: /ES256 needs "publicKey" to verify/ })
  t.throws(() => signingKey('ES256', { publicKey: ec.publicKey, secret }), { name: 'RequiredKeysNotFound', message: /ES256 needs "privateKey" to issue/ })
  t.throws(() => signingKey('HS256', { privateKey: secret }), { name: 'RequiredKeysNotFound' })
})

t.test('a missing secret is a random one of this process, and of no other', async (t) => {
  const given = resolveSettings({}, undefined)
  const { resolved: { keys }, isDefaultSecret } = withDefaultSecret(given)
  const { secret: made } = keys()
  t.ok(isDefaultSecret)
  t.ok(Buffer.isBuffer(made) && made.length === 64)
  t.equal(withDefaultSecret(resolveSettings({ leeway: 0 }, undefined)).resolved.keys().secret, made)
  const elsewhere: { withDefaultSecret: typeof withDefaultSecret } = await t.mockImport('../../lib/keys/default-secret.ts', {})
  t.notSame(elsewhere.withDefaultSecret(given).resolved.keys().secret, made)
  for (const options of [{ secret }, { publicKey: secret }, { getSecret: () => secret }, { getAlgorithm: () => 'HS256' }, { algorithm: 'RS256' }]) {
    const resolved = resolveSettings(options, undefined)
    t.strictSame(withDefaultSecret(resolved), { resolved, isDefaultSecret: false })
  }
  environment(t, 'production')
  t.throws(() => withDefaultSecret(given), { name: 'InvalidConfiguration', message: /NODE_ENV is "production"/ })
})

t.test('computed keys', async (t) => {
  const settings = (extra: Partial<Settings> = {}): Settings => ({ ...resolveSettings({}, undefined).settings, ...extra })
  const tenant = (index: number): GivenKeys => ({ secret: `${secret} of tenant ${index}` })

  await t.test('the same key gives the same verifier and signer, other rules or keys others', async (t) => {
    const computed = new CodecCache()
    const { verifier, signer } = { verifier: computed.verifier.bind(computed), signer: computed.signer.bind(computed) }
    const file = join(t.testdir({ secret }), 'secret')
    for (const given of [secret, Buffer.from(secret), createSecretKey(Buffer.from(secret)), { path: file }, pathToFileURL(file)]) {
      for (const round of [1, 2]) {
        t.equal(verifier(settings(), { secret: given }), verifier(settings(), { secret }), `verifier, round ${round}`)
        t.equal(signer(settings(), { secret: given }), signer(settings(), { secret }), `signer, round ${round}`)
      }
    }
    t.not(verifier(settings(), tenant(1)), verifier(settings(), tenant(2)))
    t.not(signer(settings(), tenant(1)), signer(settings(), tenant(2)))
    t.not(verifier(settings({ algorithm: 'HS384' }), { secret }), verifier(settings(), { secret }))
    t.not(verifier(settings({ tokenCacheSize: 5 }), { secret }), verifier(settings(), { secret }))
    t.not(signer(settings({ claimIat: true }), { secret }), signer(settings(), { secret }))
  })

  await t.test('a key is checked as if it were given at registration, and a bad one is not kept', async (t) => {
    const computed = new CodecCache()
    for (const round of [1, 2]) {
      t.throws(() => computed.verifier(settings(), { secret: rsa.publicKey }), InvalidConfiguration, `round ${round}`)
      t.throws(() => computed.verifier(settings(), { secret: '' }), InvalidConfiguration)
      t.throws(() => computed.verifier(settings(), { secret: undefined }), { name: 'RequiredKeysNotFound' })
      t.throws(() => computed.verifier(settings(), { secret: 5 }), InvalidConfiguration)
      t.throws(() => computed.verifier(settings(), { secret: { file: 'x' } }), InvalidConfiguration)
      t.throws(() => computed.signer(settings({ algorithm: 'ES256' }), { privateKey: ec.publicKey }), InvalidConfiguration)
    }
    // Verifying first: the same text as a signing key must be checked as one.
    t.ok(computed.verifier(settings({ algorithm: 'ES256' }), { publicKey: ec.publicKey }))
    t.throws(() => computed.signer(settings({ algorithm: 'ES256' }), { privateKey: ec.publicKey }), InvalidConfiguration)
  })

  await t.test('one that is in use stays, and of those that are not only so many are kept', async (t) => {
    setFlagsFromString('--expose-gc')
    const collectGarbage: () => void = runInNewContext('gc')
    const computed = new CodecCache()
    const inUse = computed.verifier(settings(), tenant(0))
    const made: WeakRef<object>[] = []
    for (let index = 1; index <= 2500; index++) {
      made.push(new WeakRef(computed.verifier(settings(), tenant(index))), new WeakRef(computed.signer(settings(), tenant(index))))
      if (index % 100 === 0) t.equal(computed.verifier(settings(), tenant(0)), inUse)
    }
    await nextTask()
    collectGarbage()
    const left = made.filter((reference) => reference.deref() !== undefined).length
    t.ok(left >= 1000, 'the latest are kept')
    t.ok(left <= 2 * 1000, 'at most 1,000 verifiers and as many signers')
    t.ok(accepts(computed.verifier(settings(), tenant(1)), forge(claims(), { key: `${secret} of tenant 1` })), 'one that was forgotten is made again')
  })

  await t.test('what a verifier gives a tenant it gives no other, whichever came first', async (t) => {
    const app = await build(t, { getSecret: (request) => `${secret} of ${String(request.headers['x-tenant'])}` })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async (request) => request.tokenAuth.payload)
    const names = ['a', 'b', 'c']
    for (const round of [1, 2]) {
      for (const own of names) {
        for (const asked of names) {
          const headers = { ...bearer(forge(claims({ exp: 4102444800 }), { key: `${secret} of ${own}` })), 'x-tenant': asked }
          t.equal((await app.inject({ url: '/', headers })).statusCode, own === asked ? 200 : 401, `round ${round}`)
        }
      }
    }
  })
})

t.test('one of two names of a key may be computed: the better name decides', async (t) => {
  // secret is the better name for HS256 and is given, so the getter of the alias is not asked.
  const asked: string[] = []
  const given = await build(t, { secret, getPublicKey: () => { asked.push('publicKey'); return otherSecret } })
  const computed = await build(t, { secret: undefined, publicKey: otherSecret, getSecret: () => { asked.push('secret'); return secret } })
  for (const app of [given, computed]) {
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'in')
    t.equal((await app.inject({ url: '/', headers: bearer(forge(claims())) })).statusCode, 200)
    t.equal((await app.inject({ url: '/', headers: bearer(forge(claims(), { key: otherSecret })) })).statusCode, 401)
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
