/**
 * The servers that are compared. Each runs in its own process. The parent process sends the name of the server, gets the
 * port, and then requests measurements. A server loads only the modules that it needs.
 */
import { createHmac, createPrivateKey, createSecretKey, randomBytes, sign as signWith, timingSafeEqual } from 'node:crypto'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { replaceClock } from './helper/clock.js'
import { clients } from './stores.js'
import { claims, keyOptions } from './tokens.js'

const answer = { hello: 'world' }
const tokenOf = (request) => request.headers.authorization?.slice(7) ?? ''
const lifetime = 86_400
const expiry = () => Math.floor(Date.now() / 1000) + lifetime

/** Starts a Fastify server. @param prepare adds routes, or returns the guard of the only route */
async function fastify (prepare, method = 'GET') {
  const { default: Fastify } = await import('fastify')
  const app = Fastify()
  const given = await prepare(app)
  if (method === 'POST') {
    if (given !== undefined) app.post('/', async () => ({ access_token: await given() }))
  } else if (given !== 'no route') {
    app.decorateRequest('claims', null)
    app.get('/', given === undefined ? {} : { onRequest: given }, async () => answer)
  }
  await app.listen({ port: 0, host: '127.0.0.1' })
  return app.server
}

/** Returns a minimal hook around a function that verifies a token. */
const hookOf = (verify) => async (request, reply) => {
  try {
    request.claims = await verify(tokenOf(request))
  } catch {
    return reply.code(401).send({ reasons: 'Token is invalid.' })
  }
}

async function tokenAuth (app, options) {
  const { default: plugin } = await import('../dist/lib/index.js')
  await app.register(plugin, options)
}

/** Logs in whoever comes, with the refresh tokens of the specification's own mode, in a Map or in a database. */
async function refreshing (app, { client, url, ...options }) {
  const stored = client === undefined ? new Map() : (await clients[client].open(url)).refreshTokens
  await tokenAuth(app, {
    ...keyOptions(options),
    refreshTokenEnabled: true,
    authenticate: ({ body }) => ({ user_id: body.id }),
    storeRefreshToken: async (id, refreshToken) => { await stored.set(id, refreshToken) },
    retrieveRefreshToken: (id) => stored.get(id)
  })
}

/** The same with sessions. @param sessions their settings; the default store is the memory */
const withSessions = (app, { expirationDelta, ...options }, sessions) => tokenAuth(app, {
  ...keyOptions(options),
  ...(expirationDelta !== undefined && { expirationDelta }),
  authenticate: ({ body }) => ({ user_id: body.id }),
  sessions
})

async function fastifyJwt (app, { algorithm, keys }, verify = {}) {
  const { default: plugin } = await import('@fastify/jwt')
  const secret = algorithm.startsWith('HS') ? keys.verifying : { private: keys.signing, public: keys.verifying }
  await app.register(plugin, { secret, sign: { algorithm }, verify: { algorithms: [algorithm], ...verify } })
  return async (request, reply) => {
    try {
      await request.jwtVerify()
    } catch (error) {
      reply.send(error)
    }
  }
}

const base64url = (value) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** Verifies with node:crypto only, which is the minimum cost of a verification without a cache. */
function byHand ({ keys }) {
  const header = base64url({ alg: 'HS256', typ: 'JWT' })
  const key = createSecretKey(keys.verifying, 'utf8')
  return (token) => {
    const [head, payload, signature] = token.split('.')
    if (head !== header) throw new Error('The header is another one.')
    const expected = createHmac('sha256', key).update(`${head}.${payload}`).digest()
    const given = Buffer.from(signature, 'base64url')
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) throw new Error('The signature is wrong.')
    const parsed = JSON.parse(Buffer.from(payload, 'base64url').toString())
    if (!(parsed.exp > Date.now() / 1000)) throw new Error('The token has expired.')
    return parsed
  }
}

