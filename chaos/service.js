/** The service that the chaos program tests, as the documents show it. */
import Fastify from 'fastify'

/** @param library the package @param options `{ store, secret, name, grace, poll }`, in seconds @returns the application, with a guarded route */
export async function createService ({ default: tokenAuth }, { store, secret, name, grace, poll }) {
  const app = Fastify({ forceCloseConnections: true })
  app.addHook('onRequest', async (_request, reply) => { reply.header('x-incarnation', name) })
  await app.register(tokenAuth, {
    secret,
    // Longer than a run: what ended must be refused because it ended.
    expirationDelta: 900,
    authenticate: async ({ body }) => ({ user_id: body.username }),
    retrieveUser: async (_request, payload) => ({ user_id: payload.user_id }),
    sessions: { store, poll, grace, secret: `${secret} of sessions` }
  })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => ({}))
  return app
}
