/**
 * A small service with pages and an API. `npm start` builds the package and runs this service.
 *
 * Clients get the tokens in httpOnly cookies only, so scripts of the pages never see them. Environment variables: PORT
 * (default 3000; 0 selects a free port), and COOKIE_SECURE=false for browsers that reject Secure cookies on
 * http://127.0.0.1, such as Safari.
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
/** Public files. Each page in the other folder has a guard. */
const publicFolder = folder('public')
const privateFolder = folder('private')
const notAllowed = readFileSync(new URL('private/not-allowed.html', import.meta.url), 'utf8')

/** Allows only scripts and styles of this origin, and no other site may embed the pages in frames. */
const contentPolicy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

const users = [
  { user_id: 1, name: 'ada', scopes: ['reports'], password: await hashPassword('lovelace') },
  { user_id: 2, name: 'grace', scopes: ['reports:read'], password: await hashPassword('hopper') }
]

/** The properties of a user that clients may see. */
const shown = ({ password, ...user }) => user

/**
 * Names of the cookies. Browsers accept a name with the prefix `__Host-` only with Secure, Path=/ and without Domain, so no
 * other host, such as a sibling subdomain, can set these cookies (RFC 6265bis section 4.1.3.2).
 */
function cookieNames (cookieSecure) {
  const prefix = cookieSecure ? '__Host-' : ''
  return { cookieAccessTokenName: `${prefix}access_token`, cookieRefreshTokenName: `${prefix}refresh_token` }
}

const digest = (token) => createHash('sha256').update(token).digest('base64')

/**
 * Stores the refresh token of each login until logout. A real store also deletes tokens that have not been used for a long
 * time. It stores digests, so that reading the store reveals no token.
 */
class RefreshTokens {
  #owners = new Map()
  #cookieName