function signByHand ({ algorithm, keys }) {
  const header = base64url({ alg: algorithm, typ: 'JWT' })
  const signingKey = algorithm.startsWith('HS') ? createSecretKey(keys.signing, 'utf8') : createPrivateKey(keys.signing)
  return () => {
    const content = `${header}.${base64url({ user_id: 1, exp: expiry(), ...claims })}`
    const signature = algorithm.startsWith('HS')
      ? createHmac('sha256', signingKey).update(content).digest('base64url')
      : signWith('sha256', Buffer.from(content), { key: signingKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')
    return `${content}.${signature}`
  }
}

async function express (prepare) {
  const { default: create } = await import('express')
  const app = create()
  const guards = await prepare(app)
  app.get('/', ...guards, (_request, response) => { response.json(answer) })
  return new Promise((resolve) => { const server = app.listen(0, '127.0.0.1', () => resolve(server)) })
}

async function hono (prepare) {
  const [{ Hono }, { serve }] = await Promise.all([import('hono'), import('@hono/node-server')])
  const app = new Hono()
  await prepare(app)
  app.get('/', (context) => context.json(answer))
  return new Promise((resolve) => { const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, () => resolve(server)) })
}

const servers = {
  bare: () => fastify(() => undefined),
  'bare with routes': ({ routes }) => fastify((app) => {
    for (let index = 0; index < routes; index++) app.get(`/${index}`, async () => answer)
    return 'no route'
  }),
  /** Fastify creates a separate request class for each context. Here, each class has one more property, which a hook writes. */
  'bare with contexts': ({ routes }) => fastify(async (app) => {
    for (let index = 0; index < routes; index++) {
      await app.register(async (context) => {
        context.decorateRequest('slot', null)
        context.get(`/${index}`, { onRequest: (request, _reply, done) => { request.slot = tokenOf(request); done() } }, async () => answer)
      })
    }
    return 'no route'
  }),
  'fastify-token-auth': ({ settings, ...options }) => fastify(async (app) => {
    await tokenAuth(app, { ...keyOptions(options), authMode: false, ...settings })
    return app.tokenAuth.protect()
  }),
  /** Many instances, each on its own context with a guarded route. */
  instances: ({ count, ...options }) => fastify(async (app) => {
    for (let index = 0; index < count; index++) {
      await app.register(async (context) => {
        await tokenAuth(context, { ...keyOptions(options), authMode: false })
        context.get(`/${index}`, { onRequest: context.tokenAuth.protect() }, async () => answer)
      })
    }
    return 'no route'
  }),
  scoped: (options) => fastify(async (app) => {
    await tokenAuth(app, { ...keyOptions(options), authMode: false })
    return app.tokenAuth.scoped('users:read')
  }),
  '@fastify/jwt': (options) => fastify((app) => fastifyJwt(app, options)),
  '@fastify/jwt with its cache': (options) => fastify((app) => fastifyJwt(app, options, { cache: true })),
  'minimal hook, fast-jwt': ({ algorithm, keys }) => fastify(async () => {
    const { createVerifier } = await import('fast-jwt')
    return hookOf(createVerifier({ key: keys.verifying, algorithms: [algorithm] }))
  }),
  'minimal hook, node:crypto': (options) => fastify(() => hookOf(byHand(options))),
  'minimal hook, jsonwebtoken': ({ algorithm, keys }) => fastify(async () => {
    const { default: jwt } = await import('jsonwebtoken')
    return hookOf((token) => jwt.verify(token, keys.verifying, { algorithms: [algorithm] }))
  }),
  'minimal hook, jose': ({ algorithm, keys }) => fastify(async () => {
    const { jwtVerify } = await import('jose')
    const key = new TextEncoder().encode(keys.verifying)
    return hookOf((token) => jwtVerify(token, key, { algorithms: [algorithm] }))
  }),
  'bare express': () => express(() => []),
  'express-jwt': ({ algorithm, keys }) => express(async () => {
    const { expressjwt } = await import('express-jwt')
    return [expressjwt({ secret: keys.verifying, algorithms: [algorithm] })]
  }),
  'passport-jwt': ({ algorithm, keys }) => express(async () => {
    const [{ default: passport }, { Strategy, ExtractJwt }] = await Promise.all([import('passport'), import('passport-jwt').then((it) => it.default)])
    const options = { jwtFromRequest: ExtractJwt.fromAuthHeaderAsBearerToken(), secretOrKey: keys.verifying, algorithms: [algorithm] }
    passport.use(new Strategy(options, (payload, done) => done(null, payload)))
    return [passport.authenticate('jwt', { session: false })]
  }),
  'bare hono': () => hono(() => {}),
  'hono jwt': ({ algorithm, keys }) => hono(async (app) => {
    const { jwt } = await import('hono/jwt')
    app.use('/', jwt({ secret: keys.verifying, alg: algorithm }))
  }),

  'bare POST': ({ token }) => fastify(() => () => token, 'POST'),
  'issue: fastify-token-auth': (options) => fastify((app) => tokenAuth(app, {
    ...keyOptions(options),
    urlPrefix: '',
    expirationDelta: lifetime,
    authenticate: () => ({ user_id: 1 }),
    // Does not spread into a new object: the other servers create only one object, and a second one takes 4 us.
    extendPayload: (payload) => Object.assign(payload, claims)
  }), 'POST'),
  'issue: @fastify/jwt': (options) => fastify(async (app) => {
    await fastifyJwt(app, options)
    return () => app.jwt.sign({ user_id: 1, ...claims }, { expiresIn: lifetime * 1000 })
  }, 'POST'),
  'issue: fast-jwt': ({ algorithm, keys }) => fastify(async () => {
    const { createSigner } = await import('fast-jwt')
    const sign = createSigner({ key: keys.signing, algorithm, noTimestamp: true })
    return () => sign({ user_id: 1, exp: expiry(), ...claims })
  }, 'POST'),
  'issue: node:crypto': (options) => fastify(() => signByHand(options), 'POST'),

  'refresh: specification': (options) => fastify((app) => refreshing(app, options)),
  // Without a window, every refresh rotates.
  'refresh: sessions': ({ client, url, ...options }) => fastify(async (app) => {
    await withSessions(app, options, { grace: 0, ...client !== undefined && { store: (await clients[client].open(url)).store } })
  }),
  'refresh: sessions, counted': (options) => fastify(async (app) => {
    const { memorySessions } = await import('../dist/lib/index.js')
    const count = (method) => (...parameters) => { storeCalls++; return method(...parameters) }
    const { endedSince, ...store } = memorySessions()
    const counted = Object.fromEntries(Object.entries(store).map(([name, method]) => [name, count(method)]))
    await withSessions(app, options, { store: { ...counted, endedSince } })
  }),
  /** Pages with sessions in cookies, whose guards renew or do not. */
  pages: (options) => fastify(async (app) => {
    await tokenAuth(app, { ...keyOptions(options), authenticate: ({ body }) => ({ user_id: body.id }), cookieSet: true, sessions: { grace: 1 } })
    for (const renew of [false, true]) app.get(`/${renew ? 'renews' : 'refuses'}`, { onRequest: app.tokenAuth.protect({ renew }) }, async () => answer)
    return 'no route'
  }),
  /** Guarded routes in one process, so that nothing but the guard differs: without sessions, and for each number of ended sessions. */
  'guards with sessions': ({ ended, ...options }) => fastify(async (app) => {
    const addRoute = (path, sessions) => app.register(async (context) => {
      await tokenAuth(context, { ...keyOptions(options), authMode: false, ...sessions })
      context.get(path, { onRequest: context.tokenAuth.protect() }, async () => answer)
    })
    await addRoute('/without', {})
    for (const count of ended) {
      const bytes = randomBytes(16 * count)
      const ids = Array.from({ length: count }, (_, index) => bytes.toString('base64url', 16 * index, 16 * index + 16))
      const store = { endedSince: async (cursor) => ({ ended: cursor === null ? ids : [], cursor: 'read' }) }
      // Everything is read again only after an hour, so that no measurement contains it.
      await addRoute(`/${count}`, { sessions: { store, poll: 60 } })
    }
    return 'no route'
  }),

  /** Guarded routes in one process, so that nothing but the guard differs: with one key, with a ring, and with a ring and trusted issuers. */
  'guards with keys': ({ ring, issuers, ...options }) => fastify(async (app) => {
    const addRoute = (path, keys) => app.register(async (context) => {
      await tokenAuth(context, { authMode: false, ...keys })
      context.get(path, { onRequest: context.tokenAuth.protect() }, async () => answer)
    })
    await addRoute('/one', keyOptions(options))
    await addRoute('/ring', { algorithm: options.algorithm, keys: ring })
    await addRoute('/issuers', { algorithm: options.algorithm, keys: ring, issuers })
    return 'no route'
  }),

  /** The routes that the soak requests. */
  soak: (options) => fastify(async (app) => {
    await refreshing(app, options)
    return app.tokenAuth.protect()
  }),
  /** The same with sessions. Only requests let time pass, all of them the same time. */
  'soak: sessions': ({ milliseconds, grace, idle, lifetime, poll, ...options }) => fastify(async (app) => {
    const { memorySessions } = await import('../dist/lib/index.js')
    const pass = replaceClock()
    const store = withWatchedMaps(memorySessions)
    app.addHook('onRequest', (_request, _reply, done) => { pass(milliseconds); done() })
    await withSessions(app, options, { store, grace, idle, lifetime, poll })
    return app.tokenAuth.protect()
  })
}

/** The maps of the memory store: by session, and by user. */
const storedMaps = []

/** Calls a function, and keeps the maps that it creates. */
function withWatchedMaps (create) {
  const { Map: RealMap } = globalThis
  globalThis.Map = class extends RealMap {
    constructor (...parameters) {
      super(...parameters)
      storedMaps.push(this)
    }
  }
  try {
    return create()
  } finally {
    globalThis.Map = RealMap
  }
}

/** The calls of a counted store of sessions, but those of the feed. */
let storeCalls = 0

const delay = monitorEventLoopDelay({ resolution: 1 })

const answers = {
  'store calls': () => storeCalls,
  'stored sessions': () => storedMaps[0].size,
  /** Microseconds of CPU time since the start, in user mode and in the system. */
  cpu: () => process.cpuUsage(),
  'watch the event loop' () {
    delay.enable()
    delay.reset()
    return true
  },
  /** Delay of timers in milliseconds, including the one millisecond that they wait. */
  'event loop delay': () => delay.percentile(99) / 1e6,
  memory () {
    globalThis.gc()
    const { heapUsed, external, rss } = process.memoryUsage()
    return { heap: heapUsed, external, rss, handles: process.getActiveResourcesInfo().length }
  }
}

if (process.send !== undefined) {
  process.once('message', async ({ server, options }) => {
    const listening = await servers[server](options)
    // A server is idle while others are measured, for longer than its default timeouts. Without these lines, it sends 408 before the first request.
    listening.keepAliveTimeout = 3_600_000
    listening.headersTimeout = 0
    listening.requestTimeout = 0
    process.on('message', (question) => process.send(answers[question]()))
    process.on('disconnect', () => process.exit())
    process.send({ port: listening.address().port })
  })
}
