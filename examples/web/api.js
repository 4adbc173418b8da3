/** The API. Its routes read the access token from the cookie, or from the header Authorization if there is no cookie. */
import { bodyLimit, reportSchema } from './reports.js'

/**
 * Returns how many seconds the access token of a request is still valid: until `exp`, and `leeway` seconds longer for clocks
 * that differ. A page cannot read its token, which is in an httpOnly cookie, and its clock may be wrong.
 * @param auth `request.tokenAuth` of a request with a valid token
 */
export const lifeOf = ({ verified: { payload }, settings: { leeway } }) => ({ expires_in: payload.exp - Math.floor(Date.now() / 1000), leeway })

/** Returns an access token that expired in 1970, so that it is not valid either if the clock is set back. */
export const expiredToken = (tokenAuth, user) => tokenAuth.generateAccessToken(user, { extendPayload: (payload) => ({ ...payload, exp: 1 }) })

/** @param app the context of the API */
export async function addApi (app, { reports }) {
  const { tokenAuth } = app
  // Caches must not store what is for one user. Refusals, which do not get here, they do not store anyway.
  app.addHook('preHandler', async (request, reply) => { reply.header('cache-control', 'private, no-store') })
  app.get('/hello', { schema: { summary: 'Greet the user by name, or a visitor who is not logged in' } },
    tokenAuth.injectUser(async (request, reply, user) => ({ hello: user?.name ?? 'stranger', isLoggedIn: user !== null })))
  app.get('/private', { schema: { summary: 'Show the claims of the token' }, onRequest: tokenAuth.protect() },
    async (request) => request.tokenAuth.payload)
  app.get('/token', { schema: { summary: 'Say how long the access token is valid' }, onRequest: tokenAuth.protect() },
    async (request) => lifeOf(request.tokenAuth))
  app.get('/reports', { schema: { summary: 'List reports' }, onRequest: tokenAuth.scoped('reports:read') },
    async () => ({ reports: reports.list() }))
  app.post('/reports', { schema: { summary: 'Write a report', body: reportSchema }, bodyLimit, onRequest: tokenAuth.scoped('reports:write') },
    async (request, reply) => {
      const { name } = await request.tokenAuth.user()
      return reply.code(201).send(reports.add(request.body, name))
    })
}
