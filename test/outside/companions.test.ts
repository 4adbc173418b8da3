/** Plugins and libraries that hosts bring along, as they are published. */
import swagger from '@fastify/swagger'
import { jsonSchemaTransform, serializerCompiler, validatorCompiler } from 'fastify-type-provider-zod'
import t from 'tap'
import { z } from 'zod'
import tokenAuth from '../../lib/index.ts'
import { authenticate, bearer, claims, forge, host, secret, users } from '../helper.ts'

interface Document { paths: Record<string, Record<string, { security?: unknown, responses?: object, requestBody?: object, summary?: string }>>, components: { securitySchemes?: object } }

// Promise: specification/documentation-transform
t.test('fastify-type-provider-zod: its transformation sees the schemas of the host alone, and guards and endpoints are documented', async (t) => {
  for (const openapi of ['3.0.3', '3.1.0']) {
    const app = host(t)
    app.setValidatorCompiler(validatorCompiler)
    app.setSerializerCompiler(serializerCompiler)
    await app.register(swagger, { openapi: { openapi, info: { title: 'x', version: '1' } }, transform: jsonSchemaTransform })
    await app.register(tokenAuth, { secret, authenticate, sessions: {}, retrieveUser: async () => users[0] })
    const schema = { querystring: z.object({ page: z.string() }), response: { 200: z.object({ ok: z.boolean() }), 401: z.object({ mine: z.string() }) } }
    app.get('/orders', { onRequest: app.tokenAuth.scoped('read'), schema }, async () => ({ ok: true }))
    app.get('/plain', { onRequest: app.tokenAuth.protect() }, async () => ({ ok: true }))
    app.get('/hidden', { onRequest: app.tokenAuth.protect(), schema: { hide: true } }, async () => ({ ok: true }))
    await app.ready()
    const document: Document = JSON.parse(JSON.stringify(app.swagger()))
    t.match(document.paths['/orders']?.get, { parameters: [{ name: 'page' }], security: [{ tokenAuth: openapi === '3.1.0' ? ['read'] : [] }], responses: { 200: {}, 401: {}, 403: {} } }, openapi)
    t.match(document.paths['/plain']?.get, { security: [{ tokenAuth: [] }], responses: { 200: {}, 401: {} } })
    t.equal(document.paths['/hidden'], undefined)
    t.match(document.paths['/auth']?.post, { security: [], summary: 'Issue an access token', requestBody: {}, responses: { 200: {}, 401: {}, 503: {} } })
    t.match(document.paths['/auth/me']?.get, { parameters: [{ in: 'query', name: 'optional' }], responses: { 200: {} } })
    t.equal((await app.inject({ url: '/orders?page=1' })).statusCode, 401, 'whatever the route documents of its 401')
    t.equal((await app.inject({ url: '/orders?page=1', headers: bearer(forge(claims({ scopes: ['read'] }))) })).statusCode, 200)
  }
})
