/** Test runners such as Jest run an application in a context of its own, where what Node.js returns is of another realm. */
import assert from 'node:assert/strict'
import { runInNewContext } from 'node:vm'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import tokenAuth, { Responses } from '../../lib/index.ts'
import { authenticate, bearer, claims, forge, host, login, mistyped, secret } from '../helper.ts'

/** A promise as Node.js returns it to code of another context. */
const foreign = <Value>(value: Value): Promise<Value> => runInNewContext('Promise.resolve(value)', { value })
const rejected = mistyped<() => never>(() => runInNewContext("Promise.reject(new Error('foreign'))"))
const unhandled: unknown[] = []
process.on('unhandledRejection', (reason) => unhandled.push(reason))
t.teardown(() => t.same(unhandled, [], 'no rejection without a handler'))

t.test('promises of another realm are waited for: keys, trusted, exceptionResponse', async (t) => {
  t.notOk(foreign(1) instanceof Promise)
  const app = host(t)
  let trusts: unknown = true
  await app.register(tokenAuth, {
    authenticate,
    getSecret: () => foreign(secret),
    trusted: () => foreign(mistyped<boolean>(trusts)),
    responsesClass: class extends Responses {
      override exceptionResponse () { return foreign({ no: 'entry' }) }
    }
  })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async (request) => request.tokenAuth.userId)
  t.equal((await login(app)).statusCode, 200)
  t.equal((await app.inject({ url: '/', headers: bearer(forge(claims())) })).statusCode, 200)
  for (trusts of [false, 1, undefined]) {
    const refused = await app.inject({ url: '/', headers: bearer(forge(claims())) })
    assert.deepEqual([refused.statusCode, refused.json()], [401, { no: 'entry' }], String(trusts))
  }
})

t.test('a promise of another realm is no `true`, and its rejection does not end the process', async (t) => {
  const app = host(t)
  await app.register(tokenAuth, {
    secret,
    authenticate,
    getLeeway: rejected
  })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'in')
  t.equal((await app.inject({ url: '/', headers: bearer(forge(claims())) })).statusCode, 500)
  const others = host(t)
  await others.register(tokenAuth, { secret, authenticate, extraVerifications: [rejected] })
  others.get('/', { onRequest: others.tokenAuth.protect() }, async () => 'in')
  t.equal((await others.inject({ url: '/', headers: bearer(forge(claims())) })).statusCode, 401)
  const scopes = host(t)
  await scopes.register(tokenAuth, { secret, authenticate, overrideScopeValidator: rejected })
  scopes.get('/', { onRequest: scopes.tokenAuth.scoped('read') }, async () => 'in')
  t.equal((await scopes.inject({ url: '/', headers: bearer(forge(claims({ scopes: ['read'] }))) })).statusCode, 403)
  await turn()
})

t.test('the rejection of a promise whose class has its own `catch` does not end the process', async (t) => {
  class Lazy extends Promise<never> {
    override catch (): this { return this }
  }
  const app = host(t)
  await app.register(tokenAuth, { secret, authenticate, extraVerifications: [mistyped<() => boolean>(() => Lazy.reject(new Error('lazy')))] })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'in')
  t.equal((await app.inject({ url: '/', headers: bearer(forge(claims())) })).statusCode, 401)
  await turn()
})
