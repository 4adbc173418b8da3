import { createRequire } from 'node:module'
import fastifySwagger from '@fastify/swagger'
import { Validator } from '@seriousme/openapi-schema-validator'
import type { FastifyInstance, RouteOptions } from 'fastify'
import { createPublicKey } from 'node:crypto'
import t, { type Test } from 'tap'
import tokenAuth, { injectUser, protect, scoped, type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, host, pairFor, refreshStore, secret, together, warnings } from '../helper.ts'

warnings(t, 'W05')
interface Answer { description: string, content: Record<string, { schema: { properties: object, additionalProperties?: boolean } }> }
interface Operation { security?: unknown, summary?: string, responses?: Record<string, Answer> }
interface Document {
  paths: Record<string, Record<string, Operation>>
  components: { securitySchemes?: Record<string, unknown> }
  securityDefinitions?: Record<string, unknown>
}

const answer = async () => ({ ok: true })

async function documented (t: Test, options: Partial<TokenAuthOptions>, routes: (app: FastifyInstance) => void, swagger: object = { openapi: { openapi: '3.1.0', info: { title: 'test', version: '1' } } }): Promise<Document> {
  const app = host(t)
  await app.register(fastifySwagger, swagger)
  await app.register(tokenAuth, together({ secret, authenticate }, options))
  routes(app)
  await app.ready()
  // As it is written down: what is lost there is not documented.
  return JSON.parse(JSON.stringify(app.swagger()))
}

const securityOf = (document: Document, path: string, method = 'get') => document.paths[path]?.[method]?.security

t.test('the endpoints are documented once each, and those that read a token say so', async (t) => {
  const { refreshTokenEnabled, storeRefreshToken, retrieveRefreshToken } = refreshStore()
  const document = await documented(t, { refreshTokenEnabled, storeRefreshToken, retrieveRefreshToken }, () => {})
  t.same(Object.keys(document.paths), ['/auth', '/auth/verify', '/auth/me', '/auth/refresh'])
  t.same(securityOf(document, '/auth', 'post'), [], 'everybody may use it, whatever the document requires')
  for (const [path, method] of [['/auth/verify', 'get'], ['/auth/me', 'get'], ['/auth/refresh', 'post']] as const) {
    t.same(securityOf(document, path, method), [{ tokenAuth: [] }], path)
    t.type(document.paths[path]?.[method]?.summary, 'string')
  }
  t.same(document.components.securitySchemes, { tokenAuth: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } })
})

// Promise: specification/documentation-endpoints-guards
t.test('each answer of an endpoint is documented with its fields, open for what hooks add', async (t) => {
  const { refreshTokenEnabled, storeRefreshToken, retrieveRefreshToken } = refreshStore()
  const { paths } = await documented(t, { refreshTokenEnabled, storeRefreshToken, retrieveRefreshToken, accessTokenName: 'token' }, () => {})
  const answers: [path: string, method: string, fields: Record<string, string[]>][] = [
    ['/auth', 'post', { 200: ['token', 'refresh_token'], 400: ['statusCode', 'code', 'error', 'message'], 401: ['reasons', 'exception'] }],
    ['/auth/verify', 'get', { 200: ['valid'], 400: ['valid', 'reason'] }],
    ['/auth/me', 'get', { 200: ['me'], 401: ['reasons', 'exception'] }],
    ['/auth/refresh', 'post', { 200: ['token'], 400: ['reasons', 'exception'], 401: ['reasons', 'exception'] }]
  ]
  for (const [path, method, fields] of answers) {
    const responses = paths[path]?.[method]?.responses ?? {}
    t.same(Object.keys(responses), Object.keys(fields), path)
    for (const [status, { content }] of Object.entries(responses)) {
      const type = path === '/auth' && status === '401' ? 'text/plain' : 'application/json'
      t.same(Object.keys(content), [type])
      const schema = content[type]?.schema
      t.same(Object.keys(schema?.properties ?? {}), fields[status], `${path} ${status}`)
      t.equal(schema?.additionalProperties, true)
    }
  }
})

