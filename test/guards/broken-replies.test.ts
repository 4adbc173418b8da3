/** Guards on hosts whose replies throw: because a hook has sent the head already, or because something has wrapped them. */
import t from 'tap'
import { InvalidToken, type TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, claims, exchange, forge, listen, mistyped, unhandled, warnings } from '../helper.ts'

const kinds: Record<string, Partial<TokenAuthOptions>> = { synchronous: {}, asynchronous: { trusted: async () => true } }

t.test('a guard whose reply has been sent in part does not end the process, and does not reach the handler', async (t) => {
  const reasons = unhandled(t)
  warnings(t, 'W05')
  for (const [kind, options] of Object.entries(kinds)) {
    const app = await build(t, { ...options, queryStringSet: true }, { logger: false })
    let reached = 0
    app.addHook('onRequest', async (_request, reply) => {
      reply.raw.setHeader('cdn-cache-control', 'no-store')
      reply.raw.flushHeaders()
    })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => { reached++ })
    const port = await listen(app)
    await exchange(port, `GET /?access_token=${forge(claims())} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
    t.equal(reached, 0, kind)
  }
  t.same(reasons, [])
})

t.test('a reply that throws, with whatever value, lets no request pass a guard, and answers it with an error', async (t) => {
  const reasons = unhandled(t)
  for (const [kind, options] of Object.entries(kinds)) {
    for (const thrown of [undefined, null, 0, '', new Error('broken')]) {
      for (const times of [1, 2]) {
        const app = await build(t, options)
        let reached = 0
        app.addHook('onRequest', (_request, reply, done) => {
          const { send } = reply
          let count = 0
          reply.send = function (payload) {
            if (count++ < times) throw thrown
            return send.call(this, payload)
          }
          done()
        })
        app.get('/', { onRequest: app.tokenAuth.protect() }, async () => { reached++ })
        const { statusCode } = await app.inject('/')
        t.ok(statusCode >= 400, `${kind} ${thrown} ${times} ${statusCode}`)
        t.equal(reached, 0)
      }
    }
    const app = await build(t, options)
    app.addHook('onRequest', (_request, reply, done) => {
      reply.hasHeader = () => { throw new Error('broken') }
      done()
    })
    let reached = 0
    app.get('/page', { onRequest: app.tokenAuth.protect({ redirectOnFail: true }) }, async () => { reached++ })
    t.equal((await app.inject({ url: '/page', headers: bearer(forge(claims())) })).statusCode, 500, kind)
    t.equal(reached, 0)
  }
  t.same(reasons, [])
})

t.test('an error that the application throws for each request has headers of its own for each of them', async (t) => {
  const shared = new InvalidToken()
  const app = await build(t, { trusted: () => { throw shared }, onRefusal: 'throw' })
  app.setErrorHandler((error: { headers: Record<string, string> }, request, reply) => {
    if (request.url === '/first') error.headers['x-user'] = 'ada'
    return reply.code(401).headers(error.headers).send('refused')
  })
  for (const url of ['/first', '/second']) app.get(url, { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  const answers = [await app.inject({ url: '/first', headers: bearer(forge(claims())) }), await app.inject({ url: '/second', headers: bearer(forge(claims())) })]
  t.same(answers.map(({ headers }) => headers['x-user']), ['ada', undefined])
  t.same(shared.headers, new InvalidToken().headers)
})

t.test('a redirect has the same reason, whether the guard is a hook or awaited', async (t) => {
  const app = await build(t, { loginRedirectUrl: '/login?reason={reason}', cookieSet: true })
  const guard = app.tokenAuth.protect({ redirectOnFail: true })
  app.get('/hook', { onRequest: guard }, async () => 'reached')
  app.get('/awaited', { onRequest: async (request, reply) => { await guard(request, reply) } }, async () => 'reached')
  for (const url of ['/hook', '/awaited']) t.equal((await app.inject(url)).headers.location, '/login?reason=absent', url)
})

t.test('what Object.prototype has is no handler', async (t) => {
  const polluted: Record<string, unknown> = mistyped(Object.prototype)
  polluted.overrideScopeValidator = () => true
  t.teardown(() => { delete polluted.overrideScopeValidator })
  const app = await build(t)
  app.get('/', { onRequest: app.tokenAuth.scoped('admin') }, async () => 'reached')
  t.equal((await app.inject({ url: '/', headers: bearer(forge(claims({ scopes: ['user'] }))) })).statusCode, 403)
})
