/**
 * Log in with a password: stored as what scrypt makes of it, and with few tries a minute.
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
/** What OWASP's Password Storage Cheat Sheet asks of scrypt with little memory. */
const cost = { N: 2 ** 14, r: 8, p: 5 }
const hashLength = 32

/** What is stored instead of a password. */
export async function hashPassword (password) {
  const salt = randomBytes(16)
  return { salt, hash: await scrypt(password, salt, hashLength, cost) }
}

async function isPassword (password, { salt, hash }) {
  return typeof password === 'string' && timingSafeEqual(hash, await scrypt(password, salt, hashLength, cost))
}

/** Compared with where there is no user: an unknown name costs as much time as a wrong password. */
const nobody = await hashPassword(randomBytes(32).toString('hex'))

/** The user whose name and password were sent. Both mistakes get one answer: names cannot be found out. */
export async function logIn (users, { username, password }) {
  const user = users.find(({ name }) => name === username)
  const isRight = await isPassword(password, user?.password ?? nobody)
  if (user === undefined || !isRight) throw new AuthenticationFailed('Wrong name or password.')
  return user
}

/**
 * Lets each address try a few passwords a minute; to be called before the plugin is registered, whose routes it looks at.
 * Behind a proxy, set Fastify's `trustProxy`: without it, all clients have the address of the proxy.
 */
export async function limitLogins (app, max = 5) {
  await app.register(rateLimit, { global: false })
  // One limit for the endpoint with and without a slash at the end.
  const limit = app.rateLimit({ max, timeWindow: '1 minute' })
  app.addHook('onRoute', (route) => {
    if (route.method === 'POST' && /^\/auth\/?$/.test(route.url)) route.onRequest = [route.onRequest ?? [], limit].flat()
  })
}

export async function createService (options = {}) {
  const users = [{ user_id: 1, name: 'ada', password: await hashPassword('lovelace') }]
  const app = Fastify(options.fastify)
  await limitLogins(app)
  await app.register(tokenAuth, {
    secret: process.env.JWT_SECRET ?? randomBytes(32),
    authenticate: (request) => logIn(users, request.body)
  })
  app.get('/private', { onRequest: app.tokenAuth.protect() }, async (request) => ({ userId: request.tokenAuth.userId }))
  return app
}

await start(import.meta.filename, createService, (address) => `${loginLine(`${address}/auth`, { username: 'ada', password: 'lovelace' })}
${tokenLine(`${address}/private`)}`)