  constructor (cookieName) { this.#cookieName = cookieName }

  store (userId, token) { this.#owners.set(digest(token), userId) }

  /** A user has one token for each device. Returns the token in the cookie of a request, if it is one of them. */
  retrieve (userId, { cookies }) {
    const token = cookies[this.#cookieName]
    return token !== undefined && this.#owners.get(digest(token)) === userId ? token : undefined
  }

  delete ({ cookies }) {
    const token = cookies[this.#cookieName]
    if (token !== undefined) this.#owners.delete(digest(token))
  }
}

/** Logs out. Only the server can clear httpOnly cookies. The endpoint requires no valid token. */
const logoutOf = (refreshTokens) => class Logout extends View {
  post (request, reply) {
    refreshTokens.delete(request)
    const { cookieAccessTokenName, cookieRefreshTokenName, cookiePath: path, cookieDomain: domain, cookieSecure: secure } = this.config
    // A browser clears only a cookie with the same name, path and domain. It ignores a `__Host-` cookie that is not Secure.
    for (const name of [cookieAccessTokenName, cookieRefreshTokenName]) reply.clearCookie(name, { path, domain, secure })
  }
}

/** Answers with a page if the user lacks the scope for a page. */
class PageResponses extends Responses {
  exceptionResponse (request, exception, reply) {
    if (!(exception instanceof InsufficientScope)) return super.exceptionResponse(request, exception, reply)
    reply.type('text/html; charset=utf-8')
    return notAllowed
  }
}

/** The API. Its routes read the token from the cookie, or from the header if there is no cookie. */
async function addApi (app) {
  const { tokenAuth } = app
  const reports = ['January', 'February', 'March']
  app.get('/hello', { schema: { summary: 'Greet the user by name, or a visitor who is not logged in' } },
    tokenAuth.injectUser(async (request, reply, user) => ({ hello: user?.name ?? 'stranger', isLoggedIn: user !== null })))
  app.get('/private', { schema: { summary: 'Show the claims of the token' }, onRequest: tokenAuth.protect() },
    async (request) => request.tokenAuth.payload)
  app.get('/reports', { schema: { summary: 'List reports' }, onRequest: tokenAuth.scoped('reports:read') },
    async () => ({ reports }))
  app.post('/reports', { schema: { summary: 'Create a report' }, onRequest: tokenAuth.scoped('reports:write') },
    async (request, reply) => reply.code(201).send({ reports: [...reports, 'April'] }))
}

/** The pages. The guarded ones read the token from the cookie only, and redirect to the login page. */
async function addPages (app, secret, names) {
  await app.register(fastifyStatic, { root: publicFolder })
  // A second instance with the same secret and other settings. It has no endpoints and only verifies tokens.
  await app.register(tokenAuth, {
    instanceName: 'pageAuth',
    authMode: false,
    secret,
    cookieSet: true,
    ...names,
    // Passes on the requested page. The login page must not trust this parameter: see returnTarget in public/session.js.
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
      // Prevents the "back" button from showing the page after a logout.
      reply.header('cache-control', 'no-store').sendFile(name, privateFolder, { cacheControl: false }))
  }
}

/**
 * Creates the application.
 * @param options.fastify options of Fastify
 * @param options.secret signing secret; default: random
 * @param options.cookieSecure false: the cookies have no Secure attribute, and no `__Host-` prefix in their names
 */
export async function createService ({ fastify, secret = randomBytes(32), cookieSecure = true } = {}) {
  const app = Fastify(fastify)
  const names = cookieNames(cookieSecure)
  const refreshTokens = new RefreshTokens(names.cookieRefreshTokenName)
  app.addHook('onRequest', refuseForeignRequests)
  app.addHook('onRequest', async (request, reply) => { reply.header('content-security-policy', contentPolicy) })
  // Registered here, before the plugin, because the logout clears cookies itself.
  await app.register(fastifyCookie)
  await app.register(swagger, { openapi: { info: { title: 'Example of fastify-token-auth', version: '1.0.0' } } })
  await app.register(swaggerUi, { routePrefix: '/docs', staticCSP: `${contentPolicy}; style-src 'self' 'unsafe-inline'; img-src 'self' data:` })
  await limitLogins(app, 20)
  await app.register(tokenAuth, {
    secret,
    cookieSet: true,
    cookieStrict: false,
    cookieSecure,
    ...names,
    // The bodies of login and refresh contain no tokens, which a script that is injected into a page could read.
    tokensInBody: false,
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
    classViews: [['/logout', logoutOf(refreshTokens)]]
  })
  await addApi(app)
  await addPages(app, secret, names)
  return app
}

/**
 * The `curl` commands that the service prints. They keep the cookies in the file cookies.txt. Like most browsers, curl
 * accepts Secure cookies from http://127.0.0.1. POST requests with cookies need an Origin header: see cross-site.js.
 */
export async function instructions (app, address) {
  const [ada] = users
  const expired = await app.tokenAuth.generateAccessToken(shown(ada), {
    extendPayload: (payload) => ({ ...payload, exp: Math.floor(Date.now() / 1000) - 3600 })
  })
  const json = "-H 'content-type: application/json'"
  const origin = `-H 'origin: ${address}'`
  const lines = [
    ['Log in. The response sets the tokens as cookies', `curl -si ${address}/auth ${json} -d '{"username":"ada","password":"lovelace"}'`],
    ['Log in as another user, and store the cookies in a file', `curl -s ${address}/auth -c cookies.txt ${json} -d '{"username":"grace","password":"hopper"}'`],
    ['A wrong password: 401', `curl -si ${address}/auth ${json} -d '{"username":"ada","password":"wrong"}'`],
    ['Check whether the token is valid', `curl -s ${address}/auth/verify -b cookies.txt`],
    ['Get the current user', `curl -s ${address}/auth/me -b cookies.txt`],
    ['Call a protected route', `curl -s ${address}/private -b cookies.txt`],
    ['Call it without a token: 401', `curl -si ${address}/private`],
    ['Call a route that requires the scope reports:read', `curl -s ${address}/reports -b cookies.txt`],
    ['Call a route that requires reports:write, which grace does not have: 403', `curl -si ${address}/reports -b cookies.txt ${origin} ${json} -d '{}'`],
    ['Exchange the refresh token for a new access token, which the response sets as a cookie', `curl -si ${address}/auth/refresh -b cookies.txt -c cookies.txt ${origin} -X POST`],
    ['Check an expired token: 400', `curl -si ${address}/auth/verify -H "authorization: Bearer ${expired}"`]
  ]
  return lines.map(([title, command]) => `# ${title}\n${command}\n`).join('\n')
}

const startService = () => createService({ cookieSecure: process.env.COOKIE_SECURE !== 'false' })

await start(import.meta.filename, startService, async (address, app) => `Open ${address} in a browser. The API is documented at ${address}/docs. Press Ctrl-C to stop.
ada (password lovelace) may read and write reports, grace (password hopper) may only read them.

Or use curl:

${await instructions(app, address)}`)
