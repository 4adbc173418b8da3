/** What providers send beside what the specifications of tokens have in mind. */
import assert from 'node:assert/strict'
import type { FastifyServerOptions } from 'fastify'
import t from 'tap'
import { scoped, type TrustedIssuer } from '../../lib/index.ts'
import { answer, granted, issue, jwk, keySource, status, trusted, withIssuers } from './issuers.ts'
import { bearer, build, caseOf, claims, forge, mistyped, otherSecret, pairFor, refusal, secret, setClock, users } from '../helper.ts'

const retrieveUser = () => users[0]

/** Options of a server that reads longer headers. The type is that of all servers, which have no `http`. */
const server = (options: FastifyServerOptions = {}): FastifyServerOptions => Object.assign({ http: { maxHeaderSize: 32_768 } }, options)

/** A token with so many characters. */
function sized (length: number): string {
  const base = issue('a', granted({ roles: '' }))
  for (let pad = Math.floor((length - base.length) * 3 / 4) - 2; ; pad++) {
    const token = issue('a', granted({ roles: 'x'.repeat(pad) }))
    if (token.length >= length) return token
  }
}

// Promise: keys/token-length
t.test('a token of an issuer may have 16,384 characters, an own one 8,192, and the reason names the limit', async (t) => {
  // So that tokens of one length can be made.
  setClock(t, 1_800_000_000)
  const app = await withIssuers(t, trusted(), { debug: true, secret, retrieveUser }, server())
  for (const length of [9717, 16_383]) t.equal(await status(app, sized(length)), 200, caseOf(length))
  const tooLong = (limit: number) => ({ exception: 'InvalidToken', detail: new RegExp(`it has more than ${limit} characters`) })
  t.match((await answer(app, sized(16_386))).json(), tooLong(16_384))
  const own = forge(claims({ text: 'x'.repeat(7000) }))
  t.match((await answer(app, own)).json(), tooLong(8192))
  t.match((await answer(app, forge(claims({ text: 'x'.repeat(7000) }), { key: otherSecret }))).json(), tooLong(8192), 'before its signature is verified')
  const ownOnly = await build(t, { debug: true }, server())
  ownOnly.get('/', { onRequest: ownOnly.tokenAuth.protect() }, async () => 'ok')
  t.match((await answer(ownOnly, own)).json(), tooLong(8192))
})

// Promise: keys/token-length
t.test('a long token passes a real socket with a larger maxHeaderSize, and the log names the limit that refuses it', async (t) => {
  const lines: string[] = []
  const app = await withIssuers(t, trusted(), {}, server({ logger: { level: 'debug', stream: { write: (line: string) => { lines.push(line) } } } }))
  const origin = await app.listen()
  t.equal((await fetch(origin, { headers: bearer(sized(16_000)) })).status, 200)
  t.equal((await fetch(origin, { headers: bearer(sized(17_000)) })).status, 401)
  t.match(lines.find((line) => line.includes('refused')), /it has more than 16384 characters/)
})

// Promise: keys/scopes-function
t.test('a function finds the scopes of an issuer wherever they are', async (t) => {
  const rows: Array<[what: string, scopesName: TrustedIssuer['scopesName'], claim: Record<string, unknown>]> = [
    ['Keycloak', ({ realm_access: access }) => Object(access).roles ?? [], { realm_access: { roles: ['admin', 'user'] } }],
    ['Zitadel', ({ 'urn:zitadel:iam:org:project:roles': roles }) => Object.keys(Object(roles)), { 'urn:zitadel:iam:org:project:roles': { admin: { 1: 'x' }, user: {} } }],
    ['Hasura', ({ 'https://hasura.io/jwt/claims': claims }) => Object(claims)['x-hasura-allowed-roles'], { 'https://hasura.io/jwt/claims': { 'x-hasura-allowed-roles': ['admin', 'user'] } }]
  ]
  for (const [what, scopesName, claim] of rows) {
    const app = await withIssuers(t, trusted({ scopesName }))
    app.get('/admin', { onRequest: app.tokenAuth.scoped('admin') }, async () => 'ok')
    app.get('/other', { onRequest: app.tokenAuth.scoped('other') }, async () => 'ok')
    for (let round = 0; round < 2; round++) {
      const token = issue('a', granted(claim))
      t.same((await answer(app, token)).json().scopes, ['admin', 'user'], what)
      t.equal((await app.inject({ url: '/admin', headers: bearer(token) })).statusCode, 200, what)
      t.equal((await app.inject({ url: '/other', headers: bearer(token) })).statusCode, 403, what)
    }
  }
})

