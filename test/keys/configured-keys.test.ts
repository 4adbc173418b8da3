import t from 'tap'
import type { Algorithm } from '../../lib/index.ts'
import { pick, signingKey, signingNames, verifyingKey, verifyingNames, type ConfiguredKeys } from '../../lib/keys/material.ts'
import { Refusal } from '../../lib/refusal.ts'
import { verifierOf } from '../../lib/token/verifier.ts'
import { algorithms, bearer, build, claims, edPair, forge, otherSecret, refusal, secret } from '../helper.ts'
import { ec, rsa } from './fixtures.ts'

t.test('the alias publicKey of secret: the fitting name wins, either will do, none is an error', async (t) => {
  const verified = (algorithm: Algorithm, keys: ConfiguredKeys, key: string) =>
    !(verifierOf(algorithm, verifyingKey(algorithm, keys), 0)(forge(claims(), { algorithm, key })) instanceof Refusal)
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
    t.same(verifyingNames(algorithm), isShared ? ['secret', 'publicKey'] : ['publicKey', 'secret'])
    t.same(signingNames(algorithm), isShared ? ['secret', 'publicKey'] : ['privateKey'])
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
