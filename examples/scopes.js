/**
 * Scopes that tokens have, and scopes that routes require.
 *
 *   node examples/scopes.js
 */
import { randomBytes } from 'node:crypto'
import Fastify from 'fastify'
import tokenAuth from 'fastify-token-auth'
import { loginLine, passwordLogin, start, tokenLine } from './shared.js'

const users = [
  { user_id: 1, name: 'ada', password: 'lovelace', scopes: ['project'] },
  { user_id: 2, name: 'grace', password: 'hopper', scopes: ['project:read', 'project-7:read:write'] },
  { user_id: 3, name: 'joan', password: 'clarke', scopes: ['audit'] }
]

export async function createService ({ fastify } = {}) {
  const app = Fastify(fastify)
  await app.register(tokenAuth, {
    secret: randomBytes(32),
    scopesEnabled: true,
    authenticate: passwordLogin(users),
    addScopesToPayload: (user) => user.scopes
  })
  const { tokenAuth: auth } = app
  const answer = async (request) => ({ userId: request.tokenAuth.userId, scopes: request.tokenAuth.scopes })

  // The scope `project`, which has no actions, satisfies both routes.
  app.get('/projects', { onRequest: auth.scoped('project:read') }, answer)
  app.delete('/projects', { onRequest: auth.scoped('project:read:delete') }, answer)
  // Requires any one of the scopes.
  app.get('/log', { onRequest: auth.scoped(['project:read', 'audit'], { requireAll: false }) }, answer)
  // Computes a scope from the request. This guard is a `preHandler`, because the schema validates the number before it.
  app.put('/projects/:number', {
    schema: { params: { type: 'object', properties: { number: { type: 'integer' } } } },
    preHandler: auth.scoped((request) => ['project:write', `project-${request.params.number}:write`], { requireAll: false })
  }, answer)
  return app
}

await start(import.meta.filename, createService, (address) => `${loginLine(`${address}/auth`, { username: 'grace', password: 'hopper' })}
${tokenLine(`${address}/projects`)}
${tokenLine(`${address}/projects/7`, ' -X PUT')}
${tokenLine(`${address}/projects/8`, ' -X PUT')}`)