// Promise: keys/scopes-function
t.test('a function of scopes that throws, or returns anything but a list of strings, opens nothing: 500, and the log names it', async (t) => {
  const wrong: unknown[] = [
    () => { throw new Error('secret of the application') }, () => undefined, () => null, () => 'admin', () => ['admin', 5], () => new Set(['admin']), async () => ['admin'], async () => { throw new Error('secret of the application') }
  ]
  for (const scopesName of wrong) {
    const lines: string[] = []
    const app = await withIssuers(t, trusted({ scopesName: mistyped(scopesName) }), {}, { logger: { level: 'error', stream: { write: (line: string) => { lines.push(line) } } } })
    app.get('/admin', { onRequest: app.tokenAuth.scoped('admin') }, async () => 'ok')
    const response = await app.inject({ url: '/admin', headers: bearer(issue('a')) })
    assert.equal(response.statusCode, 500, caseOf(scopesName))
    assert.doesNotMatch(response.body, /secret of/)
    assert.match(lines.join(''), /issuers\[0\]\.scopesName/)
    assert.equal((await app.inject({ url: '/admin' })).statusCode, 401)
  }
  const changing = await withIssuers(t, trusted({ scopesName: (payload) => { payload.sub = 'another'; return ['a'] } }))
  t.match((await answer(changing, issue('a'))).json(), { userId: 'user-1', scopes: ['a'] }, 'it gets a copy')
})

// Promise: keys/alg-ed25519
t.test('EdDSA and Ed25519 (RFC 9864) are two names of one algorithm, in tokens and in key sets', async (t) => {
  const ed = { algorithm: 'EdDSA' } as const
  for (const algorithms of [['EdDSA'], ['Ed25519'], ['EdDSA', 'Ed25519']] as const) {
    for (const alg of [undefined, 'EdDSA', 'Ed25519']) {
      const app = await withIssuers(t, trusted({ algorithms, jwks: { keys: [jwk('a', ed, alg === undefined ? {} : { alg })] } }))
      for (const named of ['EdDSA', 'Ed25519']) assert.equal(await status(app, issue('a', granted(), ed, { alg: named })), 200, `${algorithms} ${alg} ${named}`)
      assert.equal(await status(app, issue('a', granted(), { ...ed, which: 1 }, { alg: 'Ed25519' })), 401, 'another key')
      for (const named of ['Ed448', 'ED25519', 'eddsa']) assert.equal(await status(app, issue('a', granted(), ed, { alg: named })), 401, named)
    }
  }
  const { privateKey, publicKey } = pairFor('EdDSA')
  const own = await build(t, { secret: undefined, algorithm: 'EdDSA', privateKey, publicKey })
  t.throws(() => own.tokenAuth.verifyToken(forge(claims(), { algorithm: 'EdDSA', key: privateKey, header: { alg: 'Ed25519' } })), { name: 'InvalidToken' }, 'own tokens have one name')
  t.match(await refusal(t, mistyped({ secret: undefined, authMode: false, issuers: [trusted({ algorithms: mistyped(['Ed448']) })] })), { message: /EdDSA, Ed25519/ })
})

const otherTexts = ['Site Manager', 'urn:shop:', 'admins::shop', ' a', ':']

// Promise: keys/whole-texts
t.test('a required scope may be any text where scopes of an issuer are compared as whole texts', async (t) => {
  const { jwks } = keySource()
  const app = await withIssuers(t, trusted({ jwks, scopesName: 'roles' }), { secret, debug: true, retrieveUser })
  const urls = otherTexts.map((text, index) => {
    const url = `/${index}`
    app.get(url, { onRequest: app.tokenAuth.scoped(text) }, async () => 'ok')
    app.get(`/free${url}`, { onRequest: scoped([text], { on: app }) }, async () => 'ok')
    app.get(`/computed${url}`, { onRequest: scoped(() => text) }, async () => 'ok')
    return [text, url] as const
  })
  for (const [text, url] of urls) {
    for (const path of [url, `/free${url}`, `/computed${url}`]) {
      const with_ = async (token: string) => await app.inject({ url: path, headers: bearer(token) })
      assert.equal((await with_(issue('a', granted({ roles: ['x', text] })))).statusCode, 200, text)
      for (const roles of [[], ['x'], [`${text} `], text.slice(0, -1), { [text]: true }]) assert.equal((await with_(issue('a', granted({ roles })))).statusCode, 403, `${text}: ${JSON.stringify(roles)}`)
      const own = await with_(forge(claims({ scopes: [text] })))
      assert.equal(own.statusCode, 403, 'scopes of own tokens have a grammar')
      assert.match(own.json().detail, /is no scope of this instance/)
      assert.doesNotMatch(String(own.headers['www-authenticate']), /scope="[^"]* /, 'a scope with a space would be read as two')
    }
  }
  for (const blank of ['', ' ', '\t\n']) t.throws(() => app.tokenAuth.scoped(blank), { name: 'InvalidConfiguration' })
})

// Promise: keys/whole-texts
t.test('without such an issuer, a scope has the grammar of this plugin', async (t) => {
  const apps = [await build(t), await withIssuers(t, trusted({ exactScopes: false }))]
  for (const app of apps) {
    for (const text of otherTexts) t.throws(() => app.tokenAuth.scoped(text), { name: 'InvalidConfiguration', message: /"exactScopes"/ })
    for (const text of otherTexts) t.throws(() => scoped(text, { on: app }), { name: 'InvalidConfiguration' })
  }
  t.throws(() => scoped('Site Manager'), { name: 'InvalidConfiguration' }, 'its instance is not known')
})
