// @slow
/** Every kind of route that this package guards, and its endpoints, under the hostile requests of `attack()`. */
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import type { Algorithm, TokenAuthOptions } from '../../lib/index.ts'
import { attack, createTestToken, type AttackedRequest, type AttackOptions, type AttackTarget } from '../../lib/testing.ts'
import { algorithms, build, forge, keysFor, login, pairFor, payloadOf, secret, signingKey, together, warnings } from '../helper.ts'
import { audience, granted, issuer, jwk, trusted } from '../authorities/issuers.ts'

// The names of parameters that hostile requests use are not those of the application, so a log would show them.
const silent = { logger: false }
const parties = { claimIss: 'https://issuer.example', claimAud: 'https://api.example' }
const isOfPair = (algorithm: Algorithm): algorithm is Exclude<Algorithm, `HS${string}`> => !algorithm.startsWith('HS')
const isRsa = (algorithm: Algorithm) => /^[RP]S/.test(algorithm)
/** One of each family. The first test has every algorithm. */
const families: readonly Algorithm[] = ['HS256', 'RS256', 'ES256', 'EdDSA']
/** One algorithm of each kind of pair, for rings: two keys with the same numbers would have the same id. */
const companions = (algorithm: Algorithm): readonly Algorithm[] => {
  const pairs: readonly Algorithm[] = ['ES256', 'RS256', 'EdDSA']
  return isOfPair(algorithm) ? pairs.filter((other) => other !== algorithm && !(isRsa(other) && isRsa(algorithm))) : []
}

