/** The table of endpoints, and what its rows promise. */
import fastifySwagger, { type SwaggerOptions } from '@fastify/swagger'
import formbody from '@fastify/formbody'
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import type { FastifyInstance, RouteOptions } from 'fastify'
import type { Endpoint, EndpointRow } from '../../lib/endpoints/endpoint.ts'
import { addEndpoints } from '../../lib/endpoints/routes.ts'
import { endpointTable } from '../../lib/endpoints/table.ts'
import { Responses } from '../../lib/http/responses.ts'
import tokenAuth, { type TokenAuthOptions } from '../../lib/index.ts'
import { registrationOf } from '../../lib/registration.ts'
import { pathSettings } from '../../lib/settings/schema.ts'
import { authenticate, build, host, keysFor, mistyped, refreshStore, secret, together } from '../helper.ts'
import { run } from '../programs.ts'

const rows: readonly EndpointRow[] = Object.values(endpointTable)

t.test('every path setting has a row, and every hook of responses', async (t) => {
  t.same([...new Set(rows.map(({ path }) => path))].sort(), [...pathSettings].sort())
  const hooks = Object.getOwnPropertyNames(Responses.prototype).filter((name) => name.startsWith('extend'))
  t.same([...new Set(rows.flatMap(({ hook }) => hook ?? []))].sort(), hooks.sort())
})

t.test('every route of the plugin is in the table, and no row is without a route', async (t) => {
  const { stored, ...handlers } = refreshStore()
  const pair: TokenAuthOptions = mistyped({ secret: undefined, ...keysFor('EdDSA'), claimIss: 'us', claimAud: 'us', pathToJwks: '/jwks', strictSlashes: true })
  const found = new Set<string>()
  for (const options of [{ sessions: {} }, handlers]) {
    const app = host(t)
    app.addHook('onRoute', ({ method, url }) => { if (method !== 'HEAD') found.add(`${String(method)} ${url}`) })
    await app.register(tokenAuth, together({ authenticate }, pair, options))
  }
  const settings: Record<string, unknown> = { ...(await build(t, pair)).tokenAuth.settings }
  const listed = rows.map(({ method, path, below = '' }) => `${method} /auth${String(settings[path]).replace(/^\/$/, '')}${below}`)
  t.same([...found].sort(), [...new Set(listed)].sort())
})

/** Gives each response of a route, with the schema of each of its media types. */
function responsesOf ({ url, schema }: RouteOptions): Array<[label: string, schema: object]> {
  const response: Record<string, { content?: Record<string, { schema: object }> }> = Object(schema).response ?? {}
  return Object.entries(response).flatMap(([status, { content, ...own }]) => content === undefined
    ? [[`${url} ${status}`, own] as [string, object]]
    : Object.entries(content).map(([type, media]): [string, object] => [`${url} ${status} ${type}`, media.schema]))
}

// Promise: security/whole-response-schemas
t.test('every response of an endpoint that is documented has a whole schema, which validators of responses need', async (t) => {
  const pair: TokenAuthOptions = mistyped({ secret: undefined, ...keysFor('EdDSA'), claimIss: 'us', claimAud: 'us', pathToJwks: '/jwks' })
  const { stored, ...handlers } = refreshStore()
  for (const options of [{ sessions: {} }, { sessions: {}, cookieSet: true }, { ...handlers, cookieSet: true }]) {
    const routes: RouteOptions[] = []
    const app = host(t)
    app.addHook('onRoute', (route) => { routes.push(route) })
    await app.register(tokenAuth, together({ authenticate }, pair, options))
    const found = routes.flatMap(responsesOf)
    t.ok(found.length >= 12)
    t.same(found.filter(([, schema]) => typeof Object(schema).type !== 'string').map(([label]) => label), [])
    t.same(found.filter(([, schema]) => JSON.stringify(schema).includes('"format"')).map(([label]) => label), [], 'no format, which strict validators would have to know')
  }
})

interface Operation { operationId?: string }

