/** What tests of the client for browsers share: a service, and the APIs of a browser, made of a cookie jar and `inject` of Fastify. */
import { readFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import ts from 'typescript'
import { createClient, type ClientOptions, type SignedOutReason, type TokenStorage } from '../lib/client.ts'
import tokenAuth, { memorySessions, type TokenAuthOptions } from '../lib/index.ts'
import { authenticate, holdTimers, host, mistyped, now, secret, setClock, together, users } from './helper.ts'

/** The client as it is built. */
export const script = ts.transpileModule(readFileSync(new URL('../lib/client.ts', import.meta.url), 'utf8'), {
  compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, removeComments: true }
}).outputText

export const origin = 'https://shop.example'
const [ada] = users
export const cookieOptions: Partial<TokenAuthOptions> = { cookieSet: true, tokensInBody: false }
/** Access tokens have expired, and no window of a rotation is open. */
export const later = 3600

export interface Service {
  app: FastifyInstance
  /** What was requested: method and path. */
  log: string[]
  count: (request: string) => number
  /** How often tokens were renewed. */
  renewals: () => number
  /** What is answered in place of the service, by path. A function that throws is a connection that breaks. */
  broken: Map<string, (signal: AbortSignal) => Response | Promise<Response>>
  /** Paths that are redirected, and where to. */
  redirects: Map<string, string>
  /** The service waits for these, and in cookie mode for the renewals of `GET /auth/me`. */
  gate: Record<'beforeLogin' | 'beforeLogout' | 'beforeRefresh' | 'afterRefresh' | 'afterEcho', () => Promise<void>>
}

/** A service with sessions, and a record of what it is asked. */
export async function service (t: Test, options: Partial<TokenAuthOptions> = {}, prepare = (_app: FastifyInstance) => {}): Promise<Service> {
  const app = host(t)
  prepare(app)
  await app.register(tokenAuth, together({ secret, authenticate, claimAuthTime: true, sessions: { store: memorySessions() } }, options))
  app.get('/private', { onRequest: app.tokenAuth.protect() }, async () => 'private')
  app.get('/recent', { onRequest: app.tokenAuth.protect({ maxAge: 60 }) }, async () => 'recent')
  app.post('/echo', { onRequest: app.tokenAuth.protect() }, async ({ body }) => body)
  app.addContentTypeParser('text/plain', { parseAs: 'string' }, (_request, body, done) => done(null, body))
  const log: string[] = []
  const gate = { beforeLogin: async () => {}, beforeLogout: async () => {}, beforeRefresh: async () => {}, afterRefresh: async () => {}, afterEcho: async () => {} }
  const redirects = new Map<string, string>()
  const renews = ({ url }: { url: string }) => url === '/auth/refresh' || (options.cookieSet === true && url === '/auth/me?optional=true')
  let renewals = 0
  app.addHook('onRequest', async (request, reply) => {
    const { method, url } = request
    log.push(`${method} ${url}`)
    const target = redirects.get(url)
    if (target !== undefined) return await reply.redirect(target, 307)
    if (url === '/auth') await gate.beforeLogin()
    if (url === '/auth/logout') await gate.beforeLogout()
    if (renews(request)) await gate.beforeRefresh()
    return undefined
  })
  app.addHook('onSend', async (request) => {
    if (renews(request)) await gate.afterRefresh()
    if (request.url === '/echo') await gate.afterEcho()
  })
  app.addHook('onResponse', async (request, reply) => {
    if (renews(request) && reply.statusCode === 200 && (request.method === 'POST' || reply.hasHeader('set-cookie'))) renewals++
  })
  return { app, log, gate, redirects, renewals: () => renewals, broken: new Map(), count: (request) => log.filter((entry) => entry === request).length }
}

/** The channels of all tabs. */
export class Channel {
  static open: Channel[] = []
  onmessage: ((message: { data: unknown }) => void) | null = null
  readonly name: string
  constructor (name: string) {
    this.name = name
    Channel.open.push(this)
  }

  postMessage (data: unknown): void {
    for (const channel of Channel.open) if (channel !== this && channel.name === this.name) channel.onmessage?.({ data })
  }
}

/** Rejects when the signal aborts. */
const aborted = (signal: AbortSignal) => new Promise<never>((_resolve, reject) => {
  const abort = () => { reject(signal.reason) }
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort)
})

/**
 * Puts the APIs of a browser in place until the test ends.
 * @param options `hasTurns` says whether a tab gets its turn before its limit is over, `keepsCookies` whether the browser accepts cookies
 */
