/** What a refusal says does not depend on the route that it protects: what that documents, and its hooks, are for its own answers. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import t from 'tap'
import tokenAuth, { protect, Responses, type TokenAuthOptions } from '../../lib/index.ts'
import { authenticate, bearer, build, caseOf, claims, forge, host, secret, together, warnings } from '../helper.ts'

const json = 'application/json; charset=utf-8'
/** A store that was read too long ago. */
const stale = { endedSince: async () => ({ ended: [], cursor: '', staleFor: 3_600_000, reason: null }) }

const strict = { type: 'object', required: ['statusCode', 'error'], properties: { statusCode: { type: 'integer' }, error: { type: 'string' } }, additionalProperties: false }
const empty = { type: 'object', properties: {}, additionalProperties: false }
const inContent = { content: { 'application/json': { schema: strict } } }

/** What a route may say of its own answers. */
const routes: Record<string, Partial<RouteOptions>> = {
  nothing: {},
  'required properties': { schema: { response: { 401: strict, 403: strict, 503: strict } } },
  'no properties': { schema: { response: { 401: empty, 403: empty, 503: empty } } },
  'ranges of a status': { schema: { response: { '4xx': strict, '5xx': strict } } },
  'a default': { schema: { response: { default: strict } } },
  'media types': { schema: { response: { 401: inContent, 403: inContent, 503: inContent } } },
  'a text': { schema: { response: { '4xx': { type: 'string' }, '5xx': { type: 'string' } } } },
  'another compiler': { schema: { response: { '4xx': empty, '5xx': empty } }, serializerCompiler: () => () => { throw new Error('not the answer of this route') } }
}

/** What an application does to every answer. */
const applications: Record<string, (app: FastifyInstance) => void> = {
  nothing: () => {},
  'a serializer of replies': (app) => { app.setReplySerializer(() => 'another form') },
  'a serializer of requests': (app) => { app.addHook('onRequest', async (_request, reply) => { reply.serializer(() => 'another form') }) },
  'a type for pages': (app) => { app.addHook('onRequest', async (_request, reply) => { reply.type('text/html') }) },
  'a hook that validates responses': (app) => { app.addHook('preSerialization', async () => { throw new Error('not what the route documents') }) },
  'a cache': (app) => { app.addHook('onRequest', async (_request, reply) => { reply.header('cache-control', 'public, max-age=60') }) }
}

class Own extends Responses {
  override exceptionResponse (_request: FastifyRequest, { name }: { name: string }): unknown { return { own: name } }
}

class Later extends Responses {
  override async exceptionResponse (_request: FastifyRequest, { name }: { name: string }) { return { own: name } }
}

/** How an instance renders refusals, and the body of one. */
const renderings: Record<string, [options: Partial<TokenAuthOptions>, body: (name: string) => object]> = {
  'the default': [{}, (name) => ({ exception: name, reasons: String })],
  debug: [{ debug: true }, (name) => ({ exception: name, reasons: String })],
  'an exceptionResponse of the application': [{ responsesClass: Own }, (name) => ({ own: name })],
  'an asynchronous one': [{ responsesClass: Later }, (name) => ({ own: name })]
}

// Promise: security/refusal-of-documented-route
t.test('status, body, media type and caching of a refusal are the same, whatever a route documents and an application does to its own answers', async (t) => {
  const token = forge(claims())
  const ofSession = forge(claims({ sid: 'A'.repeat(22) }))
  const requests: ReadonlyArray<readonly [path: string, status: number, name: string, token?: string]> = [
    ['', 401, 'MissingAuthorizationHeader'],
    ['/injected', 401, 'InvalidToken', 'no token'],
    ['/awaited', 401, 'MissingAuthorizationHeader'],
    ['/free', 401, 'MissingAuthorizationHeader'],
    ['', 401, 'InvalidToken', 'no token'],
    ['/scoped', 403, 'InsufficientScope', token],
    ['', 503, 'SessionStoreUnavailable', ofSession]
  ]
  for (const [what, prepare] of Object.entries(applications)) {
    for (const [rendering, [options, bodyOf]] of Object.entries(renderings)) {
      const app = host(t)
      prepare(app)
      await app.register(tokenAuth, together({ secret, authMode: false, sessions: { store: stale, refuseAfter: 60 } }, options))
      const { tokenAuth: instance } = app
      for (const [name, route] of Object.entries(routes)) {
        const url = `/${name.replaceAll(' ', '-')}`
        app.get(url, { ...route, onRequest: instance.protect() }, async () => 'reached')
        app.get(`${url}/scoped`, { ...route, preHandler: instance.scoped('admin') }, async () => 'reached')
        app.get(`${url}/injected`, route, instance.injectUser(async () => 'reached'))
        app.get(`${url}/awaited`, route, async (request, reply) => { await instance.protect()(request, reply) })
        app.get(`${url}/free`, { ...route, onRequest: protect() }, async () => 'reached')
      }
      for (const name of Object.keys(routes)) {
        const url = `/${name.replaceAll(' ', '-')}`
        for (const [path, status, exception, sent] of requests) {
          const answer = await app.inject({ url: url + path, headers: sent === undefined ? {} : bearer(sent) })
          const label = caseOf([what, rendering, name, path, exception])
          assert.equal(answer.statusCode, status, label)
          assert.equal(answer.headers['content-type'], json, label)
          assert.equal(answer.headers['cache-control'], 'no-store', label)
          t.match(answer.json(), bodyOf(exception), label)
        }
      }
    }
  }
})

const caching = { 'cache-control': 'public, max-age=60', 'cdn-cache-control': 'max-age=60', 'surrogate-control': 'max-age=60', 'x-accel-expires': '60', 'x-frame-options': 'DENY' }