async function operationsOf (t: Test, register: (app: FastifyInstance) => unknown): Promise<(string | undefined)[]> {
  const app = host(t)
  await app.register(fastifySwagger, { openapi: { openapi: '3.1.0' } })
  await register(app)
  await app.ready()
  const { paths } = JSON.parse(JSON.stringify(app.swagger())) as { paths: Record<string, Record<string, Operation>> }
  return Object.values(paths).flatMap((methods) => Object.values(methods).map(({ operationId }) => operationId))
}

t.test('every endpoint has an operation id, which is in the document of an application once', async (t) => {
  const pair = { ...keysFor('EdDSA'), claimIss: 'us', claimAud: 'us', pathToJwks: '/jwks' }
  const options: TokenAuthOptions = mistyped({ authenticate, ...pair, sessions: {} })
  const names = ['Authenticate', 'Verify', 'Me', 'Refresh', 'Logout', 'ListSessions', 'EndSession', 'EndSessionByForm', 'EndSessions', 'Jwks']
  t.same((await operationsOf(t, (app) => app.register(tokenAuth, options))).sort(), names.map((name) => `tokenAuth${name}`).sort())

  const twice = await operationsOf(t, async (app) => {
    await app.register(async (nested) => { await nested.register(tokenAuth, options) }, { prefix: '/one' })
    await app.register(async (nested) => { await nested.register(tokenAuth, options) }, { prefix: '/two' })
    await app.register(async (nested) => { await nested.register(tokenAuth, options) }, { prefix: '/three' })
    await app.register(tokenAuth, { secret, authenticate, instanceName: 'staff' })
  })
  t.same(twice.sort(), [...['', '2', '3'].flatMap((number) => names.map((name) => `tokenAuth${name}${number}`)), 'staffAuthenticate', 'staffVerify', 'staffMe'].sort())
  t.ok((await operationsOf(t, (app) => app.register(tokenAuth, options))).includes('tokenAuthMe'), 'another application begins anew')
})

t.test('a hook of the host describes the body of the login, as docs/openapi.md has it', async (t) => {
  const app = host(t)
  await app.register(fastifySwagger, { openapi: { openapi: '3.1.0' } })
  const page = readFileSync(new URL('../../docs/openapi.md', import.meta.url), 'utf8')
  const [, program = ''] = /^## The body of the login\n[\s\S]*?```js\n([\s\S]*?)```/m.exec(page) ?? []
  await run(program, { app, tokenAuth, secret, authenticate })
  await app.ready()
  const { paths } = JSON.parse(JSON.stringify(app.swagger()))
  t.same(paths['/auth'].post.requestBody.content['application/json'].schema.required, ['username', 'password'])
  t.same(Object.keys(paths), ['/auth', '/auth/verify', '/auth/me'])
  t.equal((await app.inject({ method: 'POST', url: '/auth', payload: {} })).statusCode, 401, 'it validates nothing')
})

/** A row of the kind that RFC 7009 requires. */
const formRow: EndpointRow = {
  name: 'form', method: 'POST', path: 'pathToLogout', exists: () => true, access: 'client authentication', bodies: 'form', implement: () => { throw new Error('not asked') }
}
const formEndpoint = (isBodyOptional: boolean): Endpoint => ({
  row: formRow,
  path: isBodyOptional ? '/optional' : '/form',
  schema: { body: { type: 'object' } },
  isBodyOptional,
  handler: ({ request: { body } }) => ({ body: { read: body ?? null } })
})

async function withForms (t: Test): Promise<FastifyInstance> {
  const app = host(t)
  await app.register(formbody)
  await app.register(tokenAuth, { secret, authenticate })
  await addEndpoints(app, registrationOf(app.tokenAuth)!, [formEndpoint(false), formEndpoint(true)], {})
  return app
}

const form = 'application/x-www-form-urlencoded'

