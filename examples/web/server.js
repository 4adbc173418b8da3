/**
 * A small service with pages and an API. `npm start` builds the package and runs this service.
 *
 * Browsers store the tokens in httpOnly cookies, which scripts cannot read. Other clients send the access token in the
 * Authorization header. Sessions are kept in memory and end with the process. Environment variables: PORT (default 3000; 0
 * selects a free port), and COOKIE_SECURE=false for browsers that reject Secure cookies on http://127.0.0.1, such as Safari.
 *
 * Read next: api.js and pages.js, the routes and their guards; login.js, what leads to a session; errors.js, refusals.
 */
import cookie from '@fastify/cookie'
import { randomBytes } from 'node:crypto'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import Fastify from 'fastify'
import tokenAuth, { memorySessions } from 'fastify-token-auth'
import { limitLogins } from '../password.js'
import { start } from '../shared.js'
import { addApi } from './api.js'
import { addCommands } from './curl.js'
import { describeDevice } from './device.js'
import { addErrorHandlers, PageResponses } from './errors.js'
import { redirectForms } from './login.js'
import { addPages, declarePublic } from './pages.js'
import { createReports } from './reports.js'
import { checkPassword, findUser } from './users.js'

/** Allows only scripts and styles of this origin, and no other site may embed the pages in frames. */
const contentPolicy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

const securityHeaders = {
  'content-security-policy': contentPolicy,
  // A browser must not take text of a user for a script.
  'x-content-type-options': 'nosniff',
  // Other sites do not see the addresses of pages. Not `no-referrer`: forms would be sent with `Origin: null`.
  'referrer-policy': 'same-origin'
}

/**
 * Names of the cookies. Browsers accept a name with the prefix `__Host-` only with Secure, Path=/ and without Domain, so no
 * other host, such as a sibling subdomain, can set these cookies (RFC 6265bis section 4.1.3.2).
 */
function cookieNames (cookieSecure) {
  const prefix = cookieSecure ? '__Host-' : ''
  return { cookieAccessTokenName: `${prefix}access_token`, cookieRefreshTokenName: `${prefix}refresh_token` }
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
  app.addHook('onRequest', async (request, reply) => { reply.headers(securityHeaders) })
  addErrorHandlers(app)
  redirectForms(app)
  await app.register(swagger, { openapi: { info: { title: 'Example of fastify-token-auth', version: '1.0.0' } } })
  await limitLogins(app, 20, ['/auth', '/auth/', '/login'])
  await app.register(cookie) // pages read and set cookies, too
  await app.register(tokenAuth, {
    secret,
    cookieSet: true,
    cookieSecure,
    // 30 days, the longest time of a session. Without it, the cookies end when the browser is closed.
    cookieMaxAge: 30 * 86_400,
    ...cookieNames(cookieSecure),
    // The guards of pages replace what is in braces. The login page must not trust these parameters: see login.js.
    loginRedirectUrl: '/login.html?next={next}&reason={reason}',
    // After the form of the logout, for browsers without JavaScript.
    loggedOutUrl: '/login.html?reason=logout',
    // A route that is neither guarded nor declared public keeps the service from starting.
    requireGuards: true,
    // Clients that are no browsers may send the access token in a header. The guards of pages only accept cookies.
    cookieStrict: false,
    // The bodies of login and refresh contain no tokens, which a script that is injected into a page could read.
    tokensInBody: false,
    // `data` is shown on the page "Your devices".
    sessions: { store, data: (request) => ({ device: describeDevice(request.headers['user-agent']) }) },
    scopesEnabled: true,
    authenticate: (request) => checkPassword(request.body),
    retrieveUser: (request, payload) => findUser(payload.user_id),
    addScopesToPayload: (user) => user.scopes,
    responsesClass: PageResponses
  })
  await app.register(async (site) => {
    declarePublic(site)
    await site.register(swaggerUi, { routePrefix: '/docs', staticCSP: `${contentPolicy}; style-src 'self' 'unsafe-inline'; img-src 'self' data:` })
  })
  const reports = createReports()
  await app.register(addApi, { reports })
  await addCommands(app)
  await app.register(addPages, { reports })
  return app
}

/** Also what `npx fastify-token-auth routes examples/web/server.js` starts. */
export default function startService () {
  return createService({ cookieSecure: process.env.COOKIE_SECURE !== 'false' })
}

await start(import.meta.filename, startService, (address) => `Open ${address} in a browser. Press Ctrl-C to stop.
ada (password lovelace) may read and write reports, grace (password hopper) may only read them.
The API is documented at ${address}/docs. Commands for curl are at ${address}/curl.`)
