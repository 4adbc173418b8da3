/** Where a token is read from, as a route meets it. */
import t from 'tap'
import type { TokenAuthOptions } from '../lib/index.ts'
import { bearer, build, claims, forge } from './helper.ts'

/** One valid token for each place; who was let in says which place decided. */
const from = (place: string) => forge(claims({ user_id: place }))
const header = bearer(from('header'))
const cookie = { cookie: `access_token=${from('cookie')}` }
const query = { access_token: from('query') }
const everywhere = { headers: { ...header, ...cookie }, query }

const cookieMode = { cookieSet: true }
const laxCookie = { cookieSet: true, cookieStrict: false }
const queryMode = { queryStringSet: true }
const laxQuery = { queryStringSet: true, queryStringStrict: false }

interface Sent { headers?: Record<string, string>, query?: Record<string, string> }

/** Who was let in, or the error that refused. */
const decisions: [what: string, options: TokenAuthOptions, sent: Sent, outcome: string][] = [
  ['header mode: the header, whatever else is there', {}, everywhere, 'header'],
  ['header mode: nothing else helps', {}, { headers: cookie, query }, 'MissingAuthorizationHeader'],
  ['cookie mode: the cookie, whatever else is there', cookieMode, everywhere, 'cookie'],
  ['cookie mode: nothing else helps', cookieMode, { headers: header, query }, 'MissingAuthorizationCookie'],
  ['cookie mode: an empty cookie is missing', cookieMode, { headers: { ...header, cookie: 'access_token=' } }, 'MissingAuthorizationCookie'],
  ['lax cookie mode: the cookie first', laxCookie, everywhere, 'cookie'],
  ['lax cookie mode: then the header', laxCookie, { headers: header, query }, 'header'],
  ['lax cookie mode: also where the cookie is empty', laxCookie, { headers: { ...header, cookie: 'access_token=' } }, 'header'],
  ['lax cookie mode: a bad cookie ends the search', laxCookie, { headers: { ...header, cookie: 'access_token=bad' } }, 'InvalidToken'],
  ['lax cookie mode: none at all', laxCookie, { query }, 'MissingAuthorizationHeader'],
  ['query mode: the parameter, whatever else is there', queryMode, everywhere, 'query'],
  ['query mode: nothing else helps', queryMode, { headers: { ...header, ...cookie } }, 'MissingAuthorizationQueryArg'],
  ['query mode: an empty parameter is missing', queryMode, { headers: header, query: { access_token: '' } }, 'MissingAuthorizationQueryArg'],
  ['lax query mode: then the header', laxQuery, { headers: { ...header, ...cookie } }, 'header'],
  ['lax query mode: a bad parameter ends the search', laxQuery, { headers: header, query: { access_token: 'bad' } }, 'InvalidToken'],
  ['both lax: cookie, query, header', { ...laxCookie, ...laxQuery }, everywhere, 'cookie'],
  ['both lax: the query before the header', { ...laxCookie, ...laxQuery }, { headers: header, query }, 'query'],
  ['both lax: the header at last', { ...laxCookie, ...laxQuery }, { headers: header }, 'header'],
  ['lax cookie, strict query: no header', { ...laxCookie, ...queryMode }, { headers: header }, 'MissingAuthorizationQueryArg'],
  ['strict cookie: no query', { ...cookieMode, ...laxQuery }, { headers: header, query }, 'MissingAuthorizationCookie'],
  ['other names', { ...laxCookie, ...laxQuery, cookieAccessTokenName: 'c', queryStringAccessTokenName: 'q' }, everywhere, 'header'],
  ['another cookie', { ...cookieMode, cookieAccessTokenName: 'c' }, { headers: { cookie: `access_token=bad; c=${from('cookie')}` } }, 'cookie'],
  ['another parameter', { ...queryMode, queryStringAccessTokenName: 'q' }, { query: { access_token: 'bad', q: from('query') } }, 'query']
]

t.test('cookie, query string, header: the first token that is there decides, valid or not, and a strict place ends the search', async (t) => {
  for (const [what, options, sent, outcome] of decisions) {
    const app = await build(t, options)
    app.get('/', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth: { userId, source } }) => ({ userId, source }))
    const response = await app.inject({ url: '/', ...sent })
    const isRefused = /[A-Z]/.test(outcome)
    t.equal(response.statusCode, isRefused ? 401 : 200, what)
    t.match(response.json(), isRefused ? { exception: outcome } : { userId: outcome, source: outcome }, what)
  }
})

t.test('the header: scheme in any case, any spaces after it, and none where the prefix is empty', async (t) => {
  const token = from('header')
  const cases: [options: TokenAuthOptions, value: string, outcome: string][] = [
    [{}, `Bearer ${token}`, 'header'],
    [{}, `bEARER ${token}`, 'header'],
    [{}, `Bearer   ${token}`, 'header'],
    [{}, 'Bearer', 'InvalidAuthorizationHeader'],
    [{}, token, 'InvalidAuthorizationHeader'],
    [{}, `Bearer${token}`, 'InvalidAuthorizationHeader'],
    [{}, `Bearer\t${token}`, 'InvalidAuthorizationHeader'],
    [{}, `Token ${token}`, 'InvalidAuthorizationHeader'],
    [{}, `Bearer ${token}, Bearer ${token}`, 'InvalidToken'],
    [{ authorizationHeaderPrefix: 'Token' }, `Token ${token}`, 'header'],
    [{ authorizationHeaderPrefix: 'Token' }, `Bearer ${token}`, 'InvalidAuthorizationHeader'],
    [{ authorizationHeaderPrefix: '' }, token, 'header'],
    [{ authorizationHeaderPrefix: '' }, `Bearer ${token}`, 'InvalidToken']
  ]
  for (const [options, value, outcome] of cases) {
    for (const authorizationHeader of ['Authorization', 'X-Token']) {
      const app = await build(t, { ...options, authorizationHeader })
      app.get('/', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth: { userId } }) => ({ userId }))
      const response = await app.inject({ url: '/', headers: { [authorizationHeader]: value } })
      t.match(response.json(), outcome === 'header' ? { userId: outcome } : { exception: outcome }, `${authorizationHeader}: ${value.replace(token, '<token>')}`)
    }
  }
})
