// @slow
import { createSecretKey } from 'node:crypto'
import { renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTask } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { InvalidConfiguration } from '../../lib/configuration-errors.ts'
import type { Settings } from '../../lib/index.ts'
import { CheckedKeys } from '../../lib/authorities/computed-keys.ts'
import type { ConfiguredKeys } from '../../lib/keys/material.ts'
import { Refusal } from '../../lib/refusal.ts'
import { resolveSettings } from '../../lib/settings/configuration.ts'
import { signerOf } from '../../lib/token/codec.ts'
import { findersOf } from '../../lib/authorities/own.ts'
import { verifierOf, type TokenVerifier } from '../../lib/authorities/verifier.ts'
import { bearer, build, claims, environment, forge, mistyped, otherSecret, readsOf, rsaPair, secret } from '../helper.ts'
import { base64, ec, ecPrivate, ecPublic, encrypted, rsa } from '../keys/fixtures.ts'

const accepts = (verify: TokenVerifier, token: string) => !(verify(token) instanceof Refusal)

/** The verifiers and signers of the keys of one registration, as they are made for a request. */
function codecs () {
  const keys = new CheckedKeys()
  return {
    verifier: ({ algorithm, tokenCacheSize }: Settings, given: ConfiguredKeys) => verifierOf(findersOf(algorithm, keys.get('verify', algorithm, given)), tokenCacheSize),
    signer: ({ algorithm, claimIat }: Settings, given: ConfiguredKeys) => signerOf(algorithm, keys.get('sign', algorithm, given), claimIat)
  }
}

