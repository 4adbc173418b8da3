/**
 * A small service with pages and an API. `npm start` builds the package and runs this service.
 *
 * Browsers store the tokens in httpOnly cookies, which scripts cannot read. Other clients send the access token in the
 * Authorization header. Sessions are kept in memory and end with the process. Environment variables: PORT (default 3000; 0
 * selects a free port), and COOKIE_SECURE=false for browsers that reject Secure cookies on http://127.0.0.1, such as Safari.
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import fastifyStatic from '@fastify/static'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import Fastify from 'fastify'
import tokenAuth, { InsufficientScope, memorySessions, Responses } from 'fastify-token-auth'
import { hashPassword, limitLogins, logIn } from '../password.js'
import { start } from '../shared.js'
import { describeDevice } from './device.js'

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

/** Answers with a page if the user lacks the scope for a page. */
class PageResponses extends Responses {
  exceptionResponse (request, exception, reply) {
    if (!(exception instanceof InsufficientScope)) return super.exceptionResponse(request, exception, reply)
    reply.type('text/html; charset=utf-8')
    return notAllowed
  }
}

/** Declares that everybody may use the routes that plugins add to a context. */
function declarePublic (context) {
  context.addHook('onRoute', (route) => { route.config = { ...route.config, tokenAuth: false } })
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
async function addPages (app, { secret, names, store }) {
  await app.register(fastifyStatic, { root: privateFolder, serve: false })
  await app.register(async (site) => {
    declarePublic(site)
    await site.register(fastifyStatic, { root: publicFolder, decorateReply: false })
  })
  // A second instance with the same secret and other settings. It has no endpoints and only verifies tokens. With the same
  // store, it refuses the tokens of ended sessions, too.
  await app.register(tokenAuth, {
    instanceName: 'pageAuth',
    authMode: false,
    secret,
    sessions: { store },
    cookieSet: true,
    ...names,
    // Passes on the requested page. The login page must not trust this parameter: see returnTarget in public/session.js.
    getLoginRedirectUrl: (request) => `/login.html?next=${encodeURIComponent(request.url)}`,
    responsesClass: PageResponses
  })
  const guards = {
    'profile.html': app.pageAuth.protect({ redirectOnFail: true }),
    'devices.html': app.pageAuth.protect({ redirectOnFail: true }),
    'reports.html': app.pageAuth.protect({ redirectOnFail: true }),
    'new-report.html': app.pageAuth.scoped('reports:write', { redirectOnFail: true })
  }
  for (const [name, onRequest] of Object.entries(guards)) {
    app.get(`/${name}`, { onRequest, schema: { hide: true } }, (request, reply) =>
      // Prevents the "back" button from showing the page after a logout.
      reply.header('cache-control', 'no-store').sendFile(name, { cacheControl: false }))
  }
}

/**
 * Creates the application.
 * @param options.fastify options of Fastify
 * @param options.secret signing secret; default: random
 * @param options.store where sessions are kept; default: in memory
 * @param options.cookieSecure false: the cookies have no Secure attribute, and no `__Host-` prefix in their names
 */
export async function createService ({ fastify, secret = randomBytes(32), store = memorySessions(), cookieSecure = true } = {}) {
  const app = Fastify(fastify)
  const names = cookieNames(cookieSecure)
  app.addHook('onRequest', async (request, reply) => { reply.header('content-security-policy', contentPolicy) })
  await app.register(swagger, { openapi: { info: { title: 'Example of fastify-token-auth', version: '1.0.0' } } })
  await limitLogins(app, 20)
  await app.register(tokenAuth, {
    secret,
    // A route that is neither guarded nor declared public keeps the service from starting.
    requireGuards: true,
    cookieSet: true,
    cookieStrict: false,
    cookieSecure,
    ...names,
    // The bodies of login and refresh contain no tokens, which a script that is injected into a page could read.
    tokensInBody: false,
    // `data` is shown on the page "Your devices".
    sessions: { store, data: (request) => ({ device: describeDevice(request.headers['user-agent']) }) },
    scopesEnabled: true,
    authenticate: async (request) => shown(await logIn(users, request.body)),
    retrieveUser (request, payload) {
      const user = users.find((candidate) => candidate.user_id === payload.user_id)
      return user && shown(user)
    },
    addScopesToPayload: (user) => user.scopes
  })
  await app.register(async (site) => {
    declarePublic(site)
    await site.register(swaggerUi, { routePrefix: '/docs', staticCSP: `${contentPolicy}; style-src 'self' 'unsafe-inline'; img-src 'self' data:` })
  })
  await addApi(app)
  await addPages(app, { secret, names, store })
  return app
}

/**
 * The `curl` commands that the service prints. They keep the cookies in the file cookies.txt. Like most browsers, curl
 * accepts Secure cookies from http://127.0.0.1.
 */
export async function instructions (app, address) {
  const [ada] = users
  const expired = await app.tokenAuth.generateAccessToken(shown(ada), {
    extendPayload: (payload) => ({ ...payload, exp: Math.floor(Date.now() / 1000) - 3600 })
  })
  const json = "-H 'content-type: application/json'"
  const lines = [
    ['Log in. The response sets the tokens as cookies', `curl -si ${address}/auth ${json} -d '{"username":"ada","password":"lovelace"}'`],
    ['Log in as another user, and store the cookies in a file', `curl -s ${address}/auth -c cookies.txt ${json} -d '{"username":"grace","password":"hopper"}'`],
    ['A wrong password: 401', `curl -si ${address}/auth ${json} -d '{"username":"ada","password":"wrong"}'`],
    ['Check whether the token is valid', `curl -s ${address}/auth/verify -b cookies.txt`],
    ['Get the current user', `curl -s ${address}/auth/me -b cookies.txt`],
    ['Call a protected route', `curl -s ${address}/private -b cookies.txt`],
    ['Call it without a token: 401', `curl -si ${address}/private`],
    ['Call a route that requires the scope reports:read', `curl -s ${address}/reports -b cookies.txt`],
    ['Call a route that requires reports:write, which grace does not have: 403', `curl -si ${address}/reports -b cookies.txt ${json} -d '{}'`],
    ['Exchange the refresh token for new tokens, which the response sets as cookies', `curl -si ${address}/auth/refresh -b cookies.txt -c cookies.txt -X POST`],
    ['List the sessions of the user: one for each login', `curl -s ${address}/auth/sessions -b cookies.txt`],
    ['Log out, which ends the session and clears the cookies: 204', `curl -si ${address}/auth/logout -b cookies.txt -X POST`],
    ['The access token of an ended session: 401', `curl -si ${address}/private -b cookies.txt`],
    ['Check an expired token: 400', `curl -si ${address}/auth/verify -H "authorization: Bearer ${expired}"`]
  ]
  return lines.map(([title, command]) => `# ${title}\n${command}\n`).join('\n')
}

/** Also what `npx fastify-token-auth routes examples/web/server.js` starts. */
export default function startService () {
  return createService({ cookieSecure: process.env.COOKIE_SECURE !== 'false' })
}

await start(import.meta.filename, startService, async (address, app) => `Open ${address} in a browser. The API is documented at ${address}/docs. Press Ctrl-C to stop.
ada (password lovelace) may read and write reports, grace (password hopper) may only read them.

Or use curl:

${await instructions(app, address)}`)
