/** What tests of keys over time need. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyServerOptions } from 'fastify'
import type { Test } from 'tap'
import type { KeyEvent, SigningKey, TokenAuthOptions } from '../../lib/index.ts'
import { build, headerOf, login, together } from '../helper.ts'

/** Seconds since 1970. Tests set the clock to it. */
export const noon = 1_800_000_000
/** The end of a token beyond the end of its key's time to sign: the defaults of `expirationDelta` and `leeway`. */
export const overlap = 1980

export const iso = (seconds: number) => new Date(seconds * 1000).toISOString()

export type Keys = NonNullable<TokenAuthOptions['keys']>

/** An application with keys, and a guarded route. */
export async function withKeys (t: Test, keys: Keys, options: Partial<TokenAuthOptions> = {}, server: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app = await build(t, together({ secret: undefined, keys }, options), server)
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'reached')
  return app
}

/** The access token of a login. */
export const issued = async (app: FastifyInstance): Promise<string> => (await login(app)).json().access_token

/** The id of the key that signs now. */
export const signs = async (app: FastifyInstance): Promise<unknown> => headerOf(await issued(app)).kid

/** The status of a guarded route. */
export async function get (app: FastifyInstance, token: string): Promise<number> {
  return (await app.inject({ url: '/', headers: { authorization: `Bearer ${token}` } })).statusCode
}

/** What the keys of an instance are now: their ids by state. */
export const states = (app: FastifyInstance) => Object.fromEntries(app.tokenAuth.keyStatus().keys.map(({ kid, state }) => [kid, state]))

/** Collects the events of keys until the test ends. */
export function keyEvents (t: Test): KeyEvent[] {
  const events: KeyEvent[] = []
  const listener = (message: unknown) => { events.push(message as KeyEvent) }
  subscribe('fastify-token-auth:keys', listener)
  t.teardown(() => unsubscribe('fastify-token-auth:keys', listener))
  return events
}

/** A function of keys that can be watched, changed and made to fail. */
export function source (list: readonly SigningKey[]) {
  const state = { list, calls: 0, instead: undefined as undefined | (() => unknown) }
  const load = async () => {
    state.calls++
    return state.instead === undefined ? state.list : await state.instead() as readonly SigningKey[]
  }
  return { state, load }
}
