/** What all pages share: requests that renew the session, where to go after a login, and the header. */

/** The renewal that is under way, and how many succeeded. */
let renewal
let renewals = 0

/**
 * Fetches a new access token, which comes as a cookie; says whether there was one to be had. The refresh token is a
 * cookie that scripts cannot read. Who asks while a renewal is under way waits for that one.
 */
export function renew () {
  renewal ??= fetch('/auth/refresh', { method: 'POST' }).then(({ ok }) => {
    if (ok) renewals++
    return ok
  }).finally(() => { renewal = undefined })
  return renewal
}

/** `fetch` that gets a new access token where the old one has expired, and tries again, once. */
export async function api (path, options) {
  const before = renewals
  const response = await fetch(path, options)
  if (response.status !== 401) return response
  // Where another request has renewed the token meanwhile, this one came with the old one.
  const isRenewed = renewals > before || await renew()
  return isRenewed ? await fetch(path, options) : response
}

/** The JSON that an address gives; a visitor whose session is over gets to the login page, and back here afterwards. */
export async function load (path) {
  const response = await api(path)
  if (response.status === 401) {
    location.replace(`/login.html?next=${encodeURIComponent(location.pathname + location.search)}`)
    return new Promise(() => {})
  }
  if (!response.ok) throw new Error(response.status === 403 ? 'You are not allowed to see this.' : 'That did not work. Please try again.')
  return await response.json()
}

/** Runs something and shows its failure where the page has a place for messages. */
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
 * Where to go after a login. It stands in the address, so anyone may have written it: only places on this site, or the
 * login page would lend its good name to others (an "open redirect"). The whole address is returned, not its path:
 * `/.//elsewhere` has the path `//elsewhere`, which would lead away.
 */
export function returnTarget () {
  const next = new URLSearchParams(location.search).get('next') ?? '/'
  const target = URL.canParse(next, location.origin) ? new URL(next, location.origin) : undefined
  return target?.origin === location.origin ? target.href : '/'
}

const pages = { '/': 'Home', '/profile.html': 'Profile', '/reports.html': 'Reports', '/new-report.html': 'Write', '/docs': 'API' }

/** Makes an element. Text is set as text: nothing that a user wrote becomes markup. */
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
