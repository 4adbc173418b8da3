/** Functions that all pages use: requests that renew the access token, the target after a login, and the page header. */

/** The renewal in progress, and the number of successful renewals. */
let renewal
let renewals = 0

/**
 * Requests a new access token, which the server sets as a cookie. Resolves to true if it succeeds. The browser sends the
 * refresh token as a cookie, which scripts cannot read. Calls during a renewal share it.
 */
export function renew () {
  renewal ??= fetch('/auth/refresh', { method: 'POST' }).then(({ ok }) => {
    if (ok) renewals++
    return ok
  }).finally(() => { renewal = undefined })
  return renewal
}

/** Like `fetch`. On a 401 response, it requests a new access token and repeats the request once. */
export async function api (path, options) {
  const before = renewals
  const response = await fetch(path, options)
  if (response.status !== 401) return response
  // Another request may have renewed the token in the meantime. This request was then sent with the old token.
  const isRenewed = renewals > before || await renew()
  return isRenewed ? await fetch(path, options) : response
}

/** Fetches JSON. If the session has ended, it opens the login page, which returns to this page after the login. */
export async function load (path) {
  const response = await api(path)
  if (response.status === 401) {
    location.replace(`/login.html?next=${encodeURIComponent(location.pathname + location.search)}`)
    return new Promise(() => {})
  }
  if (!response.ok) throw new Error(response.status === 403 ? 'You are not allowed to see this.' : 'The request failed. Please try again.')
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

const pages = { '/': 'Home', '/profile.html': 'Profile', '/reports.html': 'Reports', '/new-report.html': 'Write', '/docs': 'API' }

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
    const response = await api('/hello')
    const { hello, isLoggedIn } = response.ok ? await response.json() : {}
    account.append(...isLoggedIn
      ? [element('span', {}, hello), element('button', { type: 'button', onclick: logOut }, 'Log out')]
      : [element('a', { href: '/login.html' }, 'Log in')])
  }
}

async function logOut () {
  await fetch('/auth/logout', { method: 'POST' })
  location.assign('/login.html')
}

customElements.define('site-header', SiteHeader)
