/** Two copies of the package in one application, as package managers install them for the parts of a monorepo. test/outside/package.test.ts has real ones. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { adviceOnCopies } from '../lib/copies.ts'
import tokenAuth, { Authentication, injectUser, InvalidToken, protect, View } from '../lib/index.ts'
import { authenticate, build, caseOf, environment, host, mistyped, secret, warnings } from './helper.ts'

/** What another copy has made. */
const foreign = <Value extends object>(value: Value): Value => Object.defineProperty(value, Symbol.for('fastify-token-auth'), { value: { folder: '/srv/orders/node_modules/fastify-token-auth' } })
const advice = /Another copy of this package, in \/srv\/orders\/node_modules\/fastify-token-auth, created guards, instances or classes that this copy, in \/.+, does not recognize\. Install only one of them, for example with npm dedupe\./
const foreignGuard = () => foreign(async () => { throw new InvalidToken() })

t.test('a free-standing guard whose instance is of another copy refuses, and says where that copy is', async (t) => {
  for (const options of [{ onRequest: protect() }, { handler: injectUser(async () => 'in') }]) {
    const app = host(t)
    app.decorate('tokenAuth', mistyped<typeof app.tokenAuth>(foreign({})))
    app.get('/', { handler: async () => 'in', ...options })
    const response = await app.inject('/')
    t.equal(response.statusCode, 500)
    t.match(response.json(), { exception: 'InitializationFailure', reasons: advice })
    t.notMatch(response.json().reasons, 'Register the plugin')
    await app.close()
  }
})

t.test('in production, clients do not read of the folders', async (t) => {
  environment(t, 'production')
  const app = host(t)
  app.decorate('tokenAuth', mistyped<typeof app.tokenAuth>(foreign({})))
  app.get('/', { onRequest: protect() }, async () => 'in')
  const response = await app.inject('/')
  t.equal(response.statusCode, 500)
  t.notMatch(response.body, 'srv')
})

t.test('requireGuards, and its warning in production, say that guards are of another copy', async (t) => {
  for (const options of [{ onRequest: foreignGuard() }, { preHandler: [foreignGuard()] }, { handler: foreign(async () => 'in') }]) {
    const app = await build(t, { requireGuards: true })
    app.get('/', { handler: async () => 'in', ...options })
    await t.rejects(async () => await app.ready(), { finding: 'TOKEN_AUTH_E20', message: advice }, caseOf(options))
  }
  environment(t, 'production')
  warnings(t, 'W26')
  const told: string[] = []
  const listener = ({ message }: Error) => { told.push(message) }
  process.on('warning', listener)
  t.teardown(() => process.off('warning', listener))
  const warned = await build(t)
  warned.get('/', { onRequest: foreignGuard() }, async () => 'in')
  await warned.ready()
  await turn()
  t.equal(told.length, 1)
  t.match(told[0], advice)
  const hooked = await build(t, { requireGuards: true })
  hooked.addHook('onRequest', foreignGuard())
  hooked.get('/', async () => 'in')
  await t.rejects(async () => await hooked.ready(), { finding: 'TOKEN_AUTH_E20', message: advice })
})

t.test('an instance and classes of another copy are refused at registration with its folder', async (t) => {
  const app = host(t)
  app.decorate('tokenAuth', mistyped<typeof app.tokenAuth>(foreign({})))
  await t.rejects(async () => await app.register(tokenAuth, { secret, authenticate }), { message: advice })
  class ForeignBase {}
  foreign(ForeignBase)
  class Own extends ForeignBase {}
  await t.rejects(async () => await host(t).register(tokenAuth, { secret, authenticationClass: mistyped<typeof Authentication>(Own) }), { message: advice })
  await t.rejects(async () => await host(t).register(tokenAuth, { secret, authenticate, classViews: [['/x', mistyped<typeof View>(Own)]] }), { message: advice })
})

t.test('what this copy has made is not taken for that of another', async (t) => {
  const app = await build(t, { requireGuards: true })
  app.get('/open', async () => 'in')
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'in')
  await t.rejects(async () => await app.ready(), { message: /^(?!.*another copy)/s })
  await t.rejects(async () => await host(t).register(tokenAuth, { secret, authenticationClass: mistyped<typeof Authentication>(View) }), { message: /^(?!.*another copy)/s })
  t.ok(Reflect.get(View, Symbol.for('fastify-token-auth')))
  t.equal(adviceOnCopies([View, app.tokenAuth]), '')
  t.match(adviceOnCopies([View, foreign({})]), advice, 'the other one is named, also after an own one')
})