// Promise: specification/forms-documented
t.test('endpoints that take forms document both media types, and the page that answers a form', async (t) => {
  const document = await documented(t, { sessions: {}, cookieSet: true, loginRedirectUrl: '/login' }, () => {})
  const takers = Object.entries(document.paths).filter(([, { post }]) => post?.responses?.['303'] !== undefined).map(([path]) => path)
  t.same(takers, ['/auth', '/auth/logout', '/auth/sessions/{id}/end'])
  for (const path of ['/auth', '/auth/logout']) {
    const { requestBody } = Object(document.paths[path]?.post)
    t.same(Object.keys(requestBody.content), ['application/json', 'application/x-www-form-urlencoded'])
    t.match(requestBody.content['application/x-www-form-urlencoded'].schema.properties, { next: { type: 'string' } })
  }
  t.match(await new Validator().validate(JSON.parse(JSON.stringify(document))), { valid: true })
})

t.test('the endpoints of sessions are documented, each with its answers and what it reads', async (t) => {
  const document = await documented(t, { sessions: {}, cookieSet: true, cookieStrict: false }, () => {})
  const token = [{ tokenAuthCookie: [] }, { tokenAuth: [] }]
  const operations: [path: string, method: string, security: unknown, statuses: string[]][] = [
    ['/auth', 'post', [], ['200', '400', '401', '403', '503']],
    ['/auth/refresh', 'post', [], ['200', '400', '401', '403', '503']],
    ['/auth/logout', 'post', [{}, ...token], ['204', '400', '401', '403', '503']],
    ['/auth/sessions', 'get', token, ['200', '401', '503']],
    ['/auth/sessions', 'delete', token, ['204', '400', '401', '403', '503']],
    ['/auth/sessions/{id}', 'delete', token, ['204', '401', '403', '404', '503']],
    ['/auth/sessions/{id}/end', 'post', token, ['204', '401', '403', '404', '503']]
  ]
  for (const [path, method, security, statuses] of operations) {
    t.same(securityOf(document, path, method), security, `${method} ${path}`)
    t.same(Object.keys(document.paths[path]?.[method]?.responses ?? {}).sort(), statuses, `${method} ${path}`)
    t.type(document.paths[path]?.[method]?.summary, 'string')
  }
  const queries = (path: string, method: string) => (Reflect.get(Object(document.paths[path]?.[method]), 'parameters') as Array<{ in: string, name: string }> | undefined ?? []).map(({ in: place, name }) => `${place} ${name}`)
  t.same([queries('/auth/me', 'get'), queries('/auth/sessions', 'delete'), queries('/auth/sessions/{id}', 'delete')], [['query optional'], ['query except'], ['path id']])
  t.match(await new Validator().validate(JSON.parse(JSON.stringify(document))), { valid: true })
  t.same(Object.keys(document.paths).sort(), [...new Set(['/auth/verify', '/auth/me', ...operations.map(([path]) => path)])].sort(), 'every path')
  const { paths } = await documented(t, { sessions: {}, pathToSessions: null }, () => {})
  t.same(Object.keys(paths), ['/auth', '/auth/verify', '/auth/me', '/auth/refresh', '/auth/logout'])
})

// Promise: specification/documentation-endpoints-guards
t.test('a guarded route names its scheme and scopes, whichever guard it has', async (t) => {
  const document = await documented(t, {}, (app) => {
    app.get('/protect', { preHandler: app.tokenAuth.protect() }, answer)
    app.get('/scoped', { onRequest: [app.tokenAuth.scoped(['read', 'write:all'])] }, answer)
    app.get('/any', { onRequest: app.tokenAuth.scoped(['a', 'b'], { requireAll: false }) }, answer)
    app.get('/computed', { onRequest: app.tokenAuth.scoped(() => 'read') }, answer)
    app.get('/free', { preHandler: [protect()] }, answer)
    app.get('/free-scoped', { preHandler: scoped('free:read') }, answer)
    app.get('/optional', app.tokenAuth.injectUser(answer))
    app.get('/free-optional', injectUser(answer))
    app.get('/optional-guard', { onRequest: app.tokenAuth.protect({ optional: true }) }, answer)
    app.get('/free-optional-guard', { onRequest: protect({ optional: true }) }, answer)
    app.get('/optional-cookie', app.tokenAuth.injectUser(answer, { cookieSet: true }))
    app.get('/behind', { preHandler: app.tokenAuth.protect() }, app.tokenAuth.injectUser(answer))
    app.get('/open', answer)
  })
  const expected: Record<string, unknown> = {
    '/protect': [{ tokenAuth: [] }],
    '/scoped': [{ tokenAuth: ['read', 'write:all'] }],
    '/any': [{ tokenAuth: ['a'] }, { tokenAuth: ['b'] }],
    '/computed': [{ tokenAuth: [] }],
    '/free': [{ tokenAuth: [] }],
    '/free-scoped': [{ tokenAuth: ['free:read'] }],
    '/optional': [{}, { tokenAuth: [] }],
    '/free-optional': [{}, { tokenAuth: [] }],
    '/optional-guard': [{}, { tokenAuth: [] }],
    '/free-optional-guard': [{}, { tokenAuth: [] }],
    '/optional-cookie': [{}, { tokenAuthCookie: [] }],
    '/behind': [{ tokenAuth: [] }],
    '/open': undefined
  }
  for (const [path, security] of Object.entries(expected)) t.same(securityOf(document, path), security, path)
})

