/**
 * `request.tokenAuth.signal`: an AbortSignal that aborts when the access token of a request becomes invalid.
 *
 * A signal with listeners must stay alive even if no other object refers to it; otherwise, a connection would stay open
 * after its token expired. A signal without listeners must be garbage-collected, because most requests end long before
 * their token expires.
 */
import { getEventListeners } from 'node:events'
import type { FastifyRequest } from 'fastify'
import { InvalidToken, TokenExpired } from '../errors.ts'
import { watchKey } from '../keys/life.ts'
import type { Credential } from '../authorities/authority.ts'
import type { Settings } from '../settings/schema.ts'
import type { Owner } from './record.ts'
import { sessionIdOf } from './verify.ts'

/** The longest delay of a timer, in milliseconds. Node.js replaces a longer delay with 1 ms. */
const longestTimeout = 2 ** 31 - 1

/**
 * Keeps the controller of a signal alive. Node.js keeps signals of `AbortSignal.any` alive while they have listeners, but
 * not the signals that they depend on.
 */
const sources = new WeakMap<AbortSignal, AbortController>()

/**
 * Keeps signals alive as long as their request, even without listeners: a signal that the application derives with
 * `AbortSignal.any` holds only a weak reference to the signal of the controller.
 */
const connections = new WeakMap<object, AbortSignal[]>()

/** A scheduled abort. */
interface Expiry {
  /** In milliseconds since 1970. */
  readonly end: number
  readonly abort: () => void
  timer?: NodeJS.Timeout
}

const pending = new Set<Expiry>()

function forget (expiry: Expiry): void {
  pending.delete(expiry)
  clearTimeout(expiry.timer)
}

/** Cancels the timers of controllers that were garbage-collected. */
const collected = new FinalizationRegistry<Expiry>(forget)

/** How often all expiries are compared with the clock, in milliseconds. Timers stop while a machine sleeps, the clock does not. */
export const watchTime = 15_000
let watch: NodeJS.Timeout | undefined

function watchClock (): void {
  watch ??= setTimeout(() => {
    watch = undefined
    const now = Date.now()
    for (const expiry of pending) if (now >= expiry.end) expiry.abort()
    if (pending.size > 0) watchClock()
  }, watchTime).unref()
}

// Defined outside of createSignal(): closures in it would capture its variables and keep the signal alive.
const createExpired = () => new TokenExpired('Token has expired.')
const createInvalid = () => new InvalidToken()

/** @param end milliseconds since 1970 */
function abortAt (end: number, controller: AbortController, createReason: () => Error): void {
  const reference = new WeakRef(controller)
  const expiry: Expiry = {
    end,
    abort () {
      forget(expiry)
      reference.deref()?.abort(createReason())
    }
  }
  const { abort } = expiry
  const wait = () => {
    const rest = Math.ceil(end - Date.now())
    expiry.timer = rest > longestTimeout ? setTimeout(wait, longestTimeout) : setTimeout(abort, rest)
    // The timer must not keep the process alive.
    expiry.timer.unref()
  }
  if (Date.now() >= end) return abort()
  wait()
  pending.add(expiry)
  watchClock()
  collected.register(controller, expiry)
}

/** Node.js 20 and 22 never release an aborted signal that has listeners, nor the objects that the listeners refer to. */
function removeListeners (signal: AbortSignal): void {
  for (const listener of getEventListeners(signal, 'abort')) {
    for (const capture of [false, true]) signal.removeEventListener('abort', listener as () => void, { capture })
  }
}

/**
 * Creates a signal that aborts in `setImmediate`, after the caller has added listeners: a listener that is added to an
 * aborted signal is never called.
 */
function abortSoon (reason: unknown): AbortSignal {
  const controller = new AbortController()
  const { signal } = controller
  setImmediate(() => {
    controller.abort(reason)
    removeListeners(signal)
  })
  return signal
}

/**
 * Creates the signal of a valid token. If the token became invalid after its verification, the signal aborts in
 * `setImmediate`.
 * @param request keeps the signal alive
 */
export function createSignal (token: Credential, settings: Settings, owner: Owner, { raw }: FastifyRequest): AbortSignal {
  const controller = new AbortController()
  const sessionId = sessionIdOf(token)
  if (sessionId !== null) owner.watchSession?.(sessionId, token.payload, controller)
  watchKey(token.life, controller)
  const { expiry, retirement } = token.authority.endsOf(token, settings)
  const end = Math.min(expiry, retirement)
  if (end !== Infinity) abortAt(end, controller, end === expiry ? createExpired : createInvalid)
  if (controller.signal.aborted) return abortSoon(controller.signal.reason)

  // Node.js keeps this signal alive while it has listeners, but not `controller.signal`.
  const signal = AbortSignal.any([controller.signal])
  sources.set(signal, controller)
  const others = connections.get(raw)
  if (others === undefined) connections.set(raw, [signal])
  else others.push(signal)
  // In a microtask, because the listeners of `signal` run after those of `controller.signal`.
  controller.signal.addEventListener('abort', () => { queueMicrotask(() => { removeListeners(signal) }) })
  return signal
}
