/**
 * Login with a password. Passwords are stored as scrypt hashes, and login attempts are limited.
 *
 *   node examples/password.js
 */
import { randomBytes, scrypt as scryptCallback, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import rateLimit from '@fastify/rate-limit'
import Fastify from 'fastify'
import tokenAuth, { AuthenticationFailed } from 'fastify-token-auth'
import { loginLine, start, tokenLine } from './shared.js'

const scrypt = promisify(scryptCallback)
/** One of the scrypt configurations in OWASP's Password Storage Cheat Sheet. It needs 16 MiB of memory. */
const cost = { N: 2 ** 14, r: 8, p: 5 }
const hashLength = 32

/** Hashes a password for storage. */
export async function hashPassword (password) {
  const salt = randomBytes(16)
  return { salt, hash: await scrypt(password, salt, hashLength, cost) }
}

async function isPassword (password, { salt, hash }) {
  return typeof password === 'string' && timingSafeEqual(hash, await scrypt(password, salt, hashLength, cost))
}

/** Compared with if there is no such user, so that an unknown name takes as long as a wrong password. */
const nobody = await hashPassword(randomBytes(32).toString('hex'))

/** Finds the user by name and password. Both mistakes give the same response, so that clients cannot find out names. */
export async function logIn (users, { username, password }) {
  const user = users.find(({ name }) => name === username)
  const isRight = await isPassword(password, user?.password ?? nobody)
  if (user === undefined || !isRight) throw new AuthenticationFailed('Wrong name or password.')
  return user
}

/**
 * Limits the login attempts of each client address. Call it before the plugin is registered, so that it sees the routes of
 * the plugin. Behind a proxy, set Fastify's `trustProxy`: otherwise all clients have the address of the proxy. The recipe in
 * docs/recipes/rate-limits.md also limits them by name, and counts in Redis for several processes.
 * @param paths all routes that take passwords. They share one limit. If one is missing, the application does not start
 */
export async function limitLogins (app, max = 5, paths = ['/auth', '/auth/']) {
  await app.register(rateLimit, { global: false })
  const limit = app.rateLimit({ max, timeWindow: '1 minute' })
  const missing = new Set(paths)
  app.addHook('onRoute', (route) => {
    if (route.method !== 'POST' || !paths.includes(route.url)) return
    missing.delete(route.url)
    route.onRequest = [route.onRequest ?? [], limit].flat()
  })
  app.addHook('onReady', async () => {
    if (missing.size > 0) throw new Error(`There are no routes to limit: POST ${[...missing].join(', POST ')}. Give limitLogins the paths of the logins.`)
  })
}

export async function createService (options = {}) {
  const users = [{ user_id: 1, name: 'ada', password: await hashPassword('lovelace') }]
  const app = Fastify(options.fastify)
  await limitLogins(app)
  await app.register(tokenAuth, {
    secret: process.env.SERVICE_JWT_SECRET ?? randomBytes(32),
    authenticate: (request) => logIn(users, request.body)
  })
  app.get('/private', { onRequest: app.tokenAuth.protect() }, async (request) => ({ userId: request.tokenAuth.userId }))
  return app
}

await start(import.meta.filename, createService, (address) => `${loginLine(`${address}/auth`, { username: 'ada', password: 'lovelace' })}
${tokenLine(`${address}/private`)}`)
