/**
 * A small service with pages and an API: `npm start` builds the package and runs it.
 *
 * Browsers keep the tokens in httpOnly cookies, which no script can read; other clients send them in the Authorization
 * header. Environment: PORT (3000; 0 takes any that is free), COOKIE_SECURE=false for browsers that keep no Secure
 * cookies on http://127.0.0.1 (Safari).
 */
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import fastifyCookie from '@fastify/cookie'
import fastifyStatic from '@fastify/static'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import Fastify from 'fastify'
import tokenAuth, { InsufficientScope, Responses, View } from 'fastify-token-auth'
import { hashPassword, limitLogins, logIn } from '../password.js'
import { start } from '../shared.js'
import { refuseForeignRequests } from './cross-site.js'

const folder = (name) => fileURLToPath(new URL(name, import.meta.url))
/** Everyone may see these. The pages of the other folder have a guard each. */
const publicFolder = folder('public')
const privateFolder = folder('private')
const notAllowed = readFileSync(new URL('private/not-allowed.html', import.meta.url), 'utf8')

/** Only our own scripts and styles, and no frames of other sites around our pages. */
const contentPolicy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

const users = [
  { user_id: 1, name: 'ada', scopes: ['reports'], password: await hashPassword('lovelace') },
  { user_id: 2, name: 'grace', scopes: ['reports:read'], password: await hashPassword('hopper') }
]

/** What clients may see of a user. */
const shown = ({ password, ...user }) => user

const digest = (token) => createHash('sha256').update(token).digest('base64')

/**
 * The refresh tokens of all logins, each until it is logged out; a real store also forgets those that rest for too long.
 * It keeps digests: whoever reads it has no token.
 */
class RefreshTokens {
  #owners = new Map()

  /** The token that a request brings: in the cookie, or in the body as clients without cookies send it. */
  static of ({ cookies, body }) {
    const token = cookies.refresh_token ?? body?.refresh_token
    return typeof token === 'string' ? token : undefined
  }

