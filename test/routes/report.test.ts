/** `routes()` and `printRoutes()`: who may use the routes of an application. */
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import tokenAuth, { injectUser, protect, scoped, View, type RouteAccess } from '../../lib/index.ts'
import { build, keysFor, mistyped, otherSecret, refreshStore, secret, warnings } from '../helper.ts'

const handler = async () => 'reached'

/** The rows of a path. */
const rowsAt = (app: FastifyInstance, url: string) => app.tokenAuth.routes().filter((row) => row.url === url)

/** What is said of the only method of a path, or of GET. */
function rowAt (app: FastifyInstance, url: string): Partial<RouteAccess> {
  return rowsAt(app, url).find(({ method }) => method !== 'HEAD') ?? {}
}

async function example (app: FastifyInstance): Promise<FastifyInstance> {
  app.get('/basic', { config: { tokenAuth: 'basic auth' } }, handler)
  app.post('/reports', { preHandler: app.tokenAuth.scoped(['reports:write', 'admin'], { requireAll: false }) }, handler)
  app.put('/reports', { preHandler: app.tokenAuth.scoped(['reports:write', 'admin']) }, handler)
  app.post('/teams/:id', { preValidation: app.tokenAuth.scoped(() => 'teams') }, handler)
  app.get('/hello', app.tokenAuth.injectUser(handler))
  app.options('*', handler)
  await app.ready()
  return app
}

t.test('printRoutes() is a table of who may use which route, sorted by URL, with HEAD beside its GET', async (t) => {
  const { stored, ...store } = refreshStore()
  const app = await example(await build(t, store))
  t.equal(app.tokenAuth.printRoutes(), `\
OPTIONS   *              undecided
POST      /auth          public
GET,HEAD  /auth/me       protected  tokenAuth in onRequest
POST      /auth/refresh  other      requires an access token and a refresh token
GET,HEAD  /auth/verify   other      says whether the token is valid
GET,HEAD  /basic         other      basic auth
GET,HEAD  /hello         optional   tokenAuth? in handler
POST      /reports       scoped     tokenAuth in preHandler reports:write or admin
PUT       /reports       scoped     tokenAuth in preHandler reports:write and admin
POST      /teams/:id     scoped     tokenAuth in preValidation (scopes computed)
`)
})

// Promise: security/route-without-guard
t.test('routes() has a row for each method, with everything that decides', async (t) => {
  const app = await example(await build(t))
  const guard = { instanceName: 'tokenAuth', hook: 'preHandler', isOptional: false }
  t.same(rowsAt(app, '/reports'), [
    { method: 'POST', url: '/reports', access: 'scoped', guards: [{ ...guard, scopes: [['reports:write'], ['admin']] }], note: '', plugin: 'fastify' },
    { method: 'PUT', url: '/reports', access: 'scoped', guards: [{ ...guard, scopes: [['reports:write', 'admin']] }], note: '', plugin: 'fastify' }
  ])
  t.same(rowAt(app, '/teams/:id'), { method: 'POST', url: '/teams/:id', access: 'scoped', guards: [{ ...guard, hook: 'preValidation', scopes: null }], note: '', plugin: 'fastify' })
  t.same(rowsAt(app, '/hello').map(({ method, access, guards }) => [method, access, guards]), ['HEAD', 'GET'].toReversed().map((method) => [method, 'optional', [{ ...guard, hook: 'handler', isOptional: true, scopes: [] }]]))
  t.same(rowAt(app, '/auth/me'), { method: 'GET', url: '/auth/me', access: 'protected', guards: [{ ...guard, hook: 'onRequest', scopes: [] }], note: '', plugin: 'fastify-token-auth' })
  t.match(rowAt(app, '/auth'), { access: 'public', guards: [], note: '' })
  t.match(rowAt(app, '/basic'), { access: 'other', guards: [], note: 'basic auth' })
  t.match(rowAt(app, '*'), { access: 'undecided', guards: [], note: '' })
})

