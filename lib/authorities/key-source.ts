/**
 * Reads the keys of a trusted issuer: every 10 minutes, every 10 seconds after a failure, and early when a token has a `kid`
 * that is not known. All issuers with the same address share a source, so that a process fetches once for all of its
 * instances.
 */
import { callPatiently } from '../host/call.ts'
import { readKeySet, type PublishedJwk } from './issuer-keys.ts'
import type { ReadKeys } from './remote-key-set.ts'
import { memberOf } from '../values.ts'

/** In milliseconds. */
export const refreshTime = 600_000
/** In milliseconds. Without it, processes that start at the same time would always fetch at the same time. */
const jitter = 60_000
/** In milliseconds: the time between failed attempts, between searches for a missing key, and until another early attempt is allowed. */
export const pauseTime = 10_000
/** The maximum number of early attempts. It bounds the requests that invalid tokens can cause. */
export const mostEarly = 5

/** Receives the keys of a source. */
export interface SourceListener {
  /** @param at when the keys were read, in milliseconds since 1970 */
  accept (keys: readonly PublishedJwk[], at: number): void
  /** Called once when the keys could not be read, until they can be read again. */
  failed (error: unknown): void
  /** Called when the keys could be read again. */
  recovered (): void
}

type ReadSet = (signal: AbortSignal) => Promise<readonly PublishedJwk[]>

export class KeySource {
  readonly #read: ReadSet
  readonly #listeners = new Set<SourceListener>()
  readonly #end = new AbortController()
  #last: { readonly keys: readonly PublishedJwk[], readonly at: number } | undefined
  #failure: { readonly error: unknown, readonly at: number } | undefined
  #loading: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  /** Early attempts that are left. */
  #early = mostEarly
  #gain: NodeJS.Timeout | undefined
  /** Runs for a while after the keys were read. */
  #pause: NodeJS.Timeout | undefined
  /** Whether it was reported that these keys lack the key of a token. */
  #isNoted = false

  constructor (read: ReadSet) {
    this.#read = read
  }

  /** When the keys were read last, in milliseconds since 1970; null for never. */
  get fetchedAt (): number | null {
    return this.#last?.at ?? null
  }

  /** When they could not be read; null if the last attempt succeeded. */
  get failedAt (): number | null {
    return this.#failure?.at ?? null
  }

  /** Whether they are being read. */
  get isLoading (): boolean {
    return this.#loading !== undefined
  }

  /** Whether they were read a short time ago, so that a key that was not found is not looked for again. */
  get isRecent (): boolean {
    return this.#pause !== undefined
  }

  /** Uses one of the early attempts. @returns false if none was left */
  takeEarly (): boolean {
    if (this.#early === 0) return false
    this.#early--
    this.#gainLater()
    return true
  }

  #gainLater (): void {
    this.#gain ??= setTimeout(() => {
      this.#gain = undefined
      if (++this.#early < mostEarly) this.#gainLater()
    }, pauseTime).unref()
  }

  /** Adds a listener. Resolves when the keys were read, or could not be. */
  async add (listener: SourceListener): Promise<void> {
    this.#listeners.add(listener)
    if (this.#last !== undefined) listener.accept(this.#last.keys, this.#last.at)
    if (this.#failure !== undefined) listener.failed(this.#failure.error)
    if (this.#last === undefined && this.#failure === undefined) await this.load()
  }

  /** Removes a listener. The removal of the last one stops the source. @returns whether it was the last one */
  remove (listener: SourceListener): boolean {
    this.#listeners.delete(listener)
    if (this.#listeners.size > 0) return false
    clearTimeout(this.#timer)
    clearTimeout(this.#pause)
    clearTimeout(this.#gain)
    this.#end.abort()
    return true
  }

  /** Reads the keys. Concurrent calls share one attempt. Never rejects. */
  load (): Promise<void> {
    this.#loading ??= this.#loadOnce().finally(() => { this.#loading = undefined })
    return this.#loading
  }

  async #loadOnce (): Promise<void> {
    clearTimeout(this.#timer)
    try {
      const keys = await this.#read(this.#end.signal)
      const hadFailed = this.#failure !== undefined
      this.#failure = undefined
      this.#last = { keys, at: Date.now() }
      this.#isNoted = false
      clearTimeout(this.#pause)
      this.#pause = setTimeout(() => { this.#pause = undefined }, pauseTime).unref()
      for (const listener of this.#listeners) listener.accept(keys, this.#last.at)
      if (hadFailed) for (const listener of this.#listeners) listener.recovered()
    } catch (error) {
      const isNew = this.#failure === undefined
      this.#failure = { error, at: Date.now() }
      if (isNew) for (const listener of this.#listeners) listener.failed(error)
    }
    if (this.#listeners.size === 0) return
    this.#timer = setTimeout(() => { this.load() }, this.#failure === undefined ? refreshTime - Math.random() * jitter : pauseTime)
    // The timer must not keep the process alive.
    this.#timer.unref()
  }

  /** Records that the current keys lack the key of a token. @returns whether this is the first call for these keys */
  noteMissing (): boolean {
    const isFirst = !this.#isNoted
    this.#isNoted = true
    return isFirst
  }
}

/** Creates a source from a function of the application. */
export function sourceOfFunction (load: () => unknown): KeySource {
  let isFirst = true
  return new KeySource(async () => {
    const isPatient = isFirst
    isFirst = false
    try {
      return readKeySet(await callPatiently(load, isPatient))
    } catch (cause) {
      // Loggers print all properties of an error, which may contain secrets, but not those of its cause.
      throw new Error('The function "jwks" failed. Its error is the cause.', { cause })
    }
  })
}

const remote = new Map<string, KeySource>()

/** Returns the source of an address. All issuers with this address share it. @param read fetches the keys for a new source */
export function sourceOfAddress (uri: string, read: ReadKeys): KeySource {
  const source = remote.get(uri) ?? new KeySource(async (signal) => {
    try {
      return readKeySet(await read(signal))
    } catch (error) {
      const { origin, pathname } = new URL(uri)
      // Without the query, which may contain an API key.
      throw new Error(`GET ${origin}${pathname}: ${memberOf(error, 'message')}`)
    }
  })
  remote.set(uri, source)
  return source
}

/** Forgets the source of an address after it was stopped. */
export function forgetSource (uri: string): void {
  remote.delete(uri)
}
