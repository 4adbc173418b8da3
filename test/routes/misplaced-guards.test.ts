import type { FastifyInstance, onRequestHookHandler, onResponseHookHandler, RouteShorthandOptions } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { injectUser, protect, scoped } from '../../lib/index.ts'
import { bearer, build, claims, forge, host, mistyped, otherSecret, secret } from '../helper.ts'

const handler = async () => 'reached'
/** The finding of a misplaced guard. */
const finding = 'TOKEN_AUTH_E22'
const options = (given: Record<string, unknown>) => mistyped<RouteShorthandOptions>(given)

/** The message with which an application does not start; undefined for one that does. */
async function startOf (app: FastifyInstance): Promise<unknown> {
  try {
    await app.ready()
    return undefined
  } catch (error) {
    return error
  }
}

async function declared (t: Test, name: string, guard: unknown): Promise<unknown> {
  const app = await build(t)
  app.get('/reports', options({ [name]: guard === undefined ? app.tokenAuth.protect() : guard }), handler)
  return await startOf(app)
}

// Promise: security/guard-under-route
t.test('a guard under an option where it does not guard keeps the application from starting', async (t) => {
  for (const name of ['prehandler', 'preHandlers', 'beforeHandler', 'guards', 'hooks', 'onrequest', 'onResponse', 'onTimeout', 'onSend', 'preSerialization', 'preParsing', 'onError', 'config']) {
    for (const guard of [undefined, [protect()], protect(), scoped('a'), [async () => {}, protect()], injectUser(handler)]) {
      t.match(await declared(t, name, guard), {
        name: 'InvalidConfiguration',
        finding,
        message: `The route GET /reports has a guard as "${name}", where it does not guard. `
      }, name)
    }
  }
})

// Promise: security/guard-under-route
t.test('a guard where it guards starts, alone and beside other options', async (t) => {
  const app = await build(t)
  const guard = app.tokenAuth.protect()
  app.get('/a', { onRequest: guard }, handler)
  app.get('/b', { preValidation: [guard] }, handler)
  app.get('/c', { preHandler: [async () => {}, guard], config: {} }, handler)
  app.get('/d', app.tokenAuth.injectUser(handler))
  app.get('/e', options({ preHandler: guard, onResponse: async () => {}, guards: [] }), handler)
  app.route({ method: ['GET', 'POST'], url: '/f', onRequest: guard, handler })
  t.equal(await startOf(app), undefined)
})

t.test('a guard that a hook of the host moves to where it guards is no mistake, and one that it only repeats is none either', async (t) => {
  const moved = await build(t)
  moved.addHook('onRoute', (route) => {
    const given: unknown = Reflect.get(route, 'guard')
    if (given !== undefined) route.onRequest = mistyped(given)
  })
  moved.get('/', options({ guard: moved.tokenAuth.protect() }), handler)
  t.equal(await startOf(moved), undefined)
  t.equal((await moved.inject('/')).statusCode, 401)

  const wrapped = await build(t)
  const guard = wrapped.tokenAuth.protect()
  wrapped.addHook('onRoute', (route) => { route.onRequest = mistyped(async () => {}) })
  wrapped.get('/', options({ onRequest: guard, guards: [guard] }), handler)
  t.equal(await startOf(wrapped), undefined, 'wrapped later by another plugin')

  const context = await build(t)
  const everywhere = context.tokenAuth.protect()
  await context.register(async (nested) => {
    nested.get('/', options({ guards: [everywhere] }), handler)
    nested.addHook('onRequest', everywhere)
  })
  t.equal(await startOf(context), undefined, 'a hook of the whole context')
  t.equal((await context.inject({ url: '/', headers: bearer(forge(claims())) })).body, 'reached')
})

t.test('every method and every nested instance is watched, and the first mistake is named', async (t) => {
  const app = await build(t)
  await app.register(async (nested) => {
    await nested.register(tokenAuth, { instanceName: 'staff', authMode: false, secret: otherSecret })
    nested.route({ method: ['PUT', 'PATCH'], url: '/nested', handler, ...options({ guards: Reflect.get(nested, 'staff').protect() }) })
    nested.get('/second', options({ guards: protect() }), handler)
  })
  t.match(await startOf(app), { message: /^The route PUT,PATCH \/nested has a guard as "guards"/ })

  const inner = host(t)
  await inner.register(async (nested) => {
    await nested.register(tokenAuth, { authMode: false, secret })
    nested.get('/', options({ guards: nested.tokenAuth.protect() }), handler)
  })
  await inner.register(tokenAuth, { instanceName: 'staff', authMode: false, secret })
  t.match(await startOf(inner), { finding })
})

t.test('a guard that a hook of the host gives under a wrong option is found, also if the hook was added before the plugin', async (t) => {
  const app = host(t)
  app.addHook('onRoute', (route) => { Object.assign(route, { prehandler: protect() }) })
  await app.register(tokenAuth, { secret, authMode: false })
  app.get('/', handler)
  t.match(await startOf(app), { finding, message: /^The route GET \/ has a guard as "prehandler"/ })
})

t.test('a guard in lists of lists or under a symbol is found', async (t) => {
  for (const given of [{ prehandler: [[protect()]] }, { [Symbol('guards')]: protect() }]) {
    const app = await build(t)
    app.get('/', mistyped<RouteShorthandOptions>(given), handler)
    t.match(await startOf(app), { finding })
  }
})

// Promise: security/guard-under-route
t.test('a guard among the hooks of a context in which it does not guard keeps the application from starting', async (t) => {
  for (const name of ['onResponse', 'onSend', 'preSerialization', 'preParsing', 'onError', 'onTimeout', 'onRequestAbort']) {
    for (const isNested of [false, true]) {
      const app = await build(t)
      const guard = app.tokenAuth.protect()
      const declare = async (context: FastifyInstance) => {
        context.addHook(mistyped<'onResponse'>(name), mistyped<onResponseHookHandler>(guard))
        context.get('/own', handler)
      }
      if (isNested) await app.register(declare)
      else await declare(app)
      t.match(await startOf(app), { finding, message: `A context has a guard as the hook "${name}", where it does not guard. Pass it as onRequest, preValidation or preHandler. See ` })
    }
  }
  const both = await build(t)
  const guard = both.tokenAuth.protect()
  await both.register(async (context) => {
    context.addHook('onRequest', guard)
    context.addHook('onResponse', mistyped<onResponseHookHandler>(guard))
    context.get('/own', handler)
  })
  t.equal(await startOf(both), undefined, 'beside a guarding hook it is only superfluous')
})

// Promise: security/guard-under-route
t.test('what injectUser returns is a handler: as a hook it keeps the application from starting', async (t) => {
  for (const name of ['onRequest', 'preHandler', 'onResponse']) {
    for (const injected of [(app: FastifyInstance) => app.tokenAuth.injectUser(handler), () => injectUser(handler)]) {
      const app = await build(t)
      app.get('/', options({ [name]: injected(app) }), handler)
      t.match(await startOf(app), { finding, message: /injectUser\(\) returns a route handler: pass it as the handler\./ })
    }
  }
  const context = await build(t)
  context.addHook('onRequest', mistyped<onRequestHookHandler>(injectUser(handler)))
  context.get('/', handler)
  t.match(await startOf(context), { finding, message: /^A context has a guard as the hook "onRequest".*route handler/ })
})
