/** The gate of a route, with guards that are functions. */
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import t from 'tap'
import { makeGate, PassedRequests, type CallbackHook, type EnforcedGuard } from '../../lib/wrapped/gate.ts'

/** Sends one request through a gate. Returns the guards that it asked, and the answer. */
async function pass (names: readonly string[], before: readonly string[], guard: (name: string) => CallbackHook) {
  const asked: string[] = []
  const passed = new Map(names.map((name) => [name, new PassedRequests()]))
  const guards = names.map((name): EnforcedGuard => ({
    hook: (request, reply, done) => { asked.push(name); guard(name)(request, reply, done) },
    hasPassed: passed.get(name)!.watch()
  }))
  const app = Fastify()
  app.get('/', {
    onRequest: [
      async (request: FastifyRequest, _reply: FastifyReply) => { for (const name of before) passed.get(name)!.note(request) },
      makeGate(guards)
    ]
  }, async () => 'reached')
  const { statusCode, body } = await app.inject('/')
  await app.close()
  return { asked, statusCode, body }
}

const letsPass: CallbackHook = (_request, _reply, done) => { done() }

t.test('a gate asks the guards that have not let a request pass, in their order, and no other', async (t) => {
  t.match(await pass(['a', 'b', 'c'], ['b'], () => letsPass), { asked: ['a', 'c'], body: 'reached' })
  t.match(await pass(['a', 'b'], ['a', 'b'], () => letsPass), { asked: [], body: 'reached' })
})

t.test('a guard that fails or answers closes the gate, and no later guard is asked', async (t) => {
  t.match(await pass(['a', 'b'], [], () => (_request, _reply, done) => { done(new Error('It failed.')) }), { asked: ['a'], statusCode: 500 })
  t.match(await pass(['a', 'b'], [], () => (_request, reply) => { reply.code(401).send('refused') }), { asked: ['a'], statusCode: 401, body: 'refused' })
})