async function start (t: Test, algorithm: Algorithm, options: Partial<TokenAuthOptions> = {}): Promise<FastifyInstance> {
  const app = await build(t, together(keysFor(algorithm), parties, { retrieveUser: async () => ({ user_id: 1 }) }, options), silent)
  app.get('/protected', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  app.post('/protected', { preValidation: app.tokenAuth.protect() }, async () => 'reached')
  app.get('/scoped', { preHandler: app.tokenAuth.scoped('reports:read') }, async () => 'reached')
  // Without a token, the user is null, and the handler decides.
  app.get('/user', app.tokenAuth.injectUser(async (_request, reply, user) => user === null ? await reply.code(403).send() : 'reached'))
  return app
}

const keysOf = (algorithm: Algorithm): Pick<AttackOptions, 'key' | 'publicKey'> => {
  const keys = keysFor(algorithm)
  return { key: signingKey(algorithm), ...'publicKey' in keys && { publicKey: keys.publicKey } }
}

/** Attacks a route, of which nothing may be found, and whose every 401 must have a challenge. */
async function withstands (t: Test, app: AttackTarget, request: AttackedRequest, options: AttackOptions, name = ''): Promise<void> {
  const report = await attack(app, request, options)
  t.same(report.found, [], `${name} ${String(report)}`)
  t.same(report.rows.filter(({ statusCode, challenge }) => statusCode === 401 && !challenge?.startsWith('Bearer ')), [], 'every 401 has its challenge')
}

const testToken = async (app: FastifyInstance) => await createTestToken(app.tokenAuth, { user_id: 1 }, { scopes: 'reports:read' })

for (const algorithm of algorithms) {
  // Promise: security/kinds-hostile-requests
  t.test(`guarded routes and the endpoint of the user withstand attack() with ${algorithm}`, async (t) => {
    const app = await start(t, algorithm)
    const options = { token: await testToken(app), ...keysOf(algorithm) }
    await withstands(t, app, { method: 'GET', url: '/protected' }, options)
    await withstands(t, app, { method: 'GET', url: '/auth/me' }, options)
  })
}

for (const algorithm of families) {
  // Promise: security/kinds-hostile-requests
  t.test(`every guard withstands attack(), whatever source the token has, with ${algorithm}`, async (t) => {
    warnings(t, 'W05')
    const sources: [name: string, options: Partial<TokenAuthOptions>, place: (token: string) => Partial<AttackedRequest>][] = [
      ['header', {}, () => ({})],
      ['cookie', { cookieSet: true }, (token) => ({ headers: { cookie: `access_token=${token}` } })],
      ['cookie or header', { cookieSet: true, cookieStrict: false }, () => ({})],
      ['two cookies', { cookieSet: true, cookieSplit: true }, (token) => {
        const dot = token.lastIndexOf('.')
        return { headers: { cookie: `access_token=${token.slice(0, dot)}; access_token_signature=${token.slice(dot + 1)}` } }
      }],
      ['query string', { queryStringSet: true }, (token) => ({ url: `/protected?access_token=${token}` })]
    ]
    for (const [name, options, place] of sources) {
      const app = await start(t, algorithm, options)
      const token = await testToken(app)
      await withstands(t, app, { method: 'GET', url: '/protected', ...place(token) }, { token, ...keysOf(algorithm) }, name)
    }
    const app = await start(t, algorithm)
    const options = { token: await testToken(app), ...keysOf(algorithm) }
    for (const url of ['/scoped', '/user']) await withstands(t, app, { method: 'GET', url }, options, url)
    await withstands(t, app, { method: 'POST', url: '/protected', payload: { a: 1 } }, options, 'POST')
  })

  // Promise: security/kinds-hostile-requests
  t.test(`routes with sessions, and the endpoints of sessions, withstand attack() with ${algorithm}`, async (t) => {
    const app = await start(t, algorithm, { sessions: {} })
    const token: string = (await login(app)).json().access_token
    const options = { token, ...keysOf(algorithm) }
    for (const url of ['/protected', '/auth/me', '/auth/sessions']) await withstands(t, app, { method: 'GET', url }, options, url)
    await withstands(t, app, { method: 'DELETE', url: '/auth/sessions?except=current' }, options, 'all others')

    // A session ends only once, so a new one follows it.
    const other = async () => String(payloadOf((await login(app)).json().access_token).sid)
    const id = await other()
    let next = id
    const renewing: AttackTarget = {
      inject: async (request) => {
        const response = await app.inject({ ...request, url: request.url.replace(new RegExp(id, 'i'), next) })
        if (response.statusCode === 204) next = await other()
        return response
      }
    }
    await withstands(t, renewing, { method: 'DELETE', url: `/auth/sessions/${id}` }, options, 'one')
  })

  // Promise: security/kinds-hostile-requests
  t.test(`routes with keys that change over time withstand attack() with ${algorithm}`, async (t) => {
    const keys = [{ algorithm, key: signingKey(algorithm) }, ...companions(algorithm).map((other) => ({ algorithm: other, key: signingKey(other) }))]
    const app = await start(t, algorithm, together({ secret: undefined, privateKey: undefined, publicKey: undefined, algorithm: undefined, keys }))
    await withstands(t, app, { method: 'GET', url: '/protected' }, { token: await testToken(app), ...keysOf(algorithm) })
  })
}

for (const algorithm of families.filter(isOfPair)) {
  // Promise: security/kinds-hostile-requests
  t.test(`routes that trust other issuers withstand attack() with a token of one, with ${algorithm}`, async (t) => {
    const entry = trusted({ algorithms: [algorithm], jwks: { keys: [jwk('a', { algorithm })] } })
    const { privateKey, publicKey } = pairFor(algorithm)
    const token = forge(granted({ scope: 'reports:read' }), { algorithm, key: privateKey, header: { kid: 'a' } })
    for (const options of [{ issuers: [entry], secret: undefined, authMode: false }, { issuers: [entry], secret }]) {
      const app = await start(t, 'HS256', together(options))
      for (const url of ['/protected', '/scoped']) await withstands(t, app, { method: 'GET', url }, { token, key: privateKey, publicKey }, url)
    }
    t.match(payloadOf(token), { iss: issuer, aud: audience })
  })
}
