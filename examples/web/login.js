/** The login page, and the forms for browsers without JavaScript: login and logout. */
import { AuthenticationFailed, returnPath } from 'fastify-token-auth'
import { attributesOf, messageOf } from './fields.js'
import { html } from './html.js'
import { pathOf, sendPage, titles, wantsPage } from './layout.js'
import { checkPassword } from './users.js'

/**
 * Returns a hook for pages that everybody may open, with or without a login: it renews the access token of a user who is logged
 * in. A token that cannot be renewed opens these pages, too, also a damaged one, for example after the secret has changed:
 * with `optional: true` alone, it would be refused, and its browser could not open the login page any more.
 */
export function recognize ({ tokenAuth }) {
  const guard = tokenAuth.protect({ optional: true, renew: true, cookieStrict: true, onRefusal: 'throw' })
  return async (request, reply) => {
    try {
      await guard(request, reply)
    } catch (error) {
      if (error.statusCode !== 401) throw error
    }
  }
}

/** Notices of the login page, by the parameter `reason`, or else by what its own request says. The address has only the name of a text, because anyone may have written it. */
const reasons = new Map(Object.entries({
  logout: 'You are logged out.',
  cleared: 'You are logged out in this browser, but the server could not end the session. After the next login, end it on the page “Your devices”.',
  ended: 'Your session was ended from another device.',
  expired: 'Your session has expired, or it was ended from another device some time ago.',
  absent: 'You are no longer logged in.',
  cookies: 'Your browser rejected the cookies. Some browsers, such as Safari, accept Secure cookies over HTTPS only. Start the example with COOKIE_SECURE=false.'
}))

function reasonOf ({ tokenAuth: { signedOut }, query: { reason = signedOut === 'absent' ? undefined : signedOut, next } }, user) {
  const title = typeof next === 'string' && titles.get(pathOf(next))
  if (title && reason === 'absent') return `The page “${title}” is for users who are logged in.`
  if (reasons.has(reason)) return reasons.get(reason)
  if (user !== null) return `You are logged in as ${user.name}. A login as another user ends that.`
  return undefined
}

/**
 * @param form.next where the login leads
 * @param form.username what was entered
 * @param form.errors what is wrong, by the names of the fields. Which of name and password is wrong, nobody is told
 * @param form.message what went wrong
 */
const loginPage = async (request, reply, { next, username, errors = {}, message }) => {
  const notice = message === undefined ? reasonOf(request, await request.tokenAuth.user()) : undefined
  return sendPage(request, reply, 'Log in', html`<p id="notice" class="notice" role="status">${notice}</p>
    <form method="post" action="/login" id="login">
      <input type="hidden" name="next" value="${returnPath(next)}">
      <label for="username">Name</label>
      <input ${attributesOf('username', errors)} value="${typeof username === 'string' && username}" autocomplete="username" autocapitalize="none" spellcheck="false" maxlength="200" required${Object.keys(errors).length === 0 && message === undefined && html` autofocus`}>
      ${messageOf('username', errors)}
      <label for="password">Password</label>
      <input ${attributesOf('password', errors)} type="password" autocomplete="current-password" maxlength="200" required>
      <p id="password-error" class="error" role="alert">${errors.password}</p>
      <button data-busy="Logging in...">Log in</button>
    </form>`, { description: 'Log in to the example of fastify-token-auth.', script: '/login.js', message, isFocused: message !== undefined })
}

/** Sends a browser on whose form of the logout the store could not carry out. Call it before the plugin is registered. */
export function redirectForms (app) {
  app.addHook('onSend', async (request, reply) => {
    const isLogout = request.routeOptions.url === '/auth/logout' && reply.statusCode === 503
    if (isLogout && wantsPage(request)) reply.code(303).header('location', '/login.html?reason=cleared')
  })
}

/** What is wrong with the fields of the form, by their names. Browsers do not send it like this. */
function errorsOf (body) {
  const wrong = {}
  for (const [name, message] of Object.entries({ username: 'Enter your name.', password: 'Enter your password.' })) {
    const { [name]: value } = Object(body)
    if (typeof value !== 'string' || value === '') wrong[name] = message
    else if (value.length > 200) wrong[name] = 'Use at most 200 characters.'
  }
  return wrong
}

export async function addLogin (app) {
  const { tokenAuth } = app
  const everybody = { config: { tokenAuth: false } }

  app.get('/login.html', { ...everybody, onRequest: recognize(app) }, async (request, reply) => {
    const { next, change } = request.query
    if (change === undefined && next !== undefined && request.tokenAuth.userId !== null) return reply.redirect(returnPath(next))
    return loginPage(request, reply, { next })
  })

  // The endpoint of the plugin takes forms, too. This route also keeps the name that was entered, and marks the fields.
  // `sessions.start` sets the same cookies, and refuses forms of other sites, which could log a visitor in as somebody else
  // (login cross-site request forgery).
  app.post('/login', { ...everybody, bodyLimit: 16_384 }, async (request, reply) => {
    const { next, username } = Object(request.body)
    const errors = errorsOf(request.body)
    if (Object.keys(errors).length > 0) return loginPage(request, reply.code(400), { next, username, errors })
    try {
      await tokenAuth.sessions.start(request, reply, await checkPassword(request.body))
    } catch (error) {
      reply.code(error.statusCode ?? 500).headers(Object(error.headers))
      if (error instanceof AuthenticationFailed) return loginPage(request, reply, { next, username, errors: { password: 'Wrong name or password.' } })
      if (error.statusCode === 503) return loginPage(request, reply, { next, username, message: 'The service is not available at the moment. Please try again later.' })
      throw error
    }
    // If the browser has rejected the cookies, this page says so. Otherwise, it leads on.
    return reply.redirect(`/login.html?reason=cookies&next=${encodeURIComponent(returnPath(next))}`, 303)
  })
}