  store (userId, token) { this.#owners.set(digest(token), userId) }

  /** The stored token of a user. There is one for each of his devices: the one that the request brings is meant. */
  retrieve (userId, request) {
    const token = RefreshTokens.of(request)
    return token !== undefined && this.#owners.get(digest(token)) === userId ? token : undefined
  }

  forget (request) {
    const token = RefreshTokens.of(request)
    if (token !== undefined) this.#owners.delete(digest(token))
  }
}

/** Logs out: httpOnly cookies can only be cleared by the server. Nobody is asked for a valid token to do so. */
const logoutOf = (refreshTokens) => class Logout extends View {
  post (request, reply) {
    refreshTokens.forget(request)
    const { cookieAccessTokenName, cookieRefreshTokenName, cookiePath: path, cookieDomain: domain, cookieSecure: secure } = this.config
    // The browser only clears a cookie of the same name, path and domain, and a Secure one only by another.
    for (const name of [cookieAccessTokenName, cookieRefreshTokenName]) reply.clearCookie(name, { path, domain, secure })
  }
}

/** A page that a user is not allowed to see is refused with a page. */
class PageResponses extends Responses {
  exceptionResponse (request, exception, reply) {
    if (!(exception instanceof InsufficientScope)) return super.exceptionResponse(request, exception, reply)
    reply.type('text/html; charset=utf-8')
    return notAllowed
  }
}

/** The API: its routes take the token from the cookie or, where there is none, from the header. */
async function addApi (app) {
  const { tokenAuth } = app
  const reports = ['January', 'February', 'March']
  app.get('/hello', { schema: { summary: 'Greet users by name, and strangers too' } },
    tokenAuth.injectUser(async (request, reply, user) => ({ hello: user?.name ?? 'stranger', isLoggedIn: user !== null })))
  app.get('/private', { schema: { summary: 'Show the claims of the token' }, onRequest: tokenAuth.protect() },
    async (request) => request.tokenAuth.payload)
  app.get('/reports', { schema: { summary: 'List reports' }, onRequest: tokenAuth.scoped('reports:read') },
    async () => ({ reports }))
  app.post('/reports', { schema: { summary: 'Write a report' }, onRequest: tokenAuth.scoped('reports:write') },
    async (request, reply) => reply.code(201).send({ reports: [...reports, 'April'] }))
}

/** The pages. Those with a guard take the token from the cookie alone, and send strangers to the login page. */
async function addPages (app, secret) {
  await app.register(fastifyStatic, { root: publicFolder })
  // An instance that only verifies: it has the same secret, and rules of its own.
  await app.register(tokenAuth, {
    instanceName: 'pageAuth',
    authMode: false,
    secret,
    cookieSet: true,
    // The page that was asked for goes along. The login page must not trust it: see returnTarget in public/session.js.
    getLoginRedirectUrl: (request) => `/login.html?next=${encodeURIComponent(request.url)}`,
    responsesClass: PageResponses
  })
  const guards = {
    'profile.html': app.pageAuth.protect({ redirectOnFail: true }),
    'reports.html': app.pageAuth.protect({ redirectOnFail: true }),
    'new-report.html': app.pageAuth.scoped('reports:write', { redirectOnFail: true })
  }
  for (const [name, onRequest] of Object.entries(guards)) {
    app.get(`/${name}`, { onRequest, schema: { hide: true } }, (request, reply) =>
      // Not stored: after a logout, the "back" button shows nothing.
      reply.header('cache-control', 'no-store').sendFile(name, privateFolder, { cacheControl: false }))
  }
}

/**
 * Makes the application.
 * @param options.fastify options of Fastify
 * @param options.secret without it, the process makes a random one
 * @param options.settings settings of the plugin, `{ cookieSecure: false }` say
 */
export async function createService ({ fastify, secret = randomBytes(32), settings } = {}) {
  const app = Fastify(fastify)
  const refreshTokens = new RefreshTokens()
  app.addHook('onRequest', refuseForeignRequests)
  app.addHook('onRequest', async (request, reply) => { reply.header('content-security-policy', contentPolicy) })
  // Registered by the host because it clears cookies itself.
  await app.register(fastifyCookie)
  await app.register(swagger, { openapi: { info: { title: 'Example of fastify-token-auth', version: '1.0.0' } } })
  await app.register(swaggerUi, { routePrefix: '/docs', staticCSP: `${contentPolicy}; style-src 'self' 'unsafe-inline'; img-src 'self' data:` })
  await limitLogins(app, 20)
  await app.register(tokenAuth, {
    secret,
    cookieSet: true,
    cookieStrict: false,
    refreshTokenEnabled: true,
    scopesEnabled: true,
    authenticate: async (request) => shown(await logIn(users, request.body)),
    retrieveUser (request, payload) {
      const user = users.find((candidate) => candidate.user_id === payload.user_id)
      return user && shown(user)
    },
    addScopesToPayload: (user) => user.scopes,
    storeRefreshToken: (userId, token) => refreshTokens.store(userId, token),
    retrieveRefreshToken: (userId, request) => refreshTokens.retrieve(userId, request),
    classViews: [['/logout', logoutOf(refreshTokens)]],
    ...settings
  })
  await addApi(app)
  await addPages(app, secret)
  return app
}

/** What to try with curl, in the order in which it makes sense. */
export async function instructions (app, address) {
  const [ada] = users
  const expired = await app.tokenAuth.generateAccessToken(shown(ada), {
    extendPayload: (payload) => ({ ...payload, exp: Math.floor(Date.now() / 1000) - 3600 })
  })
  const json = "-H 'content-type: application/json'"
  const lines = [
    ['Log in', `curl -s ${address}/auth ${json} -d '{"username":"ada","password":"lovelace"}'`],
    ['Log in as another user and keep both tokens', [
      `RESPONSE=$(curl -s ${address}/auth ${json} -d '{"username":"grace","password":"hopper"}')`,
      'TOKEN=$(echo "$RESPONSE" | sed \'s/.*"access_token":"\\([^"]*\\)".*/\\1/\')',
      'REFRESH=$(echo "$RESPONSE" | sed \'s/.*"refresh_token":"\\([^"]*\\)".*/\\1/\')'
    ].join('\n')],
    ['A wrong password: 401', `curl -si ${address}/auth ${json} -d '{"username":"ada","password":"wrong"}'`],
    ['Is the token valid?', `curl -s ${address}/auth/verify -H "authorization: Bearer $TOKEN"`],
    ['Who am I?', `curl -s ${address}/auth/me -H "authorization: Bearer $TOKEN"`],
    ['A protected route', `curl -s ${address}/private -H "authorization: Bearer $TOKEN"`],
    ['Without a token: 401', `curl -si ${address}/private`],
    ['A route that needs the scope reports:read', `curl -s ${address}/reports -H "authorization: Bearer $TOKEN"`],
    ['A route that needs reports:write, which grace lacks: 403', `curl -si ${address}/reports ${json} -H "authorization: Bearer $TOKEN" -d '{}'`],
    ['A new access token for the refresh token', `curl -s ${address}/auth/refresh ${json} -H "authorization: Bearer $TOKEN" -d "{\\"refresh_token\\":\\"$REFRESH\\"}"`],
    ['A token that has expired: 400', `curl -si ${address}/auth/verify -H "authorization: Bearer ${expired}"`]
  ]
  return lines.map(([title, command]) => `# ${title}\n${command}\n`).join('\n')
}

const startService = () => createService({ settings: { cookieSecure: process.env.COOKIE_SECURE !== 'false' } })

await start(import.meta.filename, startService, async (address, app) => `Open ${address} in a browser; ${address}/docs documents the API. Stop with Ctrl-C.
ada (password lovelace) may read and write reports, grace (password hopper) may read them.

Or try it with curl:

${await instructions(app, address)}`)
