/**
 * TypeScript: users, user ids and claims are declared once, and then typed everywhere. Node.js 22.18 and later run this file directly.
 *
 *   node examples/typed.ts
 */
import { randomBytes } from 'node:crypto'
import Fastify, { type FastifyInstance } from 'fastify'
import tokenAuth, { AuthenticationFailed } from 'fastify-token-auth'

interface Customer {
  user_id: number
  name: string
  plan: 'free' | 'paid'
}

declare module 'fastify-token-auth' {
  interface TokenAuthInstances {
    tokenAuth: { user: Customer, userId: Customer['user_id'], claims: { plan: Customer['plan'] } }
  }
}

const customers: ReadonlyArray<Customer & { password: string }> = [
  { user_id: 1, name: 'ada', password: 'lovelace', plan: 'paid' },
  { user_id: 2, name: 'grace', password: 'hopper', plan: 'free' }
]

export async function createService (): Promise<FastifyInstance> {
  const app = Fastify()
  await app.register(tokenAuth, {
    secret: randomBytes(32),
    authenticate (request) {
      // The body comes from the client, so check the types of its properties.
      const { username, password } = request.body as Record<string, unknown>
      const customer = customers.find((candidate) => candidate.name === username && candidate.password === password)
      if (customer === undefined) throw new AuthenticationFailed()
      return customer
    },
    retrieveUser: (_request, payload) => customers.find(({ user_id: id }) => id === payload.user_id),
    // `user` is a Customer. The added claims must match the declaration.
    extendPayload: (payload, user) => ({ ...payload, plan: user.plan })
  })

  app.get('/hello', app.tokenAuth.injectUser(async (_request, _reply, user) => ({ hello: user?.name ?? 'stranger' })))
  app.get('/plan', { onRequest: app.tokenAuth.protect() }, async (request) => {
    // In a route with a guard, `verified` has what the guard has made sure of. `userId` is a number here.
    const { userId, payload } = request.tokenAuth.verified
    const user: Customer['user_id'] = userId
    return { user, plan: payload.plan }
  })
  return app
}

if (process.argv[1] === import.meta.filename) {
  const app = await createService()
  console.log(await app.listen({ port: Number(process.env.PORT ?? 3000), host: '127.0.0.1' }))
}
