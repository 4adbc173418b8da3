/** What tests of sessions need: an application with sessions, and a store that can be watched and made to fail. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyServerOptions, LightMyRequestResponse } from 'fastify'
import type { Test } from 'tap'
import { memorySessions, type ReceivedGeneration, type SessionEvent, type SessionStore, type TokenAuthOptions } from '../../lib/index.ts'
import { build, together } from '../helper.ts'

type Method = keyof SessionStore

/** A store in memory whose calls are counted. `instead` replaces methods, for as long as it has them. */
export class WatchedStore implements SessionStore {
  readonly calls: Method[] = []
  instead: { [Name in Method]?: (...parameters: never[]) => unknown } = {}
  /** Called before each call. */
  before: (method: Method) => Promise<void> = async () => {}
  readonly #store = memorySessions()

  async #call<T> (method: Method, parameters: unknown[], call: () => Promise<T>): Promise<T> {
    this.calls.push(method)
    await this.before(method)
    const other = this.instead[method]
    // What a test puts in the place of a method may give anything.
    return other === undefined ? await call() : await Reflect.apply(other, undefined, parameters) as T
  }

  create (...parameters: Parameters<SessionStore['create']>) { return this.#call('create', parameters, () => this.#store.create(...parameters)) }
  advance (...parameters: Parameters<SessionStore['advance']>) { return this.#call('advance', parameters, () => this.#store.advance(...parameters)) }
  end (...parameters: Parameters<SessionStore['end']>) { return this.#call('end', parameters, () => this.#store.end(...parameters)) }
  list (...parameters: Parameters<SessionStore['list']>) { return this.#call('list', parameters, () => this.#store.list(...parameters)) }
  endedSince (...parameters: Parameters<SessionStore['endedSince']>) { return this.#call('endedSince', parameters, () => this.#store.endedSince(...parameters)) }

  confirm (...parameters: Parameters<SessionStore['confirm']>) { return this.#call('confirm', parameters, () => this.#store.confirm(...parameters)) }

  /** The calls since the last time, without the reads of ended sessions and the confirmations, which timers make. */
  taken (): Method[] {
    return this.calls.splice(0).filter((method) => method !== 'endedSince' && method !== 'confirm')
  }

  /** Makes every method reject, or one of them, until it is called with null. */
  fail (error: Error | null, methods: readonly Method[] = ['create', 'advance', 'end', 'list', 'endedSince', 'confirm']): void {
    this.instead = error === null ? {} : Object.fromEntries(methods.map((method) => [method, () => Promise.reject(error)]))
  }
}

/** The same store behind another object, as another process has it. */
export const ofAnotherProcess = (store: SessionStore): SessionStore => ({
  create: (...given) => store.create(...given),
  advance: (...given) => store.advance(...given),
  end: (...given) => store.end(...given),
  list: (...given) => store.list(...given),
  endedSince: (...given) => store.endedSince(...given),
  confirm: (...given) => store.confirm(...given)
})

/** An application with sessions in a watched store, and a guarded route. */
export async function withSessions (t: Test, options: Partial<TokenAuthOptions> = {}, server: FastifyServerOptions = {}): Promise<{ app: FastifyInstance, store: WatchedStore }> {
  const store = new WatchedStore()
  const app = await build(t, together(options, { sessions: { store, ...Object(options.sessions) } }), server)
  app.get('/', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth: { sessionId, userId } }) => ({ sessionId, userId }))
  return { app, store }
}

export interface Tokens { access_token: string, refresh_token: string }

/** Logs in, and returns the tokens. */
export async function started (app: FastifyInstance, username = 'ada', password = 'lovelace', headers = {}): Promise<Tokens> {
  return (await app.inject({ method: 'POST', url: '/auth', headers, payload: { username, password } })).json()
}

export const refresh = async (app: FastifyInstance, refreshToken?: unknown, headers: Record<string, string> = {}): Promise<LightMyRequestResponse> =>
  await app.inject({ method: 'POST', url: '/auth/refresh', headers, payload: refreshToken === undefined ? {} : { refresh_token: refreshToken } })

export const logout = async (app: FastifyInstance, refreshToken?: unknown, headers: Record<string, string> = {}): Promise<LightMyRequestResponse> =>
  await app.inject({ method: 'POST', url: '/auth/logout', headers, ...(refreshToken !== undefined && { payload: { refresh_token: refreshToken } }) })

/** What a refresh token says of itself. */
export function generationIn (refreshToken: string): ReceivedGeneration {
  const bytes = Buffer.from(refreshToken, 'base64url')
  return { sid: bytes.toString('base64url', 1, 17), user: String(bytes.subarray(33, 33 + bytes.readUInt16BE(29))), n: bytes.readUIntBE(17, 6) }
}

/** Tells a store that the successor of a refresh token was received, as the first use of its access token does. */
export async function received (store: SessionStore, refreshToken: string): Promise<void> {
  await store.confirm([generationIn(refreshToken)], { graceMs: 30_000, idleMs: 1e9, keepMs: 1e6, maxPerUser: 10 })
}

/** The Set-Cookie fields of an answer, as `name=value`. */
export const cookiesOf = (response: LightMyRequestResponse): string[] => [response.headers['set-cookie'] ?? []].flat().map((field) => field.split(';', 1)[0] ?? '')

/** What a browser sends back. */
export const jar = (response: LightMyRequestResponse): { cookie: string } => ({ cookie: cookiesOf(response).join('; ') })

/** Collects the events of sessions until the test ends. */
export function sessionEvents (t: Test): SessionEvent[] {
  const events: SessionEvent[] = []
  const listener = (message: unknown) => { events.push(message as SessionEvent) }
  subscribe('fastify-token-auth:session', listener)
  t.teardown(() => unsubscribe('fastify-token-auth:session', listener))
  return events
}