t.test('the endpoints of sessions, the key set and class views say what they are', async (t) => {
  class Reports extends View {
    override readonly guards = { get: this.instance.scoped('reports'), post: false as const }
    override get () { return {} }
    override post () { return {} }
    override put () { return {} }
    override options () {}
  }
  const app = await build(t, mistyped({
    secret: undefined, ...keysFor('EdDSA'), claimIss: 'us', claimAud: 'us', pathToJwks: '/jwks', sessions: {}, classViews: [['/reports', Reports]]
  }))
  await app.ready()
  t.equal(app.tokenAuth.printRoutes(), `\
POST      /auth                   public
GET,HEAD  /auth/jwks              public
POST      /auth/logout            other      requires a token of the session
GET,HEAD  /auth/me                protected  tokenAuth in onRequest
POST      /auth/refresh           other      requires a refresh token
GET,HEAD  /auth/reports           scoped     tokenAuth in onRequest reports
OPTIONS   /auth/reports           public
POST      /auth/reports           public
PUT       /auth/reports           undecided
DELETE    /auth/sessions          protected  tokenAuth in onRequest
GET,HEAD  /auth/sessions          protected  tokenAuth in onRequest
DELETE    /auth/sessions/:id      protected  tokenAuth in onRequest
POST      /auth/sessions/:id/end  protected  tokenAuth in onRequest
GET,HEAD  /auth/verify            other      says whether the token is valid
`)
})

t.test('what stands before the application is ready is no answer: both throw', async (t) => {
  const app = await build(t)
  const refused = { name: 'InvalidConfiguration', message: /^The routes are known when the application is ready\./ }
  t.throws(() => app.tokenAuth.routes(), refused)
  t.throws(() => app.tokenAuth.printRoutes(), refused)
  await app.ready()
  t.equal(app.tokenAuth.routes().length > 0, true)
})

t.test('the rows belong to the caller: changing them changes nothing', async (t) => {
  const app = await example(await build(t))
  const before = app.tokenAuth.printRoutes()
  for (const row of app.tokenAuth.routes()) {
    row.access = 'public'
    row.guards.length = 0
  }
  t.equal(app.tokenAuth.printRoutes(), before)
  t.equal(rowAt(app, '/reports').access, 'scoped')
})

t.test('guards of contexts, of every instance and free-standing ones count, before and after the route', async (t) => {
  const app = await build(t, { authMode: false })
  await app.register(tokenAuth, { instanceName: 'staff', authMode: false, secret: otherSecret })
  await app.register(async function orders (nested) {
    nested.addHook('onRequest', app.tokenAuth.protect())
    nested.get('/before', handler)
    await nested.register(async (inner) => {
      inner.get('/inner', { preHandler: app.staff.scoped('a') }, handler)
    })
  })
  await app.register(async (nested) => {
    nested.get('/after', handler)
    nested.addHook('preHandler', scoped('b'))
  })
  await app.register(async (nested) => {
    // An instance of the same name, which the free-standing guard finds.
    await nested.register(tokenAuth, { authMode: false, secret: otherSecret })
    nested.get('/shadowed', { onRequest: protect() }, handler)
  })
  app.get('/free', { onRequest: protect({ instanceName: 'staff' }) }, handler)
  app.get('/absent', { onRequest: protect({ instanceName: 'partner' }) }, handler)
  app.get('/two', { onRequest: app.tokenAuth.protect() }, app.staff.injectUser(handler))
  app.get('/behind', { onRequest: app.tokenAuth.protect() }, app.tokenAuth.injectUser(handler))
  app.get('/injected', injectUser(handler))
  app.get('/both', { onRequest: app.tokenAuth.protect(), config: { tokenAuth: 'and an API key' } }, handler)
  app.get('/other', { config: { tokenAuth: 'an API key' } }, app.tokenAuth.injectUser(handler))
  await app.ready()
  t.equal(app.tokenAuth.printRoutes(), `\
GET,HEAD  /absent    undecided
GET,HEAD  /after     scoped     tokenAuth in preHandler b
GET,HEAD  /before    protected  tokenAuth in onRequest
GET,HEAD  /behind    protected  tokenAuth in onRequest
GET,HEAD  /both      protected  tokenAuth in onRequest; and an API key
GET,HEAD  /free      protected  staff in onRequest
GET,HEAD  /injected  optional   tokenAuth? in handler
GET,HEAD  /inner     scoped     tokenAuth in onRequest; staff in preHandler a
GET,HEAD  /other     other      tokenAuth? in handler; an API key
GET,HEAD  /shadowed  protected  tokenAuth in onRequest
GET,HEAD  /two       protected  tokenAuth in onRequest; staff? in handler
`)
  t.equal(app.staff.printRoutes(), app.tokenAuth.printRoutes(), 'of the whole application')
  t.equal((await app.inject('/absent')).statusCode, 500, 'a guard without its instance opens nothing')
  t.same(['/before', '/free'].map((url) => rowAt(app, url).plugin), ['orders', 'fastify'])
})

