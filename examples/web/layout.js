/** What all pages have in common: the header, the panel of the access token, and how a page is sent. */
import { lifeOf } from './api.js'
import { html } from './html.js'

/** Titles of the pages for users who are logged in. */
export const titles = new Map(Object.entries({
  '/reports.html': 'Reports', '/new-report.html': 'Write a report', '/devices.html': 'Your devices', '/profile.html': 'Your profile'
}))
const menu = { '/reports.html': 'Reports', '/devices.html': 'Devices', '/profile.html': 'Profile', '/docs': 'API' }

/**
 * Whether the client shows the response to a user: a browser that opens a page or sends a form. Scripts of pages, curl and
 * other clients of the API get JSON.
 */
export const wantsPage = ({ headers: { accept = '' } }) => accept.includes('text/html')

/** Returns the path of an address, without the query. */
export const pathOf = (url) => url.split('?', 1)[0]

const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`

/** Says how long the access token is valid. token.js counts down from the numbers, and has the same text. */
function tokenPanel (request, user) {
  const { expires_in: left, leeway } = lifeOf(request.tokenAuth)
  const { token, source, settings: { cookieAccessTokenName } } = request.tokenAuth
  // The browser has sent another token, which the guard has replaced.
  const isRenewed = source === 'cookie' && request.server.parseCookie(request.headers.cookie ?? '')[cookieAccessTokenName] !== token
  return html`<section class="token" id="token" aria-label="Your access token" data-left="${left}" data-leeway="${leeway}">
    <p><strong>${user.name}</strong> is logged in. <span id="life">The access token expires in <b>${clock(Math.max(left, 0))}</b>.</span></p>
    <form method="get" id="call"><button>Send a request</button></form>
    <form method="post" id="expire" action="/token/expire"><input type="hidden" name="next" value="${request.method === 'GET' ? request.url : '/'}"><button>Expire now</button></form>
    <p id="trace" role="status">${isRenewed ? 'The access token had expired, and was renewed.' : 'The tokens are in httpOnly cookies, which no script can read.'}</p>
  </section>`
}

const logout = ({ name }) => html`<span>${name}</span><form method="post" id="logout" action="/auth/logout"><button data-busy="Logging out...">Log out</button></form>`

const link = (path, [href, text]) => html`<a href="${href}"${href === path && html` aria-current="page"`}>${text}</a>`

/**
 * Sends a page.
 * @param title its heading
 * @param main its content, as markup
 * @param options.description what search engines and link previews show of it; default: of the example
 * @param options.script a script of the page; default: those of the pages of users, if somebody is logged in
 * @param options.message what went wrong
 * @param options.isFocused whether the message has the focus, because no field does: not every screen reader reads an alert that is there when a page opens
 */
export async function sendPage (request, reply, title, main, { description = 'An example of fastify-token-auth: pages and an API that are protected by guards.', script, message, isFocused = false } = {}) {
  const user = await request.tokenAuth.user()
  const path = pathOf(request.url)
  const scripts = script === undefined ? user !== null && ['/session.js', '/token.js'] : [script]
  // It shows a user name, so caches must not store it, and "back" must not show it after a logout. WebKit ignores this for "back"
  // over plain HTTP: there, the client looks at the event `pageshow`, and leads to the login page if nobody is logged in any more.
  reply.header('cache-control', 'no-store').type('text/html; charset=utf-8')
  return reply.send(String(html`<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>${title} · Example</title>
  <meta name="description" content="${description}">
  <link rel="icon" href="/icon.svg">
  <link rel="stylesheet" href="/style.css">
  ${scripts && scripts.map((src) => html`<script type="module" src="${src}"></script>`)}
</head>
<body${user !== null && html` data-user="${user.user_id}" data-name="${user.name}"`}>
  <a class="skip" href="#main">Skip to the content</a>
  <header>
    <a class="home" href="/"${path === '/' && html` aria-current="page"`}>Example</a>
    <nav aria-label="Site">${Object.entries(menu).map((entry) => link(path, entry))}</nav>
    <div class="account">${user === null ? path !== '/login.html' && html`<a href="/login.html">Log in</a>` : logout(user)}</div>
  </header>
  ${user !== null && tokenPanel(request, user)}
  <main id="main" tabindex="-1">
    ${user !== null && html`<div id="switched" class="notice" role="alert"></div>`}
    <h1>${title}</h1>
    <p id="message" class="message" role="alert"${isFocused && html` tabindex="-1" autofocus`}>${message}</p>
    ${main}
    <p id="waiting" class="waiting" role="status"></p>
  </main>
</body>
</html>
`))
}
