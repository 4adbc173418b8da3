/** `request.tokenAuth.can`: a question about scopes, by the rules of `scoped`. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import type { ScopeOptions, TokenAuthOptions } from '../../lib/index.ts'
import { granted, issue, trusted, withIssuers } from '../authorities/issuers.ts'
import { bearer, build, caseOf, claims, environment, forge, login, mistyped, now, together, unhandled, warnings } from '../helper.ts'

type Question = (request: FastifyRequest) => unknown

/** An application whose unguarded route answers what a test asks of its request. */
async function asking (t: Test, options: Partial<TokenAuthOptions> = {}, app?: FastifyInstance) {
  const asked = app ?? await build(t, options)
  let question: Question = () => null
  asked.get('/open', async (request) => ({ answer: question(request) }))
  const ask = async (headers: Record<string, string>, scopes: unknown, scopeOptions?: ScopeOptions) => {
    question = ({ tokenAuth }) => tokenAuth.can(mistyped<string>(scopes), scopeOptions)
    return await asked.inject({ url: '/open', headers })
  }
  return { app: asked, ask, is: async (...given: Parameters<typeof ask>) => (await ask(...given)).json().answer }
}

const withScopes = (...scopes: string[]) => bearer(forge(claims({ scopes })))
const words = fc.constantFrom('user', 'report', 'read', 'write', 'a')
const scope = fc.tuple(fc.option(words, { nil: '' }), fc.array(words, { maxLength: 3 })).map(([namespace, actions]) => [namespace, ...actions].join(':')).filter((text) => text !== '')

// Promise: specification/can
t.test('it is what scoped() decides, for any scopes of a token and of a question', async () => {
  await fc.assert(fc.asyncProperty(fc.array(scope, { maxLength: 4 }), fc.array(scope, { minLength: 1, maxLength: 3 }), fc.boolean(), fc.boolean(), async (owned, required, requireAll, requireAllActions) => {
    const app = await build(t)
    const options = { requireAll, requireAllActions }
    app.get('/scoped', { onRequest: app.tokenAuth.scoped(required, options) }, async () => 'reached')
    const { is } = await asking(t, {}, app)
    const headers = withScopes(...owned)
    const isLetIn = (await app.inject({ url: '/scoped', headers })).statusCode === 200
    assert.equal(await is(headers, required, options), isLetIn)
    assert.equal(await is(headers, required), (await is(headers, required, { requireAll: true, requireAllActions: true })))
    if (required.length === 1) assert.equal(await is(headers, required[0], options), isLetIn)
    await app.close()
  }), { numRuns: 100 })
})

t.test('without a valid token it is false, whoever asks', async (t) => {
  const given = await build(t, { cookieSet: true, cookieStrict: false })
  given.post('/posted', async ({ tokenAuth }) => ({ answer: tokenAuth.can('user') }))
  const { app, is, ask } = await asking(t, {}, given)
  for (const headers of [{}, bearer('x'), { authorization: 'Basic YTpi' }, bearer(forge(claims({ scopes: ['user'], exp: now() - 3600 }))), bearer(forge(claims({ scopes: ['user'] }), { key: 'another secret, of more than sixty-four bytes: 0123456789012345678901' }))]) {
    assert.equal(await is(headers, 'user'), false, caseOf(headers))
  }
  t.equal(await is(withScopes('user'), 'user'), true)
  t.equal(await is(bearer(forge(claims())), 'user'), false, 'no scopes claim')
  t.equal((await ask({}, '')).statusCode, 500, 'malformed scopes are found without a token')
  const cookie = { cookie: `access_token=${forge(claims({ scopes: ['user'] }))}` }
  const foreign = await app.inject({ method: 'POST', url: '/posted', headers: { ...cookie, 'sec-fetch-site': 'cross-site' } })
  t.same(foreign.json(), { answer: false })
})

t.test('where a guard accepts what the registration does not, it speaks of what the guard accepted', async (t) => {
  const { app } = await asking(t)
  app.get('/lenient', { onRequest: app.tokenAuth.protect({ leeway: 1000 }) }, async ({ tokenAuth }) => ({ answer: tokenAuth.can('user') }))
  app.get('/roles', { onRequest: app.tokenAuth.protect({ scopesName: 'roles' }) }, async ({ tokenAuth }) => ({ answer: tokenAuth.can('admin') }))
  t.same((await app.inject({ url: '/lenient', headers: bearer(forge(claims({ scopes: ['user'], exp: now() - 500 }))) })).json(), { answer: true })
  t.same((await app.inject({ url: '/roles', headers: bearer(forge(claims({ roles: ['admin'] }))) })).json(), { answer: true })
})

