/** docs/testing.md: what guards answer is what its table says. */
import { readFileSync } from 'node:fs'
import type { InjectOptions } from 'fastify'
import t from 'tap'
import { createTestToken } from '../../lib/testing.ts'
import { bearer, build, claims, forge, otherSecret } from '../helper.ts'
import { logout, started, withSessions } from '../sessions/helper.ts'

const text = readFileSync(new URL('../../docs/testing.md', import.meta.url), 'utf8')
const [, chapter = ''] = /^## What guards answer\n([^]*?)^## /m.exec(text) ?? []
const rows = Array.from(chapter.matchAll(/^\| (.+) \| (\d+)(.*) \|$/gm), ([, request = '', status = '', rest = '']) => ({ request, status: Number(status), exceptions: Array.from(rest.matchAll(/`([A-Z]\w+)`/g), ([, name]) => name) }))

interface Response { statusCode: number, exception?: string }

t.test('guards answer each request as the table says', async (t) => {
  const app = await build(t, { trusted: (_request, payload) => payload.blocked !== true, retrieveUser: () => null })
  app.get('/', { onRequest: app.tokenAuth.protect() }, async (request) => await request.tokenAuth.user())
  app.get('/reports', { onRequest: app.tokenAuth.scoped('reports:read') }, async () => 'reports')
  const { app: cookies } = await withSessions(t, { cookieSet: true })
  cookies.post('/orders', { onRequest: cookies.tokenAuth.protect() }, async () => 'added')
  const { app: sessions } = await withSessions(t)
  const named = await build(t, { claimIss: 'https://shop.example', claimAud: 'shop' })
  named.get('/', { onRequest: named.tokenAuth.protect() }, async () => 'named')

  const send = async (server: typeof app, given: InjectOptions): Promise<Response> => {
    const response = await server.inject(given)
    return { statusCode: response.statusCode, exception: response.statusCode === 200 ? undefined : response.json().exception }
  }
  const get = async (token: string, url = '/') => await send(app, { url, headers: bearer(token) })
  const user = { user_id: 1 }
  const answers: Record<string, () => Promise<Response[]>> = {
    'without a token': async () => [await send(app, { url: '/' }), await send(cookies, { url: '/' })],
    'with another scheme than `Bearer`': async () => [await send(app, { url: '/', headers: { authorization: 'Basic YTpi' } })],
    'with a malformed token, or one of another key, or one that `trusted` refuses': async () => [
      await get('a.b.c'), await get('a b'), await get(forge(claims(), { key: otherSecret })), await get(await createTestToken(app.tokenAuth, user, { claims: { blocked: true } }))
    ],
    'with a token of another issuer or audience (`claimIss`, `claimAud`), or without a user id': async () => [
      await send(named, { url: '/', headers: bearer(await createTestToken(named.tokenAuth, user, { state: 'otherIssuer' })) }),
      await send(named, { url: '/', headers: bearer(await createTestToken(named.tokenAuth, user, { state: 'otherAudience' })) }),
      await get(forge(claims({ user_id: undefined })))
    ],
    'with an expired token': async () => [await get(await createTestToken(app.tokenAuth, user, { state: 'expired' }))],
    'with a token of an ended session': async () => {
      const tokens = await started(sessions)
      await logout(sessions, tokens.refresh_token)
      return [await send(sessions, { url: '/', headers: bearer(tokens.access_token) })]
    },
    'with too few scopes': async () => [await get(await createTestToken(app.tokenAuth, user, { scopes: 'reports:write' }), '/reports')],
    'in cookie mode, a POST request of another origin': async () => [await send(cookies, { method: 'POST', url: '/orders', headers: { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }, cookies: { access_token: forge(claims()) } })],
    'with the token of a deleted user': async () => [await get(await createTestToken(app.tokenAuth, user))]
  }
  t.same(rows.map(({ request }) => request), Object.keys(answers))
  for (const { request, status, exceptions } of rows) {
    const found = await answers[request]?.() ?? []
    t.same([...new Set(found.map(({ statusCode }) => statusCode))], [status], request)
    t.same([...new Set(found.flatMap(({ exception }) => exception ?? []))], exceptions, request)
  }
  const token = await createTestToken(app.tokenAuth, user)
  t.same((await app.inject({ url: '/', headers: bearer(token) })).json(), null)
  t.same((await app.inject({ url: '/auth/me', headers: bearer(token) })).json(), { me: null })
})