t.test('a guard that is switched off protects nothing, unless a getter decides', async (t) => {
  warnings(t, 'W03')
  const app = await build(t, { authMode: false })
  app.get('/off', { onRequest: app.tokenAuth.protect({ doProtection: false }) }, handler)
  app.get('/off-scoped', { onRequest: app.tokenAuth.scoped('a', { doProtection: false }) }, handler)
  app.get('/on', { onRequest: [app.tokenAuth.protect({ doProtection: false }), app.tokenAuth.protect()] }, handler)
  app.get('/injected', app.tokenAuth.injectUser(handler, { doProtection: false }))
  await app.ready()
  for (const url of ['/off', '/off-scoped', '/injected']) t.match(rowAt(app, url), { access: 'public', guards: { length: 0 } }, url)
  t.match(rowAt(app, '/on'), { access: 'protected', guards: { length: 1 } })

  const switched = await build(t, { doProtection: false, sessions: {}, secret: otherSecret })
  await switched.ready()
  t.equal(rowAt(switched, '/auth/me').access, 'public')
  t.equal(rowAt(switched, '/auth/sessions').access, 'protected', 'the endpoints of sessions need a user')

  const computed = await build(t, { authMode: false, doProtection: false, getDoProtection: () => true, secret: `${secret} 2` })
  computed.get('/', { onRequest: computed.tokenAuth.protect() }, handler)
  await computed.ready()
  t.equal(rowAt(computed, '/').access, 'protected')
})

t.test('HEAD, all(), lists of methods, constraints and prefixes are rows; a second spelling with a slash is none', async (t) => {
  const app = await build(t, { authMode: false })
  const onRequest = app.tokenAuth.protect()
  app.all('/all', { onRequest }, handler)
  app.route({ method: ['PUT', 'PATCH'], url: '/list', onRequest, handler })
  app.get('/versions', { constraints: { version: '1.0.0' }, onRequest }, handler)
  app.get('/versions', { constraints: { version: '2.0.0' } }, handler)
  app.head('/head', { onRequest }, handler)
  app.get('/head', { exposeHeadRoute: false }, handler)
  await app.register(async (nested) => {
    nested.get('/', { onRequest }, handler)
    nested.get('/x', { onRequest, prefixTrailingSlash: 'both' }, handler)
  }, { prefix: '/nested' })
  app.get('/equal', { onRequest }, handler)
  app.get('/equal/', { onRequest }, handler)
  app.get('/unequal', { onRequest }, handler)
  app.get('/unequal/', handler)
  app.get('/', { onRequest }, handler)
  await app.ready()
  t.same(rowsAt(app, '/all').map(({ method }) => method).sort(), [...app.supportedMethods].sort())
  t.same(rowsAt(app, '/list').map(({ method }) => method), ['PUT', 'PATCH'])
  const lines = app.tokenAuth.printRoutes().split('\n').filter((line) => !/ \/(?:all|list) /.test(line)).map((line) => line.replace(/ +/g, ' '))
  t.same(lines, [
    'GET,HEAD / protected tokenAuth in onRequest',
    'GET,HEAD /equal protected tokenAuth in onRequest',
    'GET /head undecided',
    'HEAD /head protected tokenAuth in onRequest',
    'GET,HEAD /nested protected tokenAuth in onRequest',
    'GET,HEAD /nested/x protected tokenAuth in onRequest',
    'GET,HEAD /unequal protected tokenAuth in onRequest',
    'GET,HEAD /unequal/ undecided',
    'GET,HEAD /versions protected tokenAuth in onRequest',
    'GET,HEAD /versions undecided',
    ''
  ])
  t.equal((await app.inject('/nested/')).statusCode, 401, 'the second spelling has the guard as well')
})

