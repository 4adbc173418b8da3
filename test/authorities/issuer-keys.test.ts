/** Which keys of an issuer's set count. */
import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import type { Test } from 'tap'
import type { JsonWebKey, TokenAuthOptions, TrustedIssuer } from '../../lib/index.ts'
import { IssuerKeys, readKeySet } from '../../lib/authorities/issuer-keys.ts'
import { granted, issue, issuer, jwk, keySource, status, trusted, withIssuers } from './issuers.ts'
import { environment, forge, mistyped, pairFor, refusal, rsaPair } from '../helper.ts'

const es = { algorithm: 'ES256', which: 0 } as const
const otherEs = { algorithm: 'ES256', which: 1 } as const
const privateJwk = (kid: string) => ({ ...createPrivateKey(pairFor('ES256').privateKey).export({ format: 'jwk' }), kid })

/** What a set with these keys, that a function returns, makes of a token that the first pair signed. */
async function statusWith (t: Test, keys: readonly unknown[], kid: string | null = 'a', algorithm: 'ES256' | 'RS256' | 'EdDSA' = 'ES256'): Promise<number> {
  const { jwks } = keySource(mistyped(keys))
  const app = await withIssuers(t, trusted({ jwks, algorithms: [algorithm] }))
  const result = await status(app, issue(kid ?? undefined, granted(), { algorithm }))
  await app.close()
  return result
}

// Promise: keys/key-issuer-counts
// Promise: security/trusted-issuer-s
t.test('a key counts only for what its members say, and only if it is strong enough', async (t) => {
  const rs = { algorithm: 'RS256' } as const
  const ed = { algorithm: 'EdDSA' } as const
  const { n } = jwk('a', rs)
  const small = createPublicKey(rsaPair(1024).publicKey).export({ format: 'jwk' })
  const cases: Array<[what: string, key: unknown, expected: number, algorithm?: 'ES256' | 'RS256' | 'EdDSA']> = [
    ['a key', jwk('a'), 200],
    ['use and alg that fit', jwk('a', es, { use: 'sig', alg: 'ES256', key_ops: ['verify'] }), 200],
    ['members that are null', jwk('a', es, { use: null, alg: null, key_ops: null, issuer: null }), 200],
    ['members of other names', jwk('a', es, { x5c: ['x'], x5t: 'x', path: '/etc/passwd', pem: 'x', passphrase: 5 }), 200],
    ['for encryption', jwk('a', es, { use: 'enc' }), 401],
    ['a use that is no text', jwk('a', es, { use: 5 }), 401],
    ['another operation', jwk('a', es, { key_ops: ['encrypt'] }), 401],
    ['operations that are no list', jwk('a', es, { key_ops: 'verify' }), 401],
    ['operations that are no texts', jwk('a', es, { key_ops: ['verify', 5] }), 401],
    ['another algorithm', jwk('a', es, { alg: 'ES384' }), 401],
    ['an algorithm that is no text', jwk('a', es, { alg: ['ES256'] }), 401],
    ['another curve', { ...jwk('a'), crv: 'P-384' }, 401],
    ['a point that is on no curve', { ...jwk('a'), x: jwk('a').y }, 401],
    ['another type', { ...jwk('a'), kty: 'RSA' }, 401],
    ['a type that is no text', { ...jwk('a'), kty: ['EC'] }, 401],
    ['no type', { ...jwk('a'), kty: undefined }, 401],
    ['numbers that are no texts', { ...jwk('a'), x: 5 }, 401],
    ['a private key', privateJwk('a'), 401],
    ['a secret', { kty: 'oct', k: 'c2VjcmV0', kid: 'a' }, 401],
    ['key material that is a file', { path: '/etc/passwd', kid: 'a' }, 401],
    ['an EC key for RS256', jwk('a'), 401, 'RS256'],
    ['an RSA key', jwk('a', rs), 200, 'RS256'],
    ['an RSA key of 1024 bits', { ...small, kid: 'a' }, 401, 'RS256'],
    ['an RSA key with the exponent 1', { ...jwk('a', rs), e: 'AQ' }, 401, 'RS256'],
    ['an RSA key with an even exponent', { ...jwk('a', rs), e: 'AQAA' }, 401, 'RS256'],
    ['an RSA key with a long exponent', { ...jwk('a', rs), e: n }, 401, 'RS256'],
    ['an RSA key of more than 8,192 bits', { ...jwk('a', rs), n: `${n}${n}${n}${n}${n}` }, 401, 'RS256'],
    ['an Ed25519 key', jwk('a', ed), 200, 'EdDSA'],
    ['an Ed25519 key of small order', { kty: 'OKP', crv: 'Ed25519', x: Buffer.alloc(32).toString('base64url'), kid: 'a' }, 401, 'EdDSA'],
    ['an Ed448 key', { ...generateKeyPairSync('ed448').publicKey.export({ format: 'jwk' }), kid: 'a' }, 401, 'EdDSA']
  ]
  for (const [what, key, expected, algorithm] of cases) t.equal(await statusWith(t, [key], 'a', algorithm), expected, what)
})