// Promise: security/refusal-in-cache
t.test('a refusal, a redirect and an answer with tokens are stored by no cache, whatever hooks have set for the answers of routes', async (t) => {
  warnings(t, 'W05', 'W05')
  for (const onRefusal of ['reply', 'throw'] as const) {
    const app = host(t)
    app.addHook('onRequest', async (_request, reply) => {
      const { 'surrogate-control': raw, ...headers } = caching
      reply.headers(headers).raw.setHeader('surrogate-control', raw)
    })
    await app.register(tokenAuth, together({ secret, authenticate, onRefusal, queryStringSet: true, queryStringStrict: false }))
    app.get('/guarded', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
    app.get('/redirected', { onRequest: app.tokenAuth.protect({ redirectOnFail: true }) }, async () => 'reached')
    app.get('/absent', { onRequest: protect({ instanceName: 'partner' }) }, async () => 'reached')
    const token = forge(claims())
    const requests = [
      ['/guarded', {}, 401], ['/redirected', {}, onRefusal === 'throw' ? 401 : 302], ['/absent', {}, 500], ['/auth/me', {}, 401], ['/auth/me', bearer(token), 200], [`/guarded?access_token=${token}`, {}, 200]
    ] as const
    for (const [url, headers, status] of requests) {
      const answer = await app.inject({ url, headers })
      t.match(answer, { statusCode: status, headers: { 'cache-control': 'no-store', 'cdn-cache-control': undefined, 'surrogate-control': undefined, 'x-accel-expires': undefined, 'x-frame-options': 'DENY' } }, caseOf([onRefusal, url]))
    }
    t.match(await app.inject({ url: '/guarded', headers: bearer(token) }), { statusCode: 200, headers: caching }, 'the answer of the route is as the hooks have set it')
  }
})

/** What `exceptionResponse` may do with a reply of its own, and what the client gets. */
const replies: Record<string, [exceptionResponse: (request: FastifyRequest, error: object, reply: FastifyReply) => unknown, body: string, type: string | undefined]> = {
  'sends and returns it': [(_request, _error, reply) => reply.type('text/html').send('<p>no</p>'), '<p>no</p>', 'text/html'],
  'returns it and sends later': [(_request, _error, reply) => {
    setImmediate(() => { reply.type('text/html').send('<p>no</p>') })
    return reply
  }, '<p>no</p>', 'text/html'],
  'promises it and sends later': [async (_request, _error, reply) => {
    setImmediate(() => { reply.type('text/html').send('<p>no</p>') })
    return reply
  }, '<p>no</p>', 'text/html'],
  'sends and returns nothing': [(_request, _error, reply) => { reply.type('text/html').send('<p>no</p>') }, '<p>no</p>', 'text/html'],
  'returns a text': [() => 'no', 'no', 'text/plain; charset=utf-8'],
  'returns a text of another type': [(_request, _error, reply) => { reply.type('text/html'); return '<p>no</p>' }, '<p>no</p>', 'text/html'],
  'returns bytes': [() => Buffer.from('no'), 'no', 'application/octet-stream'],
  'returns a stream': [() => Readable.from(['n', 'o']), 'no', undefined],
  'returns a stream of the web': [() => new Blob(['no']).stream(), 'no', undefined],
  'returns a Response': [() => new Response('no', { status: 402, headers: { 'content-type': 'text/x-no' } }), 'no', 'text/x-no'],
  'returns null': [() => null, 'null', json],
  'returns another kind of JSON': [(_request, _error, reply) => { reply.type('application/problem+json'); return { type: 'about:blank' } }, '{"type":"about:blank"}', 'application/problem+json; charset=utf-8'],
  'returns another kind of JSON with its charset': [(_request, _error, reply) => { reply.type('application/problem+json; charset=UTF-8'); return [] }, '[]', 'application/problem+json; charset=UTF-8']
}

t.test('exceptionResponse returns a body of any kind that Fastify sends, or the reply, which it has sent or will send', async (t) => {
  warnings(t)
  for (const [name, [exceptionResponse, body, type]] of Object.entries(replies)) {
    class Sending extends Responses {
      override exceptionResponse (request: FastifyRequest, error: object, reply: FastifyReply) { return exceptionResponse(request, error, reply) }
    }
    const lines: string[] = []
    const app = host(t, { logger: { level: 'warn', stream: { write: (line: string) => { lines.push(line) } } } })
    await app.register(tokenAuth, { secret, authenticate, responsesClass: Sending })
    app.get('/guarded', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
    app.get('/awaited', async (request, reply) => {
      await app.tokenAuth.protect()(request, reply)
      return 'reached'
    })
    app.get('/injected', app.tokenAuth.injectUser(async () => 'reached'))
    for (const url of ['/guarded', '/awaited', '/injected', '/auth/me']) {
      const answer = await app.inject({ url, headers: bearer('no token') })
      const label = caseOf([name, url])
      assert.equal(answer.body, body, label)
      assert.equal(answer.headers['content-type'], type, label)
      assert.equal(answer.statusCode, name === 'returns a Response' ? 402 : 401, label)
    }
    // Fastify logs whatever a handler throws after its request was answered.
    assert.deepEqual(lines.filter((line) => !line.includes('Promise errored, but reply.sent = true was set')), [], name)
  }
})

t.test('an exceptionResponse whose body has no JSON form fails as one that throws: 500, without a challenge', async (t) => {
  const circular: Record<string, unknown> = {}
  circular.self = circular
  for (const give of [() => circular, async () => circular]) {
    class Circular extends Responses {
      override exceptionResponse () { return give() }
    }
    const app = await build(t, { responsesClass: Circular })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
    t.match(await app.inject('/'), { statusCode: 500, headers: { 'www-authenticate': undefined }, body: /Internal Server Error/ })
  }
})
