/** Functions that all pages use: requests that renew the access token, the way to the login page and back, and the page header. */

/** The renewal in progress, and the number of successful renewals. */
let renewal
let renewals = 0

/** There is no session any more. The login page has a text for each reason. */
class SessionOver extends Error {
  constructor (reason) {
    super('You are not logged in.')
    this.reason = reason
  }
}

const unavailable = 'The server is not available at the moment. You are still logged in. Please try again later.'
const wait = (seconds) => new Promise((resolve) => { setTimeout(resolve, seconds * 1000) })

/**
 * Whether the session was ended, here or on another device: access tokens of ended sessions are refused by that name. Once
 * the access token has expired, an ended session cannot be told from an expired one.
 */
async function isEnded () {
  const response = await fetch('/auth/me')
  return response.status === 401 && (await response.json()).exception === 'SessionEnded'
}

async function requestRenewal (tries = 3) {
  const { ok, status, headers } = await fetch('/auth/refresh', { method: 'POST' })
  if (ok) {
    renewals++
    return 'renewed'
  }
  // There is no refresh token.
  if (status === 400) return 'absent'
  if (status === 401) return await isEnded() ? 'ended' : 'expired'
  // The tokens are still good: the server says when to try again.
  if (status !== 503 || tries === 1) throw new Error(unavailable)
  await wait(Number(headers.get('retry-after')) || 5)
  return await requestRenewal(tries - 1)
}

/**
 * Requests a new access token, which the server sets as a cookie. The browser sends the refresh token as a cookie, which
 * scripts cannot read. Calls during a renewal share it. Resolves to "renewed", or to why there is no session any more:
 * "ended", "expired" or "absent". Rejects if the server is unavailable, also after further tries.
 */
export function renew () {
  renewal ??= requestRenewal().finally(() => { renewal = undefined })
  return renewal
}

/** Like `fetch`. On a 401 response, it requests a new access token and repeats the request once, or throws a SessionOver. */
export async function api (path, options) {
  const before = renewals
  const response = await fetch(path, options)
  if (response.status !== 401) return response
  // Another request may have renewed the token in the meantime. This request was then sent with the old token.
  const outcome = renewals > before ? 'renewed' : await renew()
  if (outcome !== 'renewed') throw new SessionOver(outcome)
  return await fetch(path, options)
}

/** Like `api`. If there is no session any more, it opens the login page, which returns to this page after the login. */
export async function call (path, options) {
  try {
    return await api(path, options)
  } catch (error) {
    if (!(error instanceof SessionOver)) throw error
    location.replace(`/login.html?${new URLSearchParams({ reason: error.reason, next: location.pathname + location.search })}`)
    return new Promise(() => {})
  }
}

const failures = { 403: 'You are not allowed to see this.', 503: unavailable }

/** The error to show for a response. */
export const failureOf = ({ status }) => new Error(failures[status] ?? 'The request failed. Please try again.')

/** Fetches JSON. */
export async function load (path) {
  const response = await call(path)
  if (!response.ok) throw failureOf(response)
  return await response.json()
}

/** Runs a function and shows the message of its error on the page. */
export async function withMessage (run) {
  const message = document.getElementById('message')
  message.textContent = ''
  try {
    await run()
  } catch (error) {
    message.textContent = error.message
  }
}

/**
 * The target after a login. It is a query parameter, which anyone may have written, so only targets of this origin are
 * allowed: otherwise the login page would be an open redirect. Returns the whole URL, not its path, because the path of
 * `/.//elsewhere` is `//elsewhere`, which leads to another site.
 */
export function returnTarget () {
  const next = new URLSearchParams(location.search).get('next') ?? '/'
  const target = URL.canParse(next, location.origin) ? new URL(next, location.origin) : undefined
  return target?.origin === location.origin ? target.href : '/'
}

const pages = { '/': 'Home', '/profile.html': 'Profile', '/devices.html': 'Devices', '/reports.html': 'Reports', '/new-report.html': 'Write', '/docs': 'API' }

/** Creates an element. Children that are strings become text nodes, so that input of users never becomes markup. */
export function element (name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties)
  made.append(...children)
  return made
}

class SiteHeader extends HTMLElement {
  connectedCallback () {
    const account = element('span', { className: 'account' })
    const links = Object.entries(pages).map(([href, text]) => element('a', { href, ...(href === location.pathname && { ariaCurrent: 'page' }) }, text))
    this.append(element('nav', { ariaLabel: 'Site' }, ...links, account))
    if (location.pathname !== '/login.html') this.#showAccount(account)
  }

  async #showAccount (account) {
    const { hello, isLoggedIn } = await api('/hello').then((response) => response.json()).catch((error) => {
      // While the server is unavailable, nobody knows who is logged in.
      return { isLoggedIn: error instanceof SessionOver ? false : undefined }
    })
    if (isLoggedIn === true) account.append(element('span', {}, hello), element('button', { type: 'button', onclick: logOut }, 'Log out'))
    if (isLoggedIn === false) account.append(element('a', { href: '/login.html' }, 'Log in'))
  }
}

async function logOut () {
  const { ok } = await fetch('/auth/logout', { method: 'POST' })
  // The server clears the cookies also if it cannot end the session.
  location.assign(`/login.html?reason=${ok ? 'logout' : 'cleared'}`)
}

customElements.define('site-header', SiteHeader)
