/** The login page, and the forms for browsers without JavaScript: login, renewal and logout. */
import { AuthenticationFailed } from 'fastify-token-auth'
import { html } from './html.js'
import { pathOf, sendPage, titles, wantsPage } from './layout.js'
import { checkPassword } from './users.js'

/**
 * Returns where a login leads. The target is part of an address, which anyone may have written, so it must be a page of this
 * site: otherwise the login page would be an open redirect. The path `//elsewhere`, to which `/.//elsewhere` leads, is
 * another site, too.
 */
export function returnTarget (next) {
  const site = 'http://site.invalid'
  if (typeof next !== 'string' || !URL.canParse(next, site)) return '/'
  const { origin, pathname, search } = new URL(next, site)
  return origin === site && !pathname.startsWith('//') ? pathname + search : '/'
}

/** Whether a visitor has no valid access token, but a refresh token, and so is probably still logged in. */
export function isRenewable ({ server, headers: { cookie = '' }, pageAuth: { userId, settings } }) {
  return userId === null && server.parseCookie(cookie)[settings.cookieRefreshTokenName] !== undefined
}

/** Notices of the login page, by the parameter `reason`. The address has only the name of a text, because anyone may have written it. */
const reasons = new Map(Object.entries({
  logout: 'You are logged out.',
  cleared: 'You are logged out in this browser, but the server could not end the session. After the next login, end it on the page “Your devices”.',
  ended: 'Your session was ended from another device.',
  expired: 'Your session has expired, or it was ended from another device some time ago.',
  absent: 'You are no longer logged in.',
  cookies: 'Your browser rejected the cookies. Some browsers, such as Safari, accept Secure cookies over HTTPS only. Start the example with COOKIE_SECURE=false.'
}))

function reasonOf ({ reason, next }, user) {
  if (reasons.has(reason)) return reasons.get(reason)
  if (user !== null) return `You are logged in as ${user.name}. A login as another user ends that.`
  const title = typeof next === 'string' && titles.get(pathOf(next))
  return title && `The page “${title}” is for users who are logged in.`
}

const loginPage = async (request, reply, { next, message }) => {
  const notice = message === undefined ? reasonOf(request.query, await request.pageAuth.user()) : undefined
  return sendPage(request, reply, 'Log in', html`<p id="notice" class="notice" role="status">${notice}</p>
    <form method="post" action="/login" id="login" aria-describedby="message">
      <input type="hidden" name="next" value="${returnTarget(next)}">
      <label for="username">Name</label>
      <input id="username" name="username" autocomplete="username" autocapitalize="none" spellcheck="false" maxlength="200" required autofocus>
      <label for="password">Password</label>
      <input id="password" name="password" type="password" autocomplete="current-password" maxlength="200" required>
      <button>Log in</button>
    </form>`, { script: '/login.js', message })
}

/** Where a browser goes after it has sent a form to an endpoint of the plugin, by the status of the response. */
const destinations = {
  '/auth/logout': { 204: () => '/login.html?reason=logout', 503: () => '/login.html?reason=cleared' },
  '/auth/refresh': {
    200: (next) => next,
    400: (next) => `/login.html?reason=absent&next=${encodeURIComponent(next)}`,
    401: (next) => `/login.html?reason=expired&next=${encodeURIComponent(next)}`
  }
}

/**
 * Sends browsers on that have posted a form without fields to an endpoint: its JSON is for scripts. The endpoints refuse
 * other bodies than JSON, and requests of other sites. Call it before the plugin is registered.
 */
export function redirectForms (app) {
  app.addHook('onSend', async (request, reply) => {
    const target = destinations[request.routeOptions.url]?.[reply.statusCode]
    if (target !== undefined && wantsPage(request)) reply.code(303).header('location', target(returnTarget(request.query.next)))
  })
}

export async function addLogin (app) {
  const { tokenAuth } = app
  const everybody = { config: { tokenAuth: false } }

  app.get('/login.html', everybody, async (request, reply) => {
    const { next, reason, change } = request.query
    const target = returnTarget(next)
    if (change === undefined && next !== undefined && request.pageAuth.userId !== null) return reply.redirect(target)
    // Not with a reason: the page that renews tokens gives one if the session is over.
    if (change === undefined && reason === undefined && isRenewable(request)) return reply.redirect(`/renew.html?next=${encodeURIComponent(target)}`)
    return loginPage(request, reply, { next })
  })

  // Renewals change cookies, so they are POST requests, and need a script or a button.
  app.get('/renew.html', everybody, async (request, reply) => {
    const next = returnTarget(request.query.next)
    return sendPage(request, reply, 'One moment', html`<div id="renew" data-next="${next}" data-login="/login.html"></div>
    <p>Your access token has expired. You are still logged in: your refresh token renews it.</p>
    <noscript><form method="post" action="/auth/refresh?next=${encodeURIComponent(next)}"><button>Continue</button></form></noscript>`, { script: '/renew.js' })
  })

  const credentials = { type: 'string', maxLength: 200 }
  const body = { type: 'object', required: ['username', 'password'], properties: { username: credentials, password: credentials } }
  // The endpoint of the plugin takes JSON only. `sessions.start` sets the same cookies, and refuses forms of other sites,
  // which could log a visitor in as somebody else (login cross-site request forgery).
  app.post('/login', { ...everybody, schema: { body }, bodyLimit: 16_384 }, async (request, reply) => {
    const { next } = request.body
    try {
      await tokenAuth.sessions.start(request, reply, await checkPassword(request.body))
    } catch (error) {
      if (!(error instanceof AuthenticationFailed)) throw error
      return loginPage(request, reply.code(401).headers(error.headers), { next, message: 'Wrong name or password.' })
    }
    // If the browser has rejected the cookies, this page says so. Otherwise, it leads on.
    return reply.redirect(`/login.html?reason=cookies&next=${encodeURIComponent(returnTarget(next))}`, 303)
  })
}
