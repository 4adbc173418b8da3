import assert from 'node:assert/strict'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import tokenAuth, { AuthenticationFailed, InvalidClassViews, Responses, View, type ClassView, type TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, caseOf, claims, forge, host, mistyped, secret } from '../helper.ts'

const headers = bearer(forge(claims({ scopes: ['admin'] })))
const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const

class Echo extends View {
  async #answer (request: FastifyRequest) { return { method: request.method, body: request.body ?? null } }
  override async get (request: FastifyRequest) { return await this.#answer(request) }
  override async post (request: FastifyRequest) { return await this.#answer(request) }
  override async put (request: FastifyRequest) { return await this.#answer(request) }
  override async patch (request: FastifyRequest) { return await this.#answer(request) }
  override async delete (request: FastifyRequest) { return await this.#answer(request) }
  override async options (request: FastifyRequest) { return await this.#answer(request) }
}

// Promise: specification/additional-endpoints
t.test('the methods of a view become routes under the prefix, with the endpoints on or off', async (t) => {
  for (const authMode of [true, false]) {
    const app = await build(t, { authMode, classViews: [['/echo', Echo]] })
    for (const method of methods) {
      for (const url of ['/auth/echo', '/auth/echo/']) {
        const response = await app.inject({ method, url, ...(method !== 'GET' && { payload: { a: 1 } }) })
        assert.equal(response.statusCode, 200, caseOf(authMode, method, url))
        assert.deepEqual(response.json(), { method, body: method === 'GET' ? null : { a: 1 } }, caseOf(authMode, method, url))
        assert.equal(response.headers['cache-control'], 'no-store', caseOf(authMode, method, url))
      }
    }
    assert.equal((await app.inject({ method: 'HEAD', url: '/auth/echo' })).statusCode, 200, caseOf(authMode))
    assert.equal((await app.inject('/auth/me')).statusCode, authMode ? 401 : 404, caseOf(authMode))
  }
})

t.test('a view of one method has one route, and strictSlashes holds for it', async (t) => {
  class Only extends View { override post () { return 'posted' } }
  const app = await build(t, { strictSlashes: true, urlPrefix: '/x', classViews: [['/only/one', Only]] })
  t.equal((await app.inject({ method: 'POST', url: '/x/only/one' })).body, 'posted')
  t.equal((await app.inject({ method: 'POST', url: '/x/only/one/' })).statusCode, 404)
  t.equal((await app.inject('/x/only/one')).statusCode, 404)
})

t.test('a view may have parameters in its path', async (t) => {
  class User extends View { override get ({ params }: FastifyRequest) { return params } }
  const app = await build(t, { classViews: [['/users/:id', User], ['/files/*', User]] })
  t.same((await app.inject('/auth/users/7')).json(), { id: '7' })
  t.same((await app.inject('/auth/users/7/')).json(), { id: '7' })
  t.same((await app.inject('/auth/files/a/b')).json(), { '*': 'a/b' })
})

// Promise: specification/additional-endpoints
t.test('a view sees the instance, its settings and its responses', async (t) => {
  class Mine extends Responses { mine = true }
  class Seeing extends View {
    override async get (request: FastifyRequest) {
      const token = await this.instance.generateAccessToken({ user_id: 9 })
      return { leeway: this.config.leeway, mine: Reflect.get(this.responses, 'mine'), user: this.instance.verifyToken(token).user_id, known: this.instance.extractUserId(request) }
    }
  }
  const app = await build(t, { leeway: 7, responsesClass: Mine, classViews: [['/see', Seeing]] })
  t.same((await app.inject({ url: '/auth/see', headers })).json(), { leeway: 7, mine: true, user: 9, known: 1 })
})

// Promise: specification/options-view
t.test('a method that returns nothing and sends nothing answers 204 with an empty body', async (t) => {
  class Silent extends View {
    override options (_request: FastifyRequest, reply: FastifyReply) { reply.header('access-control-allow-methods', 'GET') }
    override async delete () {}
    override get (_request: FastifyRequest, reply: FastifyReply) { reply.code(201).send('sent') }
    override async put (_request: FastifyRequest, reply: FastifyReply) { return reply.code(202).send({ sent: true }) }
    override post () { return null }
  }
  const app = await build(t, { classViews: [['/silent', Silent]] })
  const answers: [typeof methods[number], number, string][] = [['OPTIONS', 204, ''], ['DELETE', 204, ''], ['GET', 201, 'sent'], ['PUT', 202, '{"sent":true}']]
  for (const [method, status, body] of answers) {
    const response = await app.inject({ method, url: '/auth/silent' })
    assert.equal(response.statusCode, status, method)
    assert.equal(response.body, body, method)
    assert.equal(response.headers['content-type'] === undefined, status === 204, method)
  }
  t.equal((await app.inject({ method: 'OPTIONS', url: '/auth/silent' })).headers['access-control-allow-methods'], 'GET')
  t.equal((await app.inject({ method: 'POST', url: '/auth/silent' })).statusCode, 200, 'null is something')
})

t.test('guards of a view hold for their method only', async (t) => {
  let reached = 0
  class Guarded extends View {
    override readonly guards = { get: this.instance.protect(), delete: [this.instance.scoped('admin'), this.instance.scoped('owner')] }
    override get () { reached++; return 'seen' }
    override delete () { reached++; return 'deleted' }
    override put () { return 'open' }
  }
  const app = await build(t, { classViews: [['/guarded', Guarded]] })
  for (const method of ['GET', 'HEAD', 'DELETE'] as const) assert.equal((await app.inject({ method, url: '/auth/guarded' })).statusCode, 401, method)
  t.equal((await app.inject({ method: 'DELETE', url: '/auth/guarded', headers })).statusCode, 403, 'every guard of a list is asked')
  t.equal(reached, 0)
  t.equal((await app.inject({ method: 'DELETE', url: '/auth/guarded', headers: bearer(forge(claims({ scopes: ['admin', 'owner'] }))) })).body, 'deleted')
  t.equal((await app.inject({ url: '/auth/guarded', headers })).body, 'seen')
  t.equal((await app.inject({ method: 'PUT', url: '/auth/guarded' })).body, 'open')
})

t.test('a refusal that a view throws is rendered as one; another error is the affair of the host', async (t) => {
  class Throwing extends View {
    override get (): never { throw new AuthenticationFailed('Not you.') }
    override async post () { throw Object.assign(new Error('teapot'), { statusCode: 418 }) }
    override async put (_request: FastifyRequest, reply: FastifyReply) { await reply.send('sent'); throw new Error('late') }
  }
  const app = await build(t, { classViews: [['/throwing', Throwing]] })
  const refused = await app.inject('/auth/throwing')
  t.equal(refused.statusCode, 401)
  t.same(refused.json(), { reasons: 'Not you.', exception: 'AuthenticationFailed' })
  t.equal((await app.inject({ method: 'POST', url: '/auth/throwing' })).statusCode, 418)
  t.equal((await app.inject({ method: 'PUT', url: '/auth/throwing' })).body, 'sent', 'what was sent stays sent')
})

class Fine extends View { override get () { return 'fine' } }
class Empty extends View {}
class Unrelated { get () { return 'no' } }
class Misguided extends View {
  override readonly guards = { post: this.instance.protect() }
  override get () { return 'fine' }
}
class Misspelt extends View {
  override readonly guards = mistyped<object>({ gett: this.instance.protect() })
  override get () { return 'fine' }
}

t.test('anything but a list of pairs of path and view is refused at registration', async (t) => {
  const wrong: [name: string, classViews: unknown][] = [
    ['null', null], ['text', '/x'], ['a number', 7], ['a view', Fine], ['an object', { '/x': Fine }], ['a pair outside of a list', ['/x', Fine]],
    ['null in the list', [null]], ['text in the list', ['/x']], ['no view', [['/x']]], ['three', [['/x', Fine, {}]]], ['swapped', [[Fine, '/x']]],
    ['no path', [[undefined, Fine]]], ['a relative path', [['x', Fine]]], ['an empty path', [['', Fine]]], ['an instance', [['/x', { get () {} }]]],
    ['a function', [['/x', () => 'no']]], ['View itself', [['/x', View]]], ['an unrelated class', [['/x', Unrelated]]], ['no methods', [['/x', Empty]]],
    ['a class without a name', [['/x', class {}]]], ['a guard of no method', [['/x', Misguided]]], ['a misspelt guard', [['/x', Misspelt]]],
    ['the second', [['/x', Fine], ['/y', null]]]
  ]
  for (const [name, classViews] of wrong) {
    for (const authMode of [true, false]) {
      await t.rejects(build(t, { authMode, classViews: mistyped(classViews) }), InvalidClassViews, name)
    }
  }
})

// Promise: specification/class-view-cannot
t.test('a view on the path of a default endpoint is refused, and welcome where the endpoint is not', async (t) => {
  const taken: [path: string, options?: Partial<TokenAuthOptions>][] = [
    ['/'], ['/verify'], ['/verify/'], ['/me'], ['/refresh'], ['/who', { pathToRetrieveUser: '/who' }], ['/in', { pathToAuthenticate: '/in/' }]
  ]
  for (const [path, options] of taken) {
    const classViews: ClassView[] = [[path, Fine]]
    await t.rejects(build(t, { ...options, classViews }), { name: 'InvalidClassViews', message: /default endpoint/ }, path)
    const app = await build(t, { ...options, classViews, authMode: false })
    assert.equal((await app.inject(path === '/' ? '/auth' : `/auth${path}`)).body, 'fine', path)
  }
  const app = await build(t, { pathToRetrieveUser: '/who', classViews: [['/me', Fine]] })
  t.equal((await app.inject('/auth/me')).body, 'fine')
  for (const path of ['/logout', '/sessions', '/sessions/:id']) {
    const classViews: ClassView[] = [[path, Fine]]
    await t.rejects(build(t, { sessions: {}, classViews }), { name: 'InvalidClassViews', message: /default endpoint/ }, path)
    const without = await build(t, { classViews })
    assert.equal((await without.inject(`/auth${path}`)).body, 'fine', path)
  }
})

t.test('a method whose guards are false is open, and the others keep theirs', async (t) => {
  class Partly extends View {
    override readonly guards = { get: this.instance.protect(), post: false as const }
    override get () { return 'reached' }
    override post () { return 'reached' }
  }
  const app = await build(t, { requireGuards: true, classViews: [['/partly', Partly]] })
  t.equal((await app.inject('/auth/partly')).statusCode, 401)
  t.equal((await app.inject({ url: '/auth/partly', headers })).body, 'reached')
  t.equal((await app.inject({ method: 'POST', url: '/auth/partly' })).body, 'reached')
  for (const entry of [true, null, 0, '', [false], undefined]) {
    class Wrong extends View {
      override readonly guards = mistyped<View['guards']>({ get: entry })
      override get () { return 'reached' }
    }
    await t.rejects(build(t, { classViews: [['/wrong', Wrong]] }), { name: 'InvalidClassViews' }, String(entry))
  }
})

t.test('what injectUser returns can be a method of a view', async (t) => {
  class Injected extends View {
    override get = this.instance.injectUser(async (_request, _reply, user) => ({ user }))
  }
  const app = await build(t, { classViews: [['/injected', Injected]] })
  t.same((await app.inject('/auth/injected')).json(), { user: null })
  t.match((await app.inject({ url: '/auth/injected', headers })).json(), { user: { user_id: Number } })
})

t.test('a view that sends its answer itself, by a stream or through slow hooks, is answered with what it sends', async (t) => {
  class Sending extends View {
    override get (_request: FastifyRequest, reply: FastifyReply) { reply.code(403).send({ no: 1 }) }
    override async post (_request: FastifyRequest, reply: FastifyReply) { reply.redirect('/elsewhere') }
    override put (_request: FastifyRequest, reply: FastifyReply) { reply.code(429).send(Readable.from(['slow down'])) }
    override async delete (_request: FastifyRequest, reply: FastifyReply) { return reply.code(409).send('conflict') }
    override options (_request: FastifyRequest, reply: FastifyReply) { reply.hijack().raw.end('by itself') }
    override patch () {}
  }
  for (const isSlow of [false, true]) {
    const app = host(t)
    if (isSlow) app.addHook('onSend', async (_request, _reply, payload) => { await nextTurn(); await nextTurn(); return payload })
    await app.register(tokenAuth, { secret, authMode: false, classViews: [['/sending', Sending]] })
    const answers: Array<[typeof methods[number], number, string]> = [
      ['GET', 403, '{"no":1}'], ['POST', 302, ''], ['PUT', 429, 'slow down'], ['DELETE', 409, 'conflict'], ['OPTIONS', 200, 'by itself'], ['PATCH', 204, '']
    ]
    for (const [method, status, body] of answers) {
      const response = await app.inject({ method, url: '/auth/sending' })
      assert.deepEqual([response.statusCode, response.body], [status, body], `${method}, ${isSlow ? 'slow' : 'no'} hook`)
    }
  }
})

// Promise: security/large-uploads-without
t.test('a guarded view reads nothing of a body before its guard has let the request pass', async (t) => {
  class Rooms extends View {
    override guards = { post: this.instance.protect() }
    override schemas = { post: { body: { type: 'object', required: ['internal'] } } }
    override post () { return 'reached' }
  }
  const app = await build(t, { classViews: [['/rooms', Rooms]] })
  for (const payload of ['{}', '{', '"x"', `{"a":"${'x'.repeat(2_000_000)}"}`]) {
    const json = { 'content-type': 'application/json' }
    assert.equal((await app.inject({ method: 'POST', url: '/auth/rooms', payload, headers: json })).statusCode, 401, payload)
    assert.match(String((await app.inject({ method: 'POST', url: '/auth/rooms', payload, headers: { ...json, ...headers } })).statusCode), /400|413/, payload)
  }
})

t.test('a view may have schemas for its methods, which the application\'s compilers take', async (t) => {
  class Rooms extends View {
    override schemas: View['schemas'] = {
      post: {
        body: { type: 'object', properties: { seats: { type: 'integer', minimum: 1 } }, required: ['seats'] },
        response: { 200: { type: 'object', properties: { seats: { type: 'integer' } } } }
      }
    }

    override async post ({ body }: FastifyRequest) { return { ...Object(body), secret: true } }
    override async put ({ body }: FastifyRequest) { return body }
  }
  const app = await build(t, { classViews: [['/rooms', Rooms]] })
  for (const url of ['/auth/rooms', '/auth/rooms/']) {
    const good = await app.inject({ method: 'POST', url, payload: { seats: '2' } })
    assert.deepEqual(good.json(), { seats: 2 }, 'coerced, and nothing shown that the schema does not name')
    const bad = await app.inject({ method: 'POST', url, payload: { seats: 0 } })
    assert.equal(bad.statusCode, 400, url)
    t.match(bad.json(), { code: 'FST_ERR_VALIDATION', message: 'body/seats must be >= 1' })
    assert.deepEqual((await app.inject({ method: 'PUT', url, payload: { seats: 0 } })).json(), { seats: 0 }, url)
  }
})

t.test('schemas of a view that mean nothing are refused at registration', async (t) => {
  const withSchemas = (schemas: unknown) => class Given extends View {
    override schemas = mistyped<View['schemas']>(schemas)
    override async get () { return 'reached' }
  }
  class Static extends View { static schemas = {}; override async get () { return 'reached' } }
  for (const view of [Static, ...[null, 1, { get: null }, { get: [] }, { get: undefined }, { post: {} }].map(withSchemas)]) {
    await t.rejects(build(t, { classViews: [['/v', view]] }), { name: 'InvalidClassViews', message: /schemas/ })
  }
})

t.test('guards of a view that would be dropped without a word are refused at registration', async (t) => {
  const open = async () => 'reached'
  class Accessor extends View { override async get () { return open() } }
  Object.defineProperty(Accessor.prototype, 'guards', { get (this: View) { return { get: this.instance.protect() } } })
  class Static extends View { static guards = {}; override async get () { return open() } }
  class Inherited extends Static {}
  const withGuards = (guards: unknown) => class Given extends View {
    override guards = mistyped<View['guards']>(guards)
    override async get () { return open() }
  }
  const views = [Accessor, Static, Inherited, ...[{ get: undefined }, { get: [] }, { get: [1] }, { get: true }, null, 1].map(withGuards)]
  for (const view of views) {
    await t.rejects(build(t, { classViews: [['/v', view]] }), { name: 'InvalidClassViews', message: /^"guards" of the view/ })
  }
})
