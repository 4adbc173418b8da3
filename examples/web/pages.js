/**
 * The pages. The server renders them, and forms change what they show, so that they also work without JavaScript. Their
 * guards read the access token from the cookie only, renew it when it has expired, and lead visitors to the login page.
 */
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import formbody from '@fastify/formbody'
import fastifyStatic from '@fastify/static'
import { returnPath } from 'fastify-token-auth'
import { expiredToken } from './api.js'
import { attributesOf, messageOf } from './fields.js'
import { html } from './html.js'
import { sendPage, wantsPage } from './layout.js'
import { addLogin, recognize } from './login.js'
import { bodyLimit, errorsOf, limits, normalizeLineEndings } from './reports.js'

const publicFolder = fileURLToPath(new URL('public', import.meta.url))
/** The client for browsers is a single file without imports. */
const client = fileURLToPath(import.meta.resolve('fastify-token-auth/client'))

const { format } = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })
const time = (date) => html`<time datetime="${date.toISOString()}">${format(date)} UTC</time>`

/** Declares that everybody may use the routes that plugins add to a context. */
export function declarePublic (context) {
  context.addHook('onRoute', (route) => { route.config = { ...route.config, tokenAuth: false } })
}

const home = html`<p>A small service whose pages and API are protected by guards. You can log in as one of two users:</p>
    <table>
      <thead><tr><th scope="col">Name</th><th scope="col">Password</th><th scope="col">Reports</th></tr></thead>
      <tbody>
        <tr><td>ada</td><td>lovelace</td><td>read and write</td></tr>
        <tr><td>grace</td><td>hopper</td><td>read</td></tr>
      </tbody>
    </table>
    <h2>Things to try</h2>
    <ul>
      <li>Open <a href="/profile.html">your profile</a> while you are not logged in. You get to the login page, and back to your profile after the login.</li>
      <li>Log in, and press “Expire now”. Then send a request, or open another page: you stay logged in, because the access token is renewed.</li>
      <li>Log in as grace, and <a href="/new-report.html">write a report</a>. The page says why you cannot.</li>
      <li>Log in with a second browser, or in a private window, and open <a href="/devices.html">your devices</a> in the first. End the session of the second: the next thing that you do there leads to the login page, which says what happened.</li>
      <li>Log out in one of two tabs. The other one is logged out, too: it gets to the login page, and back to where it was after the login.</li>
      <li>Log in as ada, begin <a href="/new-report.html">a report</a>, and log out in another tab. After the next login, the page still has your text.</li>
      <li>Switch off JavaScript. All of this still works, but no text is kept, and a tab learns of a logout in another one with its next request.</li>
      <li>Call the API from <a href="/docs">its documentation</a>, where the cookies authenticate you, too, or with <a href="/curl">curl</a>.</li>
    </ul>`

const report = ({ title, text, author, written_at: writtenAt }) => html`<article>
      <h2>${title}</h2>
      <p class="by">${author}, ${time(new Date(writtenAt))}</p>
      <p class="text">${text}</p>
    </article>`

/** @param given what was sent, and is wrong. @param errors what is wrong, by the names of the fields */
const reportForm = (given, errors) => html`<form method="post" class="wide" data-enhanced data-draft novalidate>
      <label for="title">Title</label>
      <input ${attributesOf('title', errors)} value="${typeof given.title === 'string' && given.title}" maxlength="${limits.title}" required>
      ${messageOf('title', errors)}
      <label for="text">Text</label>
      <textarea ${attributesOf('text', errors)} rows="6" maxlength="${limits.text}" required>
${typeof given.text === 'string' && given.text}</textarea>
      ${messageOf('text', errors)}
      <button>Save</button>
    </form>`

const sendReportPage = (request, reply, given = {}, errors = {}) => sendPage(request, reply, 'Write a report',
  html`<p>You can write reports because you have the scope <code>reports:write</code>.</p>${reportForm(given, errors)}`,
  { description: 'Write a report of at most 2,000 characters.', message: Object.keys(errors).length > 0 && 'The report was not saved. Please correct what is marked.' })

const deviceItem = (current) => ({ id, createdAt, usedAt, data: { device } }) => html`<li>
        <strong>${device}</strong>
        ${id === current
          ? html`<span class="mark">This device</span>`
          : html`<button class="end" name="end" value="${id}" data-busy="Ending..." aria-label="End ${device}" aria-describedby="times-${id}">End</button>`}
        <p id="times-${id}"><span>Logged in: ${time(createdAt)}</span> <span>Last used: ${id === current ? 'now' : time(usedAt)}</span></p>
      </li>`

/** What was done. The address has only the name of a text, because anyone may have written it. */
const done = new Map(Object.entries({ one: 'The device is logged out.', others: 'All other devices are logged out.' }))