t.test('keys that are computed from requests', async (t) => {
  const settings = (extra: Partial<Settings> = {}): Settings => ({ ...resolveSettings({}, undefined).settings, ...extra })
  const tenant = (index: number): ConfiguredKeys => ({ secret: `${secret} of tenant ${index}` })

  await t.test('the same key gives the same verifier and signer, other rules or keys others', async (t) => {
    const cache = codecs()
    const { verifier, signer } = cache
    const file = join(t.testdir({ secret }), 'secret')
    for (const given of [secret, Buffer.from(secret), createSecretKey(Buffer.from(secret)), { path: file }, pathToFileURL(file), { kty: 'oct', k: base64(secret, 'base64url') }]) {
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
    const cache = codecs()
    for (const round of [1, 2]) {
      t.throws(() => cache.verifier(settings(), { secret: rsa.publicKey }), InvalidConfiguration, `round ${round}`)
      t.throws(() => cache.verifier(settings(), { secret: '' }), InvalidConfiguration)
      t.throws(() => cache.verifier(settings(), { secret: undefined }), { name: 'RequiredKeysNotFound' })
      t.throws(() => cache.verifier(settings(), { secret: 5 }), InvalidConfiguration)
      t.throws(() => cache.verifier(settings(), { secret: { file: 'x' } }), InvalidConfiguration)
      t.throws(() => cache.signer(settings({ algorithm: 'ES256' }), { privateKey: ec.publicKey }), InvalidConfiguration)
    }
    // Verifying first: the same text as a signing key must be checked as one.
    t.ok(cache.verifier(settings({ algorithm: 'ES256' }), { publicKey: ec.publicKey }))
    t.throws(() => cache.signer(settings({ algorithm: 'ES256' }), { privateKey: ec.publicKey }), InvalidConfiguration)
  })

  await t.test('one that is in use stays, and of those that are not only so many are kept', async (t) => {
    setFlagsFromString('--expose-gc')
    const collectGarbage: () => void = runInNewContext('gc')
    const cache = codecs()
    const inUse = cache.verifier(settings(), tenant(0))
    const made: WeakRef<object>[] = []
    for (let index = 1; index <= 2500; index++) {
      made.push(new WeakRef(cache.verifier(settings(), tenant(index))), new WeakRef(cache.signer(settings(), tenant(index))))
      if (index % 100 === 0) t.equal(cache.verifier(settings(), tenant(0)), inUse)
    }
    await nextTask()
    collectGarbage()
    const left = made.filter((reference) => reference.deref() !== undefined).length
    t.ok(left >= 1000, 'the latest are kept')
    t.ok(left <= 2 * 1000, 'at most 1,000 verifiers and as many signers')
    t.ok(accepts(cache.verifier(settings(), tenant(1)), forge(claims(), { key: `${secret} of tenant 1` })), 'one that was forgotten is made again')
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

  await t.test('keys that differ in anything are different keys, whatever form they have', async (t) => {
    const cache = codecs()
    const rs = settings({ algorithm: 'RS256' })
    const es = settings({ algorithm: 'ES256' })
    const verify = (keys: ConfiguredKeys, of = es) => cache.verifier(of, keys)
    const jwk = ecPublic.export({ format: 'jwk' })
    t.equal(verify({ publicKey: jwk }), verify({ publicKey: { ...jwk, kid: 'other' } }), 'what is not read makes no difference')
    t.equal(verify({ publicKey: jwk }), verify({ publicKey: ec.publicKey }))
    t.throws(() => verify({ publicKey: { ...jwk, use: 'enc' } }), InvalidConfiguration, 'what was accepted before permits nothing else')
    t.throws(() => verify({ publicKey: { ...jwk, key_ops: ['sign'] } }), InvalidConfiguration)
    t.throws(() => verify({ publicKey: { ...jwk, key_ops: [{}] } }), InvalidConfiguration)
    t.throws(() => verify({ publicKey: jwk }, rs), InvalidConfiguration)
    // A JWK whose JSON form says nothing of what it is.
    const silent = (k: string) => ({ kty: 'oct', k: base64(k, 'base64url'), toJSON: () => 'x' })
    t.not(verify({ secret: silent(secret) }, settings()), verify({ secret: silent(otherSecret) }, settings()))

    const [one, other] = [encrypted(rsa.privateKey), encrypted(rsaPair(2048, 1).privateKey, 'pkcs8', 'y')]
    const sign = (privateKey: unknown) => cache.signer(rs, { privateKey })
    t.equal(sign({ pem: one, passphrase: 'x' }), sign({ pem: Buffer.from(one), passphrase: 'x' }))
    t.equal(sign({ pem: one, passphrase: 'x' }), sign(rsa.privateKey))
    t.not(sign({ pem: one, passphrase: 'x' }), sign({ pem: other, passphrase: 'y' }))
    for (const passphrase of ['y', '', undefined]) t.throws(() => sign({ pem: one, passphrase }), InvalidConfiguration, 'a passphrase is asked each time')
    const path = join(t.testdir({ one }), 'one')
    t.equal(sign({ path, passphrase: 'x' }), sign(rsa.privateKey))
    for (const value of [{ path, passphrase: 'y' }, { path }, pathToFileURL(path)]) t.throws(() => sign(value), InvalidConfiguration)
    t.throws(() => cache.signer(es, { privateKey: { ...ecPrivate.export({ format: 'jwk' }), d: undefined } }), InvalidConfiguration)
  })

  // Promise: security/key-file-getter
  await t.test('a key file that was replaced takes effect with the next request, and one that is gone is an error', async (t) => {
    const directory = t.testdir({ secret, next: otherSecret })
    const [path, next] = [join(directory, 'secret'), join(directory, 'next')]
    for (const named of [{ path }, pathToFileURL(path)]) {
      writeFileSync(path, secret)
      const app = await build(t, { secret: undefined, getSecret: () => named })
      app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'in')
      const ask = async (key: string) => (await app.inject({ url: '/', headers: bearer(forge(claims({ exp: 4102444800 }), { key })) })).statusCode
      const asks = async () => [await ask(secret), await ask(otherSecret)]
      t.same(await asks(), [200, 401])
      t.same(await asks(), [200, 401])

      writeFileSync(next, otherSecret)
      renameSync(next, path)
      t.same(await asks(), [401, 200], 'another file under its name')

      writeFileSync(path, secret)
      t.same(await asks(), [200, 401], 'other content in the same file, of another length')

      const same = secret.replace('a secret', 'A SECRET')
      writeFileSync(path, same)
      utimesSync(path, 1, 1)
      t.same([await ask(secret), await ask(same)], [401, 200], 'other content of the same length')

      rmSync(path)
      t.same(await asks(), [500, 500], 'no file')
      for (const [target, content] of [['a', secret], ['b', otherSecret]] as const) {
        writeFileSync(join(directory, target), content)
        symlinkSync(target, join(directory, 'link'))
        renameSync(join(directory, 'link'), path)
        t.same(await asks(), target === 'a' ? [200, 401] : [401, 200], 'a link to another file, as in a mounted secret')
      }
      rmSync(path)
    }
  })

  await t.test('a key file that was not replaced is read once', async (t) => {
    const path = join(t.testdir({ secret }), 'secret')
    const reads = readsOf(t, path)
    const cache = codecs()
    for (let time = 0; time < 10; time++) cache.verifier(settings(), { secret: { path } })
    t.equal(reads(), 1)
    writeFileSync(path, `${secret}, replaced`)
    for (let time = 0; time < 10; time++) cache.verifier(settings(), { secret: { path } })
    t.equal(reads(), 2)
  })

  await t.test('in production a secret shorter than 32 bytes is refused also where a getter or an override gives it', async (t) => {
    const short = 'x1Qm8vT4bZ7kLw2Rf9Hs3Jd6Yc5Pn0G'
    const app = await build(t, { getSecret: async (request) => mistyped(request.headers['x-secret']) })
    const causes: unknown[] = []
    app.setErrorHandler(async (error, _request, reply) => { causes.push(error); return await reply.code(500).send('failed') })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'in')
    const ask = async (key: string) => (await app.inject({ url: '/', headers: { ...bearer(forge(claims(), { key })), 'x-secret': key } })).statusCode
    t.equal(await ask(short), 200)
    environment(t, 'production')
    t.equal(await ask(`${short}y`), 200)
    t.equal(await ask(short.replace('x', 'z')), 500)
    t.match(causes, [{ name: 'HandlerFailed', cause: { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E23' } }])
    t.throws(() => app.tokenAuth.protect({ secret: short }), { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E23' })
    t.ok(app.tokenAuth.protect({ secret: `${short}y` }))
  })
})