t.test('an endpoint of forms is documented as one', async (t) => {
  const body = { type: 'object', required: ['token'], properties: { token: { type: 'string', description: 'A token.' }, hint: { type: 'string' } } }
  const documentOf = async (options: SwaggerOptions) => {
    const app = host(t)
    await app.register(fastifySwagger, options)
    await app.register(tokenAuth, { secret, authenticate })
    await addEndpoints(app, registrationOf(app.tokenAuth)!, [{ ...formEndpoint(false), schema: { body } }], {})
    await app.ready()
    return JSON.parse(JSON.stringify(app.swagger())).paths['/auth/form'].post
  }
  for (const openapi of ['3.0.3', '3.1.0']) {
    const { requestBody } = await documentOf({ openapi: { openapi } })
    t.same(requestBody, { required: true, content: { [form]: { schema: body } } }, openapi)
  }
  const { consumes, parameters } = await documentOf({ swagger: {} })
  t.same(consumes, [form])
  t.same(parameters, [
    { in: 'formData', name: 'token', required: true, description: 'A token.', type: 'string' },
    { in: 'formData', name: 'hint', required: false, type: 'string' }
  ])
})

t.test('an endpoint of forms reads forms only, each parameter once, of at most 16 KiB', async (t) => {
  const app = await withForms(t)
  const post = (payload: string | undefined, type: string | undefined = form, url = '/auth/form') => app.inject({
    method: 'POST', url, headers: type === '' ? {} : { 'content-type': type }, ...(payload !== undefined && { payload: Buffer.from(payload) })
  })
  for (const type of [form, `${form}; charset=utf-8`, 'APPLICATION/X-WWW-FORM-URLENCODED']) {
    const answer = await post('token=a+b%2B%C3%A4&empty=&__proto__=x&constructor=y', type)
    t.same([answer.statusCode, answer.headers['cache-control']], [200, 'no-store'], type)
    t.equal(answer.body, '{"read":{"token":"a b+ä","__proto__":"x","constructor":"y"}}', 'a parameter without a value counts as missing')
  }
  for (const payload of ['token=a&token=b', 'token=a&token=a', 'token=&token=', 'a=1&token=x&a=', '%74oken=a&token=b']) {
    const answer = await post(payload)
    t.match([answer.statusCode, answer.json().message], [400, 'body must not have a parameter twice'], payload)
  }
  for (const type of ['application/json', 'text/plain', 'multipart/form-data; boundary=x', 'application/x-www-form-urlencoded-2', 'x/y', '']) {
    for (const payload of ['token=a', '{"token":"a"}']) t.equal((await post(payload, type)).statusCode, 415, `${type} ${payload}`)
  }
  t.equal((await post(`token=${'x'.repeat(16_378)}`)).statusCode, 200)
  t.equal((await post(`token=${'x'.repeat(16_379)}`)).statusCode, 413)
  for (const payload of ['token=%E4', 'token=a%C3&more=%A4', 'token=%ED%A0%80']) {
    const answer = await post(payload)
    t.match([answer.statusCode, answer.json().message], [400, 'body must be UTF-8'], payload)
  }
  t.equal((await app.inject({ method: 'POST', url: '/auth/form', headers: { 'content-type': form }, payload: Buffer.from('token=\u00e4', 'latin1') })).statusCode, 400)
  t.same((await post('token=100%')).json(), { read: { token: '100%' } })
  const missing = await post(undefined, '')
  t.match([missing.statusCode, missing.json().message], [400, 'body must be a form'])
  t.same((await post(undefined, '', '/auth/optional')).json(), { read: null })
  t.same((await post('')).json(), { read: {} })
})

t.test('forms of one endpoint open no other: login takes JSON only, and routes of the host what they took', async (t) => {
  const app = await withForms(t)
  app.post('/own', async ({ body }) => body)
  const headers = { 'content-type': form }
  const payload = 'username=ada&password=lovelace'
  t.equal((await app.inject({ method: 'POST', url: '/auth', headers, payload })).statusCode, 415)
  t.same((await app.inject({ method: 'POST', url: '/own', headers, payload })).json(), { username: 'ada', password: 'lovelace' })
})