/**
 * Options of the guards of pages: with `redirectOnFail`, they also renew. Forms do so without a redirect to the login page, which
 * would lose what was entered: if the session is over, the answer is a 401, and the browser keeps the form.
 */
const page = { cookieStrict: true, redirectOnFail: true }
const form = { cookieStrict: true, renew: true }

/** @param app the context of the pages, in which alone forms are understood: other sites can send forms without asking, JSON they cannot */
export async function addPages (app, { reports }) {
  const { tokenAuth } = app
  await app.register(formbody)
  await app.register(async (site) => {
    declarePublic(site)
    await site.register(fastifyStatic, { root: publicFolder, index: false })
    site.get('/client.js', (request, reply) => reply.sendFile('client.js', dirname(client)))
  })
  app.addHook('onRoute', (route) => { route.schema = { ...route.schema, hide: true } })
  await addLogin(app)

  app.get('/', { config: { tokenAuth: false }, onRequest: recognize(app) }, async (request, reply) => sendPage(request, reply, 'fastify-token-auth', home))

  app.get('/profile.html', { onRequest: tokenAuth.protect(page) }, async (request, reply) => {
    const { name, user_id: id, scopes } = await request.tokenAuth.user()
    return sendPage(request, reply, 'Your profile', html`<dl>
      <dt>Name</dt><dd>${name}</dd>
      <dt>Number</dt><dd>${id}</dd>
      <dt>Scopes</dt><dd>${scopes.join(', ')}</dd>
    </dl>`, { description: 'Your name, your number, and what you may do.' })
  })

  app.get('/reports.html', { onRequest: tokenAuth.scoped('reports:read', page) }, async (request, reply) =>
    sendPage(request, reply, 'Reports', html`<p><a class="button" href="/new-report.html">Write a report</a></p>${reports.list().map(report)}`, { description: 'The latest reports, and who wrote them.' }))

  app.get('/new-report.html', { onRequest: tokenAuth.scoped('reports:write', page) }, async (request, reply) => sendReportPage(request, reply))

  app.post('/new-report.html', { onRequest: tokenAuth.scoped('reports:write', form), bodyLimit, preValidation: normalizeLineEndings }, async (request, reply) => {
    const errors = errorsOf(request.body)
    if (Object.keys(errors).length > 0) {
      reply.code(400).header('vary', 'accept')
      if (wantsPage(request)) return sendReportPage(request, reply, Object(request.body), errors)
      return { statusCode: 400, error: 'Bad Request', message: 'Some fields are wrong.', errors }
    }
    const { name } = await request.tokenAuth.user()
    reports.add(request.body, name)
    return reply.redirect('/reports.html', 303)
  })

  app.get('/devices.html', { onRequest: tokenAuth.protect(page) }, async (request, reply) => {
    const { userId, sessionId } = request.tokenAuth.verified
    const sessions = await tokenAuth.sessions.list(userId)
    const notice = done.get(request.query.ended)
    // The current one first.
    sessions.sort((a, b) => Number(b.id === sessionId) - Number(a.id === sessionId))
    return sendPage(request, reply, 'Your devices', html`${notice && html`<p class="notice" role="status" tabindex="-1" autofocus>${notice}</p>`}
    <p>Each login starts a session. A device that is in use renews its session every 30 minutes: that is its last use.</p>
    <form method="post" class="wide" data-enhanced>
      <ul class="devices" aria-label="Devices">${sessions.map(deviceItem(sessionId))}</ul>
      ${sessions.length > 1 && html`<button class="end" name="end" value="others" data-busy="Ending...">End all others</button>`}
    </form>`, { description: 'The devices on which you are logged in. You can log out each of them.' })
  })

  app.post('/devices.html', { onRequest: tokenAuth.protect(form), bodyLimit }, async (request, reply) => {
    const { userId, sessionId } = request.tokenAuth.verified
    const end = request.body?.end
    if (end === 'others') {
      await tokenAuth.sessions.endAll(userId, { except: sessionId })
      return reply.redirect('/devices.html?ended=others', 303)
    }
    const isEnded = await tokenAuth.sessions.end(userId, end)
    return reply.redirect(`/devices.html${isEnded ? '?ended=one' : ''}`, 303)
  })

  // Shows what happens when a token expires: the cookie gets one that expired long ago. The session goes on.
  app.post('/token/expire', { onRequest: tokenAuth.protect(form), bodyLimit }, async (request, reply) => {
    const { settings: { cookieAccessTokenName, cookiePath, cookieSecure, cookieSamesite } } = tokenAuth
    const expired = await expiredToken(tokenAuth, await request.tokenAuth.user())
    reply.header('set-cookie', app.serializeCookie(cookieAccessTokenName, expired, { path: cookiePath, secure: cookieSecure, sameSite: cookieSamesite, httpOnly: true }))
    return wantsPage(request) ? reply.redirect(returnPath(Object(request.body).next), 303) : reply.code(204).send()
  })
}