/** The description of each answer of an operation. */
const answersOf = (document: Document, path: string, method = 'get') => Object.fromEntries(Object.entries(document.paths[path]?.[method]?.responses ?? {}).map(([status, { description }]) => [status, description]))

const ok = { 200: 'Default Response' }
const unauthorized = { 401: 'No valid access token.' }
const lacking = 'The scopes of the token are not sufficient.'
const foreign = 'The request comes from another origin.'

t.test('a guarded route is documented with the answers to refused requests, and an open one without', async (t) => {
  warnings(t, 'W03')
  const document = await documented(t, {}, (app) => {
    app.get('/protect', { preHandler: app.tokenAuth.protect() }, answer)
    app.get('/scoped', { onRequest: scoped('read') }, answer)
    app.get('/computed', { onRequest: app.tokenAuth.scoped(() => 'read') }, answer)
    app.get('/optional', app.tokenAuth.injectUser(answer))
    app.get('/redirect', { onRequest: app.tokenAuth.scoped('a', { redirectOnFail: true }) }, answer)
    app.get('/both', { onRequest: [app.tokenAuth.protect({ redirectOnFail: true }), app.tokenAuth.protect()] }, answer)
    app.get('/injected-redirect', app.tokenAuth.injectUser(answer, { redirectOnFail: true }))
    app.get('/off', { onRequest: app.tokenAuth.protect({ doProtection: false }) }, answer)
    app.post('/post', { onRequest: app.tokenAuth.protect() }, answer)
    app.post('/cookie', { onRequest: app.tokenAuth.protect({ cookieSet: true }) }, answer)
    app.get('/cookie', { onRequest: app.tokenAuth.protect({ cookieSet: true }) }, answer)
    app.post('/cookie-scoped', { onRequest: app.tokenAuth.scoped('a', { cookieSet: true }) }, answer)
    app.get('/open', answer)
  })
  const redirect = { 302: 'Without a valid access token: a redirect.' }
  const expected: Array<[path: string, answers: object, method?: string]> = [
    ['/protect', { ...ok, ...unauthorized }], ['/scoped', { ...ok, ...unauthorized, 403: lacking }], ['/computed', { ...ok, ...unauthorized, 403: lacking }],
    ['/optional', { ...ok, ...unauthorized }], ['/redirect', { ...ok, ...redirect, 403: lacking }], ['/both', { ...ok, ...redirect, ...unauthorized }], ['/injected-redirect', { ...ok, ...redirect }],
    ['/off', ok], ['/post', { ...ok, ...unauthorized }, 'post'], ['/cookie', { ...ok, ...unauthorized, 403: foreign }, 'post'], ['/cookie', { ...ok, ...unauthorized }],
    ['/cookie-scoped', { ...ok, ...unauthorized, 403: `${lacking} ${foreign}` }, 'post'], ['/open', ok]
  ]
  for (const [path, answers, method] of expected) t.same(answersOf(document, path, method), answers, path)
  t.same([document.paths['/off']?.get?.security, document.paths['/open']?.get?.security], [undefined, undefined], 'a guard that is switched off asks for nothing')
  t.match(document.paths['/protect']?.get?.responses?.[401]?.content, { 'application/json': { schema: { properties: { reasons: { type: 'string' }, exception: { type: 'string' } }, additionalProperties: true } } })

  const computed = await documented(t, { getCookieSet: () => true }, (app) => { app.put('/', { onRequest: app.tokenAuth.protect() }, answer) })
  t.same(answersOf(computed, '/', 'put'), { ...ok, ...unauthorized, 403: foreign })
})

