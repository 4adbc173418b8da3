/** Pages that a browser has fetched before somebody logs in or out, by speculation rules of the page that has the link. */
import type { FastifyReply } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth from '../../lib/index.ts'
import { authenticate, host, listen, secret, users } from '../helper.ts'
import { openChromium, skip } from './browser.ts'
import { until } from './stores/process.ts'

const browser = openChromium(t)

const show = (reply: FastifyReply, body: string) => reply.type('text/html').send(`<!doctype html><title>page</title><link rel="icon" href="data:,">${body}`)

/** A service whose first page has its account page fetched in advance, and the requests for it. */
async function openShop (t: Test, kind: string): Promise<{ address: string, asked: string[] }> {
  const app = host(t, { forceCloseConnections: true })
  await app.register(tokenAuth, { secret, authenticate, retrieveUser: async () => users[0], sessions: {}, cookieSet: true, tokensInBody: false, loginRedirectUrl: '/login' })
  const asked: string[] = []
  app.get('/', (_request, reply) => show(reply, `<script type="speculationrules">{ "${kind}": [{ "urls": ["/account"], "eagerness": "immediate" }] }</script><a href="/account">account</a>`))
  app.get('/login', (_request, reply) => show(reply, '<h1>login</h1>'))
  app.get('/account', { onRequest: app.tokenAuth.protect({ redirectOnFail: true }) }, ({ tokenAuth }, reply) => show(reply, `<h1>user ${tokenAuth.userId}</h1>`))
  app.addHook('onResponse', async ({ url, headers }, reply) => {
    if (url === '/account') asked.push(`${reply.statusCode} ${headers['sec-purpose'] === undefined ? 'navigation' : 'in advance'}`)
  })
  return { address: `http://127.0.0.1:${await listen(app)}`, asked }
}

for (const kind of ['prefetch', 'prerender']) {
  for (const where of ['the page', 'another tab']) {
    // Promise: security/pages-fetched-in-advance
    t.test(`after a login or a logout in ${where}, Chromium shows no page that it has fetched before it, by ${kind}`, { skip }, async (t) => {
      const { address, asked } = await openShop(t, kind)
      const context = await (await browser()).newContext()
      context.setDefaultTimeout(0)
      t.teardown(async () => await context.close())
      const page = await context.newPage()
      const sender = where === 'the page' ? page : await context.newPage()
      const send = async (path: string, body: object) => await sender.evaluate(async ([path, body]) => {
        const { status } = await fetch(path!, { method: 'POST', headers: { 'content-type': 'application/json' }, body: body! })
        return status
      }, [path, JSON.stringify(body)])
      const after = async (path: string, body: object, status: number) => {
        asked.splice(0)
        if (sender !== page) await sender.goto(`${address}/login`)
        await page.bringToFront()
        await page.goto(address)
        await until(async () => asked.length > 0)
        t.equal(await send(path, body), status)
        await page.click('a')
        return await page.textContent('h1')
      }
      t.equal(await after('/auth', { username: 'ada', password: 'lovelace' }, 200), 'user 1')
      t.same(asked, ['302 in advance', '200 navigation'])
      t.equal(await after('/auth/logout', {}, 204), 'login')
      t.same(asked, ['200 in advance', '302 navigation'])
    })
  }
}
