/**
 * `request.tokenAuth.signal`: an AbortSignal that aborts when the access token of a request is not valid any more.
 *
 * Both of the following must hold. A signal that somebody listens to stays alive, even if nothing else refers to it:
 * otherwise, a connection would stay open after its token expired. A signal that nobody listens to is collected, because
 * most requests end long before their token expires.
 */
import { getEventListeners } from 'node:events'
import { InvalidToken, TokenExpired } from '../errors.ts'
import { watchKey } from '../keys/life.ts'
import type { Credential } from '../authorities/authority.ts'
import type { RequestState } from './state.ts'

/** In milliseconds. Node.js replaces a longer timeout by one of 1 ms. */
const longestTimeout = 2 ** 31 - 1

/**
 * Keeps the controller of a signal alive. Node.js keeps signals of `AbortSignal.any` alive while they have listeners, but
 * not the signals that they depend on.
 */
const sources = new WeakMap<AbortSignal, AbortController>()

/**
 * Keeps signals alive while their connection is open, also without a listener: a signal that the application derives from
 * one with `AbortSignal.any` depends on the controller, to which Node.js gives it a weak reference only.
 */
const connections = new WeakMap<object, AbortSignal[]>()

/** A signal that is to abort at a time. */
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

/** Forgets controllers that were collected. */
const collected = new FinalizationRegistry<Expiry>(forget)

/** In milliseconds: how often all ends are compared with the clock. While a machine sleeps the clock goes on, and timers do not. */
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

// Not functions inside of createSignal, which would refer to its variables, and keep the signal alive.
const createExpired = () => new TokenExpired()
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
    // A process with nothing else to do must end.
    expiry.timer.unref()
  }
  if (Date.now() >= end) return abort()
  wait()
  pending.add(expiry)
  watchClock()
  collected.register(controller, expiry)
}

/** Node.js 20 and 22 keep an aborted signal forever if it has a listener, and with it what the listener refers to. */
function removeListeners (signal: AbortSignal): void {
  for (const listener of getEventListeners(signal, 'abort')) {
    for (const capture of [false, true]) signal.removeEventListener('abort', listener as () => void, { capture })
  }
}

/**
 * Creates a signal that aborts after whoever asked for it has added its listeners: they would never be called for one that is
 * aborted already.
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
 * Creates the signal of a valid token. Where the token has ceased to be valid since it was verified, it aborts by
 * `setImmediate`.
 */
export function createSignal (token: Credential, { request: { raw }, settings, sessionId, record: { owner } }: RequestState): AbortSignal {
  const controller = new AbortController()
  if (sessionId !== null) owner.watchSession?.(sessionId, token.payload, controller)
  watchKey(token.life, controller)
  const { expiry, retirement } = token.authority.endsOf(token, settings)
  const end = Math.min(expiry, retirement)
  if (end !== Infinity) abortAt(end, controller, end === expiry ? createExpired : createInvalid)
  if (controller.signal.aborted) return abortSoon(controller.signal.reason)

  // Not the signal of the controller itself, which Node.js does not keep alive for its listeners.
  const signal = AbortSignal.any([controller.signal])
  sources.set(signal, controller)
  const others = connections.get(raw)
  if (others === undefined) connections.set(raw, [signal])
  else others.push(signal)
  // Later, because the listeners of the signal are called after those of the controller.
  controller.signal.addEventListener('abort', () => { queueMicrotask(() => { removeListeners(signal) }) })
  return signal
}