t.test('guards that depend on keys of issuers, or on the store of sessions, are documented with 503', async (t) => {
  const keys = 'The keys of the issuer of the token are not available at the moment.'
  const store = 'The session store has been unavailable for too long.'
  const issuers = [{ issuer: 'https://issuer.example', audience: 'us', jwks: { keys: [createPublicKey(pairFor('RS256').publicKey).export({ format: 'jwk' })] } }]
  const retrieveUser = async () => ({ user_id: 1 })
  const cases: Array<[options: object, outage: string | undefined]> = [
    [{ issuers, retrieveUser }, keys], [{ sessions: { refuseAfter: 60 } }, store], [{ issuers, retrieveUser, sessions: { refuseAfter: 60 } }, `${keys} ${store}`], [{ sessions: {} }, undefined]
  ]
  for (const [options, outage] of cases) {
    const document = await documented(t, options, (app) => { app.get('/', { onRequest: protect() }, answer) })
    t.same(answersOf(document, '/'), { ...ok, ...unauthorized, ...outage !== undefined && { 503: outage } })
    for (const path of ['/auth/me', '/auth/verify']) t.equal(answersOf(document, path)['503'], outage, path)
  }
})

t.test('answers that the application has documented stay, also as a range of statuses', async (t) => {
  const own = { description: 'mine', type: 'object', properties: {} }
  const document = await documented(t, {}, (app) => {
    const onRequest = app.tokenAuth.scoped('a')
    app.get('/one', { onRequest, schema: { response: { 200: own, 403: own } } }, answer)
    app.get('/range', { onRequest, schema: { response: { '2xx': own, '4xx': own } } }, answer)
    app.get('/none', { onRequest, schema: { response: {} } }, answer)
  })
  t.same(answersOf(document, '/one'), { 200: 'mine', ...unauthorized, 403: 'mine' })
  t.same(answersOf(document, '/range'), { '2XX': 'mine', '4XX': 'mine' })
  t.same(answersOf(document, '/none'), { ...unauthorized, 403: lacking })
})

t.test('a guard that is a hook of a whole context is the requirement of its routes, beside their own', async (t) => {
  const document = await documented(t, {}, (app) => {
    app.register(async (routes) => {
      routes.addHook('onRequest', app.tokenAuth.protect())
      routes.addHook('onSend', async () => {})
      routes.get('/in', answer)
      routes.get('/in-scoped', { preHandler: scoped('a') }, answer)
      routes.register(async (nested) => { nested.get('/nested', answer) })
    })
    app.get('/out', answer)
  })
  const expected: Record<string, unknown> = { '/in': [{ tokenAuth: [] }], '/in-scoped': [{ tokenAuth: ['a'] }], '/nested': [{ tokenAuth: [] }], '/out': undefined }
  for (const [path, security] of Object.entries(expected)) t.same(securityOf(document, path), security, path)
})