// Promise: specification/can-malformed
t.test('malformed scopes and wrong options are a configuration error that shows them', async (t) => {
  environment(t, 'test')
  const { ask } = await asking(t)
  const grammar = ' A scope has the form "<namespace>:<action>:...", such as "user", "user:read" or ":read", without white space or empty actions. Only scopes of trusted issuers with "exactScopes" may be other text.'
  for (const [given, shown] of [['', "''"], ['a b', "'a b'"], [[], '[]'], [undefined, 'undefined'], [null, 'null'], [['user', ''], "[ 'user', '' ]"], [() => 'user', '[Function (anonymous)]']] as const) {
    const answer = await ask(withScopes('user'), given)
    assert.deepEqual([answer.statusCode, answer.json().code], [500, 'TOKEN_AUTH_INVALID_CONFIGURATION'], shown)
    assert.ok(answer.json().message.startsWith(`can() requires a scope or a non-empty list of scopes; given: ${shown}.${grammar}`), answer.body)
  }
  for (const [options, message] of [[{ requireAl: false }, 'can() has no option "requireAl". Did you mean "requireAll"?'], [{ requireAll: 'no' }, '"requireAll" of can() must be true or false; given: a string.'], [5, 'The options of can() must be a plain object']] as const) {
    const answer = await ask(withScopes('user'), 'user', mistyped(options))
    assert.ok(answer.json().message.startsWith(message), answer.body)
  }
})

t.test('the handlers of scopes take part, and may not be asynchronous: `if (can())` with a promise would let everybody pass', async (t) => {
  const reasons = unhandled(t)
  warnings(t, 'W15')
  const { is } = await asking(t, { destructureScopes: (scopes) => scopes.map((text) => `team:${text}`), overrideScopeValidator: (isValid, required) => isValid || required === 'team:guest' })
  t.same([await is(withScopes('team:user'), 'user'), await is(withScopes('user'), 'user'), await is(withScopes(), 'guest')], [true, false, true])
  t.equal(await is({}, 'guest'), false, 'not even the handler lets a request without a token pass')

  const failures: Array<[string, Partial<TokenAuthOptions>]> = [
    ['destructureScopes', { destructureScopes: async (scopes) => scopes }],
    ['destructureScopes', { destructureScopes: async () => { throw new Error('late') } }],
    ['destructureScopes', { destructureScopes: () => { throw new Error('at once') } }],
    ['destructureScopes', { destructureScopes: () => mistyped({ then: () => {} }) }],
    ['overrideScopeValidator', { overrideScopeValidator: mistyped(async () => true) }],
    ['overrideScopeValidator', { overrideScopeValidator: mistyped(async () => { throw new Error('late') }) }],
    ['overrideScopeValidator', { overrideScopeValidator: mistyped(() => ({ then: () => {} })) }],
    ['overrideScopeValidator', { overrideScopeValidator: () => { throw new Error('at once') } }]
  ]
  for (const [name, options] of failures) {
    const { ask } = await asking(t, options)
    const answer = await ask(withScopes('user'), 'user')
    assert.deepEqual([answer.statusCode, answer.json().message], [500, `The ${name} handler failed.`], caseOf(options))
  }
  for (const result of [[], '', 'a b', null, undefined]) {
    const { ask } = await asking(t, { destructureScopes: () => mistyped(result) })
    const answer = await ask(withScopes('user'), 'user')
    assert.deepEqual([answer.statusCode, answer.json().code], [500, 'TOKEN_AUTH_INVALID_SCOPES'], caseOf(result))
  }
  for (const result of [undefined, null, 1, 'true', {}, []]) {
    const { is } = await asking(t, { overrideScopeValidator: () => mistyped(result) })
    assert.equal(await is(withScopes('user'), 'user'), false, caseOf(result))
  }
  t.same(reasons, [])
})

t.test('scopes of trusted issuers are compared as their guard would compare them', async (t) => {
  const app = await withIssuers(t, trusted({ exactScopes: true, scopesName: 'roles' }))
  const { is } = await asking(t, {}, app)
  const headers = bearer(issue('a', granted({ roles: ['Site Manager', 'email'] })))
  t.same([await is(headers, 'Site Manager'), await is(headers, 'email'), await is(headers, 'email:write'), await is(headers, ['Site Manager', 'other'], { requireAll: false })], [true, true, false, true])
})

t.test('before an asynchronous verification has ended, it throws what readers throw', async (t) => {
  const app = await build(t, together({ trusted: async () => true }))
  const { ask } = await asking(t, {}, app)
  app.get('/guarded', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth }) => ({ answer: tokenAuth.can('user') }))
  app.get('/ready', async ({ tokenAuth }) => {
    await tokenAuth.ready()
    return { answer: tokenAuth.can('user') }
  })
  const early = await ask(withScopes('user'), 'user')
  t.same([early.statusCode, early.json().code], [500, 'TOKEN_AUTH_INITIALIZATION_FAILURE'])
  for (const url of ['/guarded', '/ready']) t.same((await app.inject({ url, headers: withScopes('user') })).json(), { answer: true })
})

t.test('scopes of a login are those that can() sees', async (t) => {
  const { app, is } = await asking(t, { scopesEnabled: true, addScopesToPayload: () => ['report:read'] })
  const headers = bearer((await login(app)).json().access_token)
  t.same([await is(headers, 'report:read'), await is(headers, 'report:write')], [true, false])
})