t.test('one key that cannot be used spoils no other', async (t) => {
  for (const bad of [{}, { kty: 'EC', kid: 'bad' }, { kty: 'new', kid: 'bad' }, jwk('bad', es, { use: 'enc' }), { kid: 5, kty: 'EC' }, { ...privateJwk('bad'), ...jwk('bad', otherEs) }]) t.equal(await statusWith(t, [bad, jwk('a')]), 200, JSON.stringify(bad))
})

// Promise: keys/key-issuer-counts
t.test('of keys with one id those count that fit the algorithm, equal ones as one, and at most four are tried', async (t) => {
  const numbered = (...which: number[]) => which.map((one) => jwk('a', { which: one }))
  t.equal(await statusWith(t, [jwk('a'), jwk('a', otherEs)]), 200)
  t.equal(await statusWith(t, [jwk('a', otherEs), jwk('a')]), 200)
  t.equal(await statusWith(t, [jwk('a'), jwk('a')]), 200)
  t.equal(await statusWith(t, [jwk('a', otherEs), jwk('a', { which: 2 })]), 401, 'another key')
  t.equal(await statusWith(t, numbered(1, 2, 3, 0)), 200)
  t.equal(await statusWith(t, numbered(1, 2, 3, 4, 0)), 401, 'a fifth key is not tried')
  t.equal(await statusWith(t, numbered(1, 1, 2, 2, 1, 0)), 200, 'equal keys are one')
  t.equal(await statusWith(t, [jwk('a', otherEs, { alg: 'ES384' }), jwk('a', { algorithm: 'RS256' }), jwk('a', {}, { use: 'enc' }), jwk('a')]), 200, 'those that do not fit are not tried')
  t.equal(await statusWith(t, [jwk('a', otherEs, { use: 'enc' }), jwk('a')]), 200)
  t.equal(await statusWith(t, [jwk('a'), jwk('a', otherEs, { use: 'enc' })]), 200)
  t.equal(await statusWith(t, [privateJwk('a'), jwk('a')]), 401, 'a key whose private half is published')
  t.equal(await statusWith(t, [privateJwk('b'), jwk('a')]), 401, 'with another id, too')
  t.equal(await statusWith(t, [jwk('a'), { ...privateJwk('x'), kid: undefined }]), 401, 'or with none')
})

t.test('a key that is listed for two algorithms counts for both, and for one after the other was removed', async (t) => {
  const rs = { algorithm: 'RS256' } as const
  const { state, jwks } = keySource([jwk('a', rs, { alg: 'RS512' }), jwk('a', rs, { alg: 'RS256' })])
  const app = await withIssuers(t, trusted({ jwks, algorithms: ['RS256', 'RS512'] }))
  const tokens = (['RS256', 'RS512'] as const).map((alg) => forge(granted(), { algorithm: alg, key: pairFor('RS256').privateKey, header: { kid: 'a' } }))
  const statuses = async () => await Promise.all(tokens.map(async (token) => await status(app, token)))
  t.same(await statuses(), [200, 200])
  t.match(app.tokenAuth.keyStatus(), { issuers: [{ keys: 1 }] })
  const keys = new IssuerKeys(issuer)
  keys.replace(readKeySet({ keys: state.keys }), Infinity)
  const [usable] = keys.find('RS512', 'a') ?? []
  keys.replace(readKeySet({ keys: [jwk('a', rs, { alg: 'RS512' })] }), Infinity)
  t.equal(keys.find('RS256', 'a'), null)
  t.equal(keys.find('RS512', 'a')?.[0]?.life, usable?.life, 'its tokens go on')
})

t.test('a token without kid, or with an empty one, is tried with the keys that fit, and a key without kid takes no token with one', async (t) => {
  t.equal(await statusWith(t, [jwk('b')], null), 200)
  t.equal(await statusWith(t, [jwk(undefined)], null), 200)
  t.equal(await statusWith(t, [jwk(undefined), jwk('r', { algorithm: 'RS256' }), jwk('e', otherEs, { alg: 'ES384' })], null), 200, 'the others are for other algorithms')
  for (const kid of [null, '']) {
    t.equal(await statusWith(t, [jwk('b', otherEs), jwk(undefined)], kid), 200)
    t.equal(await statusWith(t, [jwk(undefined), jwk(undefined)], kid), 200)
    t.equal(await statusWith(t, [1, 2, 3, 0].map((which) => jwk(`k${which}`, { which })), kid), 200)
    t.equal(await statusWith(t, [1, 2, 3, 4, 0].map((which) => jwk(`k${which}`, { which })), kid), 401, 'a fifth key is not tried')
    t.equal(await statusWith(t, [jwk('b', otherEs), jwk('c', otherEs)], kid), 401, 'none of them signed it')
  }
  t.equal(await statusWith(t, [jwk(undefined)], 'a'), 401)
  t.equal(await statusWith(t, [jwk('__proto__')], '__proto__'), 200, 'an id like any other')
})

