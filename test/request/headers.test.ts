/** Requests that no HTTP parser has made are read as those that Node.js has parsed. */
import websocket from '@fastify/websocket'
import assert from 'node:assert/strict'
import t, { type Test } from 'tap'
import type { TokenAuthOptions } from '../../lib/index.ts'
import { parsed } from '../../lib/request/headers.ts'
import { build, caseOf, claims, forge, mistyped } from '../helper.ts'

const token = forge(claims())

/** How `injectWS` is answered: what the handler was told, or the status of the refusal. */
async function opening (t: Test, options: Partial<TokenAuthOptions>) {
  const app = await build(t, options)
  await app.register(websocket)
  let source: string | null = null
  app.get('/ws', { websocket: true, onRequest: app.tokenAuth.protect() }, (_socket, request) => { ({ source } = request.tokenAuth) })
  await app.ready()
  return async (headers: Record<string, unknown>) => {
    source = null
    try {
      const socket = await app.injectWS('/ws', mistyped({ headers }))
      socket.terminate()
      return source
    } catch (error) {
      return /\d{3}/.exec(String(error))?.[0]
    }
  }
}

// Promise: security/request-without-parser
t.test('injectWS opens a socket behind a guard with a token in the header or the cookie, in any spelling, and twins are refused', async (t) => {
  const sources: Record<string, [options: Partial<TokenAuthOptions>, cases: ReadonlyArray<readonly [headers: Record<string, unknown>, answer: string]>]> = {
    header: [{}, [
      [{ authorization: `Bearer ${token}` }, 'header'],
      [{ Authorization: `Bearer ${token}` }, 'header'],
      [{ AUTHORIZATION: [`Bearer ${token}`] }, 'header'],
      [{}, '401'],
      [{ authorization: undefined }, '401'],
      [{ authorization: 'Bearer x' }, '401'],
      [{ authorization: `Bearer ${token}`, Authorization: `Bearer ${token}` }, '401'],
      [{ authorization: [`Bearer ${token}`, 'Bearer x'] }, '401'],
      [Object.create({ authorization: `Bearer ${token}` }), '401'],
      [JSON.parse(`{"__proto__":{"authorization":"Bearer ${token}"}}`), '401']
    ]],
    cookie: [{ cookieSet: true }, [
      [{ cookie: `access_token=${token}` }, 'cookie'],
      [{ Cookie: `a=1; access_token=${token}` }, 'cookie'],
      [{ cookie: ['a=1', `access_token=${token}`] }, 'cookie'],
      [{ cookie: 'a=1', Cookie: `access_token=${token}` }, 'cookie'],
      [{ cookie: [`access_token=${token}`, `access_token=${token}`] }, '401'],
      [{ cookie: `access_token=${token}`, Cookie: 'access_token=x' }, '401'],
      [{ cookie: `access_token=${token}`, host: 'example.org', origin: 'https://example.org' }, 'cookie'],
      [{ cookie: `access_token=${token}`, host: 'example.org', Origin: 'https://evil.example' }, '403'],
      [{ cookie: `access_token=${token}`, host: 'example.org', origin: 'https://example.org', Origin: 'https://evil.example' }, '403'],
      [{ cookie: `access_token=${token}`, 'sec-fetch-site': 'same-origin', 'Sec-Fetch-Site': 'cross-site' }, '403']
    ]]
  }
  for (const [name, [options, cases]] of Object.entries(sources)) {
    const open = await opening(t, options)
    for (const [headers, answer] of cases) assert.equal(await open(headers), answer, caseOf([name, headers]))
  }
})

t.test('a request of Node.js is read as it is', async (t) => {
  const raw = { url: '/', headers: { authorization: 'one' }, rawHeaders: ['Authorization', 'one'] }
  t.equal(parsed(raw), raw)
  const own = parsed({ url: '/', headers: { Cookie: ['a=1', 'b=2'], 'X-List': ['1', '2'], 'x-number': 5 as unknown as string } })
  t.match(own, { url: '/', rawHeaders: ['Cookie', 'a=1', 'Cookie', 'b=2', 'X-List', '1', 'X-List', '2', 'x-number', '5'] })
  t.same(own.headers, { cookie: 'a=1; b=2', 'x-list': '1, 2', 'x-number': '5' })
})