t.test('white space in a note does not make two lines', async (t) => {
  const app = await build(t, { authMode: false })
  app.get('/a', { config: { tokenAuth: 'one\nPOST  /b  public' } }, handler)
  await app.ready()
  t.equal(app.tokenAuth.printRoutes(), 'GET,HEAD  /a  other  one POST /b public\n')
})

t.test('an application without routes has an empty table', async (t) => {
  const app = await build(t, { authMode: false })
  await app.ready()
  t.equal(app.tokenAuth.printRoutes(), '')
  t.same(app.tokenAuth.routes(), [])
})

t.test('guards have names, so that printRoutes({ includeHooks: true }) of Fastify agrees with routes()', async (t) => {
  const app = await build(t, { authMode: false })
  await app.register(tokenAuth, { instanceName: 'staff', authMode: false, secret: otherSecret })
  const guards = [
    app.tokenAuth.protect(), app.staff.protect({ leeway: 0 }), app.tokenAuth.scoped(['a', 'b']), app.tokenAuth.scoped(['a', 'b'], { requireAll: false }), app.staff.scoped(() => 'a'),
    protect(), protect({ instanceName: 'staff' }), scoped('c:d'), scoped(['a', 'b'], { requireAll: false, instanceName: 'staff' }), scoped(() => 'a')
  ]
  for (const [index, guard] of guards.entries()) {
    const hook = (['onRequest', 'preValidation', 'preHandler'] as const)[index % 3]!
    app.get(`/route${index}`, { [hook]: [async () => {}, guard] }, handler)
    await app.register(async (nested) => {
      nested.addHook(hook, guard)
      nested.get(`/context${index}`, handler)
    })
  }
  await app.ready()
  const [, ...blocks] = app.printRoutes({ includeHooks: true, commonPrefix: false }).split(/^.*── \/?(?=\w)/m)
  const theirs = blocks.flatMap((block) => {
    const [, url = '', hooks = ''] = /^(\w+) \(GET\)([^]*?)^\W+\1 \(HEAD\)/m.exec(block) ?? []
    return [...hooks.matchAll(/\((\w+)\) \[.*?"([^"]*\.(?:protect|scoped)[^"]*)\(\)"/g)].map(([, hook, name]) => `/${url} ${hook} ${name}`)
  })
  const ours = app.tokenAuth.routes().filter(({ method }) => method === 'GET').flatMap(({ url, guards }) => guards.map(({ instanceName, hook, scopes }) => {
    const words = scopes === null ? 'scoped (scopes computed)' : scopes.length === 0 ? 'protect' : `scoped ${scopes.map((set) => set.join(' and ')).join(' or ')}`
    return `${url} ${hook} ${instanceName}.${words}`
  }))
  t.equal(ours.length, 2 * guards.length)
  t.same(theirs.sort(), ours.sort())
})

t.test('a free-standing guard for an instance of no name that is a text cannot be made', async (t) => {
  t.throws(() => protect(mistyped({ instanceName: Symbol('staff') })), { name: 'InvalidConfiguration' })
})