// Promise: keys/key-issuer-counts
t.test('a key that names its issuer counts for this issuer only, also by the template of Entra', async (t) => {
  const tenant = 'https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0'
  const other = 'https://login.microsoftonline.com/11111111-6c67-4c5b-b112-36a304b66dad/v2.0'
  const template = 'https://login.microsoftonline.com/{tenantid}/v2.0'
  const cases: Array<[own: unknown, expected: number]> = [
    [tenant, 200], [undefined, 200], [template, 200], [other, 401], [`${tenant}/`, 401], ['', 401], [5, 401], ['{tenantid}', 401], [`${template}{tenantid}`, 401],
    ['https://login.microsoftonline.com/{tenantid}', 401], ['https://login.microsoftonline.us/{tenantid}/v2.0', 401], ['https://login.microsoftonline.com/{tenantid}/v1.0', 401],
    [`${tenant}{tenantid}`, 401]
  ]
  for (const [own, expected] of cases) {
    const entry: Partial<TrustedIssuer> = { issuer: tenant, jwks: keySource([jwk('a', es, { issuer: own })]).jwks }
    const app = await withIssuers(t, trusted(entry))
    t.equal(await status(app, issue('a', granted({ iss: tenant }))), expected, String(own))
    await app.close()
  }
})

t.test('a set of more than 1,000 keys is malformed, and of those without kid the first 100 are used', async (t) => {
  const numbered = (count: number) => Array.from({ length: count }, (_, index) => ({ ...jwk('a'), kid: `k${index}` }))
  t.equal(readKeySet({ keys: numbered(1000) }).length, 1000)
  t.throws(() => readKeySet({ keys: numbered(1001) }), { message: 'It is a JWK set with 1001 keys. At most 1000 are accepted.' })
  const withoutKid = Array.from({ length: 102 }, (_, index) => {
    const { kid, ...rest } = { ...jwk('a'), n: `n${index}` }
    return rest
  })
  const keys = new IssuerKeys('https://issuer.example')
  t.equal(keys.replace(readKeySet({ keys: withoutKid.slice(0, 100) }), Infinity), 0)
  t.equal(keys.replace(readKeySet({ keys: [...withoutKid, ...numbered(100)] }), Infinity), 2, 'those with kid do not count')
})

t.test('a set is an object with a list of objects, at least one', async (t) => {
  const wrong: unknown[] = [
    undefined, null, 5, 'x', [], [jwk('a')], {}, { keys: null }, { keys: {} }, { keys: 'x' }, { keys: [] }, { keys: [null] }, { keys: [jwk('a'), 'x'] }, { keys: [[jwk('a')]] },
    Object.create({ keys: [jwk('a')] })
  ]
  for (const set of wrong) t.throws(() => readKeySet(set), { message: 'It is not a JWK set with at least one key: { keys: [{ kty, kid, n, e }] }.' }, JSON.stringify(set))
  t.same(readKeySet({ keys: [{ ...jwk('a'), d: 'secret' }] }), [{ ...jwk('a'), isPrivate: true }], 'private members are not copied')
})

t.test('keys that never change are checked at registration (E17)', async (t) => {
  const e17 = { name: 'InvalidConfiguration', finding: 'TOKEN_AUTH_E17', message: /"issuers\[0\]\.jwks" must be a JWK set/ }
  const given = (jwks: unknown): TokenAuthOptions => mistyped({ secret: undefined, authMode: false, issuers: [trusted({ jwks: mistyped(jwks) })] })
  const sets: unknown[] = [{}, [], 'x', 5, { keys: [] }, { keys: [null] }, { keys: [jwk('a', es, { use: 'enc' })] }, { keys: [privateJwk('a'), jwk('a')] }, { keys: [jwk('a', { algorithm: 'RS256' })] }]
  for (const set of sets) t.match(await refusal(t, given(set)), e17, JSON.stringify(set))
  environment(t, 'production')
  t.equal(await refusal(t, given({ keys: [jwk('a')] })), undefined, 'no secret is needed')
})

t.test('keys that never change count for ever, and a kid that is not among them is refused', async (t) => {
  const set: { keys: JsonWebKey[] } = { keys: [jwk('a')] }
  const app = await withIssuers(t, trusted({ jwks: set }))
  set.keys.push(jwk('b', otherEs))
  t.equal(await status(app, issue('a')), 200)
  t.equal(await status(app, issue('b', granted(), otherEs)), 401, 'what is added later was not checked')
  t.same(app.tokenAuth.keyStatus(), { keys: [], issuers: [{ issuer, keys: 1, fetchedAt: null, failedAt: null }] })
  const other = await withIssuers(t, trusted({ algorithms: ['RS256'], jwks: async () => ({ keys: [jwk('a')] }) }))
  t.equal(other.tokenAuth.keyStatus().issuers[0]?.keys, 0, 'none is for the algorithms of its tokens')
})