t.test('the scheme is the source that tokens are read from; a lax source leaves a choice', async (t) => {
  const cookie = { type: 'apiKey', in: 'cookie', name: 'access_token' }
  const query = { type: 'apiKey', in: 'query', name: 'jwt' }
  const bearer = { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' }
  const cases: [Partial<TokenAuthOptions>, Record<string, unknown>][] = [
    [{ cookieSet: true }, { tokenAuthCookie: cookie }],
    [{ queryStringSet: true, queryStringAccessTokenName: 'jwt' }, { tokenAuthQuery: query }],
    [{ cookieSet: true, cookieStrict: false, queryStringSet: true, queryStringStrict: false, queryStringAccessTokenName: 'jwt' },
      { tokenAuthCookie: cookie, tokenAuthQuery: query, tokenAuth: bearer }],
    [{ authorizationHeader: 'X-Token', authorizationHeaderPrefix: '' }, { tokenAuth: { type: 'apiKey', in: 'header', name: 'X-Token' } }]
  ]
  for (const [options, schemes] of cases) {
    const document = await documented(t, { ...options, authMode: false }, (app) => {
      app.get('/', { preHandler: app.tokenAuth.protect() }, answer)
    })
    t.same(document.components.securitySchemes, schemes)
    t.same(securityOf(document, '/'), Object.keys(schemes).map((name) => ({ [name]: [] })))
  }
})

t.test('a route that two instances guard needs what each of them asks for', async (t) => {
  const app = host(t)
  await app.register(fastifySwagger, { openapi: { openapi: '3.1.0' } })
  await app.register(tokenAuth, { secret, authMode: false })
  await app.register(async (nested) => {
    await nested.register(tokenAuth, { secret, authMode: false, cookieSet: true })
    nested.get('/', { onRequest: app.tokenAuth.scoped('a'), preHandler: [nested.tokenAuth.scoped('b'), nested.tokenAuth.scoped('c')] }, answer)
  })
  await app.ready()
  const document: Document = JSON.parse(JSON.stringify(app.swagger()))
  t.same(securityOf(document, '/'), [{ tokenAuth: ['a'], tokenAuthCookie: ['b', 'c'] }])
})

t.test('what the host writes of a route itself stays', async (t) => {
  const document = await documented(t, {}, (app) => {
    const preHandler = app.tokenAuth.protect()
    app.get('/said', { preHandler, schema: { security: [{ mine: [] }], summary: 'said' } }, answer)
    app.get('/transformed', { preHandler, config: { swaggerTransform: false } }, answer)
    app.get('/described', { preHandler, schema: { summary: 'described', querystring: { type: 'object', properties: { a: { type: 'string' } } } } }, answer)
  }, { openapi: { components: { securitySchemes: { mine: { type: 'http', scheme: 'basic' }, tokenAuth: { type: 'http', scheme: 'bearer', description: 'mine too' } } } } })
  t.same(securityOf(document, '/said'), [{ mine: [] }])
  t.equal(securityOf(document, '/transformed'), undefined)
  t.match(document.paths['/described']?.get, { summary: 'described', security: [{ tokenAuth: [] }] })
  t.match(document.components.securitySchemes, { mine: { scheme: 'basic' }, tokenAuth: { description: 'mine too' } })
})

t.test('a host whose schemas are of another library keeps its own transformation', async (t) => {
  class Foreign { readonly what = 'no JSON schema' }
  const transform = ({ schema, url }: { schema: object, url: string }) => ({ schema: { ...schema, body: undefined, summary: 'transformed' }, url })
  const document = await documented(t, {}, (app) => {
    app.post('/foreign', { preHandler: app.tokenAuth.protect(), schema: { body: new Foreign() }, validatorCompiler: () => () => true }, answer)
  }, { openapi: {}, transform })
  t.match(document.paths['/foreign']?.post, { summary: 'transformed' })
  t.same(securityOf(document, '/foreign', 'post'), [{ tokenAuth: [] }], 'and what guards add is there')
  t.same(Object.keys(document.paths['/foreign']?.post?.responses ?? {}), ['200', '401'])
  t.match(document.paths['/auth']?.post, { summary: 'transformed', requestBody: { content: { 'application/json': {} } }, responses: { 200: {}, 401: {} } }, 'a transformation runs on our routes, too, and does not see their JSON schemas')
})

t.test('the document is valid OpenAPI 3.0 and 3.1', async (t) => {
  const { refreshTokenEnabled, storeRefreshToken, retrieveRefreshToken } = refreshStore()
  for (const openapi of ['3.0.3', '3.1.0']) {
    const document = await documented(t, {
      refreshTokenEnabled, storeRefreshToken, retrieveRefreshToken, cookieSet: true, cookieStrict: false
    }, (app) => {
      app.get('/scoped', { preHandler: app.tokenAuth.scoped('reports:read') }, answer)
      app.get('/hello', app.tokenAuth.injectUser(answer))
    }, { openapi: { openapi, info: { title: 'test', version: '1.0.0' } } })
    const { valid, errors } = await new Validator().validate(JSON.parse(JSON.stringify(document)))
    t.ok(valid, `${openapi}: ${JSON.stringify(errors)}`)
  }
})

t.test('Swagger 2 is told of headers, the only thing it knows', async (t) => {
  const document = await documented(t, { cookieSet: true, cookieStrict: false, queryStringSet: true, queryStringStrict: false, authMode: false }, (app) => {
    app.get('/', { preHandler: app.tokenAuth.protect() }, answer)
  }, { swagger: {} })
  t.same(document.securityDefinitions, {
    tokenAuthCookie: { type: 'apiKey', in: 'header', name: 'Cookie' },
    tokenAuthQuery: { type: 'apiKey', in: 'query', name: 'access_token' },
    tokenAuth: { type: 'apiKey', in: 'header', name: 'Authorization' }
  })
})

t.test('a free-standing guard without an instance, and an application without @fastify/swagger, document nothing', async (t) => {
  const document = await documented(t, { authMode: false }, (app) => {
    app.get('/', { preHandler: protect({ instanceName: 'nobody' as 'tokenAuth' }) }, answer)
  })
  t.equal(securityOf(document, '/'), undefined)
  const app = host(t)
  const routes: RouteOptions[] = []
  await app.register(tokenAuth, { secret, authMode: false })
  app.addHook('onRoute', (route) => { routes.push(route) })
  app.get('/', { preHandler: app.tokenAuth.protect() }, answer)
  await app.ready()
  t.same(routes.map(({ config }) => config), [undefined, undefined])
})

// Promise: specification/documentation-transform
t.test('the transformation of the application runs on every route, and what guards add is there, in every order and version', async (t) => {
  const seen: unknown[] = []
  const transform = ({ schema, url }: { schema?: object, url: string }) => {
    seen.push(JSON.parse(JSON.stringify(schema ?? null)))
    if (url.startsWith('/internal')) return { schema: { ...schema, hide: true }, url }
    return { schema: { ...schema, tags: ['added'] }, url: url.replace('/v1', '') }
  }
  const versions: Array<[what: string, options: object, scopes: string[]]> = [
    ['3.1', { openapi: { openapi: '3.1.0' } }, ['a']], ['3.0', { openapi: {} }, []], ['2.0', { swagger: {} }, []]
  ]
  for (const [what, options, scopes] of versions) {
    for (const isFirst of [true, false]) {
      for (const isWrapped of [true, false]) {
        const app = host(t)
        const register = async () => { await app.register(fastifySwagger, { ...options, transform }) }
        if (isFirst) await register()
        await app.register(tokenAuth, { secret, authenticate, sessions: {} })
        if (!isFirst) await register()
        const own = { 200: { description: 'mine', type: 'object', properties: {} } }
        app.get('/internal/secrets', { onRequest: app.tokenAuth.protect() }, answer)
        app.get('/v1/orders', { onRequest: app.tokenAuth.scoped('a'), schema: { response: own, ...(isWrapped && { summary: 'orders' }) } }, answer)
        app.get('/v1/open', answer)
        await app.ready()
        const document: Document = JSON.parse(JSON.stringify(app.swagger()))
        const title = `${what} ${isFirst}`
        t.equal(document.paths['/internal/secrets'], undefined, `${title}: what is hidden stays so`)
        t.match(document.paths['/orders']?.get, { tags: ['added'], responses: { 200: { description: 'mine' }, 401: {}, 403: {} } }, title)
        t.same(document.paths['/orders']?.get?.security, [{ tokenAuth: scopes }])
        t.equal(document.paths['/open']?.get?.security, undefined)
        t.match(document.components?.securitySchemes ?? document.securityDefinitions, { tokenAuth: {} })
        t.equal(JSON.stringify(document).includes('x-fastify-token-auth'), false)
        const text = app.swagger({ yaml: true })
        t.match(text, /Sufficient|sufficient/, 'as YAML, too')
        t.notMatch(text, /x-fastify-token-auth|internal/)
        t.equal(app.swagger(), app.swagger(), 'generated once')
      }
    }
  }
  t.notOk(seen.some((schema) => JSON.stringify(schema)?.includes('No valid access token')), 'it sees what the host wrote')
})

t.test('a transformation of a route stays, and one that is false hides what guards add', async (t) => {
  const document = await documented(t, {}, (app) => {
    const onRequest = app.tokenAuth.protect()
    app.get('/own', { onRequest, config: { swaggerTransform: ({ schema, url }: { schema: object, url: string }) => ({ schema: { ...schema, summary: 'own' }, url }) } }, answer)
  })
  t.match(document.paths['/own']?.get, { summary: 'own', security: [{ tokenAuth: [] }] })
})

t.test('with another name of the decorator, guards are documented by a transformation of their routes', async (t) => {
  for (const [options, scopes] of [[{ openapi: { openapi: '3.1.0' } }, ['a']], [{ swagger: {} }, []]] as const) {
    const app = host(t)
    await app.register(fastifySwagger, { ...options, decorator: 'api' } as object)
    await app.register(tokenAuth, { secret, authenticate })
    app.get('/scoped', { onRequest: app.tokenAuth.scoped('a') }, answer)
    await app.ready()
    const document: Document = JSON.parse(JSON.stringify(Reflect.apply(Reflect.get(app, 'api'), app, [])))
    t.match(document.paths['/scoped']?.get, { security: [{ tokenAuth: scopes }], responses: { 401: {}, 403: {} } })
    t.match(document.paths['/auth']?.post, { summary: 'Issue an access token', security: [], responses: { 200: {} } })
  }
})

/** An application whose document is written as YAML. */
async function withDocument (t: Test) {
  const app = host(t)
  await app.register(fastifySwagger, { openapi: { openapi: '3.1.0' } })
  await app.register(tokenAuth, { secret, authenticate })
  await app.ready()
  return app
}

t.test('YAML is written once for a document, by the package of the @fastify/swagger that is loaded, whatever is in the folder of the process', async (t) => {
  const folder = t.testdir({
    node_modules: { '@fastify': { swagger: { 'index.js': '', node_modules: { yaml: { 'index.js': "exports.stringify = () => 'planted'" } } } } }
  })
  const app = await withDocument(t)
  const yaml: { stringify: (...given: unknown[]) => string } = createRequire(createRequire(import.meta.url).resolve('@fastify/swagger'))('yaml')
  const { stringify } = yaml
  let count = 0
  yaml.stringify = (...given) => {
    count++
    return stringify(...given)
  }
  const { cwd } = process
  process.cwd = () => folder
  // Other tests of this process need both.
  const texts = [app.swagger({ yaml: true }), app.swagger({ yaml: true })]
  process.cwd = cwd
  yaml.stringify = stringify
  t.equal(texts[0], texts[1])
  t.match(texts[0], /^openapi: 3\.1\.0\n/)
  t.equal(texts[0], stringify(JSON.parse(JSON.stringify(app.swagger())), { strict: false }))
  t.equal(count, 1)
})

t.test('where @fastify/swagger is in a bundle, the document is JSON, which is YAML, too', async (t) => {
  const { cache, resolve } = createRequire(import.meta.url)
  const path = resolve('@fastify/swagger')
  const app = await withDocument(t)
  const loaded = cache[path]
  delete cache[path]
  const text = app.swagger({ yaml: true })
  cache[path] = loaded
  t.same(JSON.parse(text), JSON.parse(JSON.stringify(app.swagger())))
})

t.test('a static document is served as it is', async (t) => {
  const app = host(t)
  const given = { openapi: '3.1.0', info: { title: 'x', version: '1' }, paths: { '/a': { get: { responses: {} } } } }
  await app.register(fastifySwagger, { mode: 'static', specification: { document: given } } as object)
  await app.register(tokenAuth, { secret, authenticate })
  app.get('/a', { onRequest: app.tokenAuth.protect() }, answer)
  await app.ready()
  t.same(JSON.parse(JSON.stringify(app.swagger())), given)
  t.type(app.swagger({ yaml: true }), 'string')
})

t.test('security at the root of the document is not that of routes that everybody may use, and parameters that carry tokens are those of the schemes', async (t) => {
  const document = await documented(t, { queryStringSet: true, queryStringStrict: false }, (app) => {
    const querystring = { type: 'object', properties: { access_token: { type: 'string' }, page: { type: 'integer' } } }
    app.get('/list', { onRequest: app.tokenAuth.protect(), schema: { querystring } }, answer)
    app.get('/only', { onRequest: app.tokenAuth.protect(), schema: { headers: { type: 'object', properties: { Authorization: { type: 'string' } } } } }, answer)
    app.get('/open', { config: { tokenAuth: false } }, answer)
    app.get('/mine', { config: { tokenAuth: false }, schema: { security: [{ mine: [] }] } }, answer)
    app.get('/other', { config: { tokenAuth: 'basic auth' } }, answer)
  }, { openapi: { openapi: '3.1.0', info: { title: 'x', version: '1' }, security: [{ mine: [] }], components: { securitySchemes: { mine: { type: 'http', scheme: 'basic' } } } } })
  t.same(['/auth', '/open', '/mine', '/other'].map((path) => securityOf(document, path, path === '/auth' ? 'post' : 'get')), [[], [], [{ mine: [] }], undefined])
  const namesOf = (path: string) => ((document.paths[path]?.get as { parameters?: Array<{ name: string }> } | undefined)?.parameters ?? []).map(({ name }) => name)
  t.same([namesOf('/list'), namesOf('/only')], [['page'], []])
  t.match(await new Validator().validate(JSON.parse(JSON.stringify(document))), { valid: true })
})