export function browse (t: Test, { app, broken }: Service, { hasLocks = true, hasTurns = true, keepsCookies = true } = {}): { cookies: Map<string, string>, outliving: string[] } {
  const cookies = new Map<string, string>()
  const outliving: string[] = []
  const request = async (input: string | URL | Request, init?: RequestInit) => {
    const sent = new Request(input, init)
    return await Promise.race([respond(sent), aborted(sent.signal)])
  }
  async function respond ({ url, method, headers, body, credentials, keepalive, signal }: Request): Promise<Response> {
    const { pathname, search } = new URL(url)
    if (keepalive) outliving.push(pathname)
    const replaced = broken.get(pathname)
    if (replaced !== undefined) return await replaced(signal)
    if (new URL(url).origin !== origin) return Response.json(Object.fromEntries(headers))
    const sent = credentials === 'include' ? { cookie: [...cookies].map((pair) => pair.join('=')).join('; ') } : {}
    const payload = body === null ? {} : { payload: await new Response(body).text() }
    const answer = await app.inject({ method: mistyped(method), url: pathname + search, headers: { ...Object.fromEntries(headers), ...sent }, ...payload })
    // The browser ignores what comes after a request was aborted.
    for (const { name, value, maxAge, expires } of signal.aborted || !keepsCookies ? [] : answer.cookies) {
      if (maxAge === 0 || (expires && expires.getTime() <= Date.now())) cookies.delete(name)
      else cookies.set(name, value)
    }
    const { statusCode: status } = answer
    const given = Object.entries(answer.headers).map(([name, value]): [string, string] => [name, String(value)])
    return new Response(status === 204 ? null : answer.payload, { status, headers: given })
  }
  let last: Promise<unknown> = Promise.resolve()
  const locks = {
    request: (_name: string, { signal }: { signal: AbortSignal }, run: () => Promise<unknown>) => {
      if (!hasTurns) return Promise.reject(new DOMException('signal timed out', 'TimeoutError'))
      let isGranted = false
      const result = last.then(() => {
        signal.throwIfAborted()
        isGranted = true
        return run()
      })
      last = result.catch(() => {})
      return Promise.race([result, aborted(signal).catch((error) => isGranted ? result : Promise.reject(error))])
    }
  }
  const replaced = { fetch: request, BroadcastChannel: Channel, location: { origin }, navigator: hasLocks ? { locks } : {} }
  for (const [name, value] of Object.entries(replaced)) {
    const before = Object.getOwnPropertyDescriptor(globalThis, name)
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true })
    t.teardown(() => before === undefined ? Reflect.deleteProperty(globalThis, name) : Object.defineProperty(globalThis, name, before))
  }
  t.teardown(() => { Channel.open = [] })
  return { cookies, outliving }
}

/** What several tabs share. */
export function sharedStorage (): TokenStorage & { values: Map<string, string> } {
  const values = new Map<string, string>()
  return {
    values,
    getItem: (key) => values.get(key) ?? null,
    setItem: (key, value) => { values.set(key, value) },
    removeItem: (key) => { values.delete(key) }
  }
}

/** A tab: a client, and why it was signed out. */
export function openTab (options: ClientOptions = {}) {
  const reasons: SignedOutReason[] = []
  const client = createClient({ ...options, onSignedOut: (reason) => { reasons.push(reason) } })
  return { client, reasons, status: async (path = '/private') => (await client.fetch(path)).status }
}

/** A tab whose access token has expired, and whose pauses last until they are released. */
export async function expiredTab (t: Test, serverOptions: Partial<TokenAuthOptions>, options: ClientOptions) {
  const setTime = setClock(t, now())
  const served = await service(t, serverOptions)
  const browser = browse(t, served)
  const release = holdTimers(t, 5000)
  const tab = openTab(options)
  await tab.client.login(ada!)
  setTime(now() + later)
  return { setTime, served, release, ...browser, ...tab }
}

/** Lets held timers expire until a promise settles. */
export async function settled<T> (promise: Promise<T>, release: () => void): Promise<T> {
  const done = promise.then(() => true, () => true)
  while (!await Promise.race([done, turn(false)])) release()
  return await promise
}

export const refresh = 'POST /auth/refresh'
/** In cookie mode, it renews the tokens. */
export const question = 'GET /auth/me?optional=true'
export const unavailable = (retryAfter?: string) => () => new Response('down', { status: 503, headers: retryAfter === undefined ? {} : { 'retry-after': retryAfter } })
export const disconnected = () => { throw new TypeError('fetch failed') }

/** The times that a client waits for responses. It does not wait for those of at most a limit. */
export function watchLimits (t: Test): { limits: number[], giveUp: (limit: number) => void } {
  const { timeout } = AbortSignal
  t.teardown(() => { AbortSignal.timeout = timeout })
  const limits: number[] = []
  let patience = 0
  AbortSignal.timeout = (time) => {
    limits.push(time)
    return time <= patience ? AbortSignal.abort(new DOMException('signal timed out', 'TimeoutError')) : new AbortController().signal
  }
  return { limits, giveUp: (limit) => { patience = limit } }
}

/** Modes of clients: the settings of the service, the options, and the path that renews tokens. */
export const modes: readonly [mode: 'cookie' | 'header', Partial<TokenAuthOptions>, ClientOptions, string][] = [
  ['cookie', cookieOptions, {}, '/auth/me'],
  ['header', {}, { mode: 'header', baseUrl: origin }, '/auth/refresh']
]
