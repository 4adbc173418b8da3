/** The keys of an instance with the option `keys`: the current ring, and its replacement by a function of the application. */
import { InvalidConfiguration } from '../configuration-errors.ts'
import { callPatiently } from '../host/call.ts'
import type { Resolved } from '../settings/configuration.ts'
import type { Settings } from '../settings/schema.ts'
import type { KeyStatus } from '../../types/keys.ts'
import { endOfSigning, nextSwitch, signingAt } from './calendar.ts'
import { checkBeside, checkEntries, createRing, jwkSetOf, statusOf, type KeyRing, type RingKey } from './key-ring.ts'
import { abortTokens, isAlive, isConfigured } from './life.ts'
import { residueIn } from './material.ts'
import type { KeyNews } from './news.ts'
import { readEntries, type Entry } from './ring-entries.ts'

/** In milliseconds: how often the function is called, and dates are compared with the clock. */
const reloadTime = 60_000
/** In seconds: how long clients may cache the published keys. */
export const jwksMaxAge = 300

const page = 'keys.md'

/** Calls the function `keys` and reads its result, whose getters may throw. @param isPatient whether waiting keeps the process alive */
async function callKeys (keys: () => unknown, settings: Settings, isPatient: boolean): Promise<readonly Entry[]> {
  try {
    return readEntries(await callPatiently(keys, isPatient), settings)
  } catch (cause) {
    if (cause instanceof InvalidConfiguration) throw cause
    throw new InvalidConfiguration(
      'The function "keys" failed, so the keys are not known. Its error is the cause. Check what the function depends on.',
      { finding: 'E19', cause }
    )
  }
}

/** Returns the keys of a ring and their dates as text, for comparison. */
const listed = ({ keys }: KeyRing) =>
  JSON.stringify(keys.map(({ kid, verifying, signFrom, life }) => [kid, verifying.fingerprint, signFrom, life.until]))

/** Returns the keys that are not in the ring. */
const newIn = (entries: readonly Entry[], { keys }: KeyRing) =>
  entries.map(({ verifying }) => verifying).filter(({ fingerprint }) => !keys.some((key) => key.verifying.fingerprint === fingerprint))

/** The keys of one instance. Its ring is replaced as a whole, or not at all. */
export class LiveKeys {
  readonly #load: (() => unknown) | undefined
  readonly #resolved: Resolved
  #ring: KeyRing
  readonly #report: (news: KeyNews) => void
  /** The longest leeway of the registration and its guards. */
  #leeway: number
  /** Whether the registration and all of its guards verify `exp`. */
  #verifyExp: boolean
  /** The id of the key that signed last. */
  #signing: string | undefined
  #hasFailed = false
  #reloading: Promise<void> | undefined
  #waiting: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  private constructor (load: (() => unknown) | undefined, entries: readonly Entry[], resolved: Resolved, report: (news: KeyNews) => void) {
    this.#report = report
    this.#load = load
    this.#resolved = resolved
    this.#leeway = resolved.settings.leeway
    this.#verifyExp = resolved.settings.verifyExp
    checkEntries(entries, resolved, this.#leeway)
    this.#ring = createRing(entries)
    this.#signing = signingAt(this.#ring.keys, Date.now())?.kid
  }

  /**
   * Reads the option `keys`: a list, or a function that returns one.
   * @param report called with events of the keys
   * @throws {InvalidConfiguration}
   */
  static async read (option: unknown, resolved: Resolved, report: (news: KeyNews) => void): Promise<LiveKeys> {
    checkBeside(resolved)
    if (typeof option !== 'function') return new LiveKeys(undefined, readEntries(option, resolved.settings), resolved, report)
    const load = () => Reflect.apply(option, undefined, [])
    return new LiveKeys(load, await callKeys(load, resolved.settings, true), resolved, report)
  }

  get ring (): KeyRing {
    return this.#ring
  }

  /** Returns the key that signs now, and reports a switch to another key; undefined if no key signs. */
  signing (): RingKey | undefined {
    const { keys } = this.#ring
    // If the clock was set back to before the first date, the key that signed last continues.
    const key = signingAt(keys, Date.now()) ?? keys.find(({ kid, canSign }) => canSign && kid === this.#signing)
    if (key !== undefined && key.kid !== this.#signing) {
      this.#signing = key.kid
      this.#report({ type: 'switched', kid: key.kid, isNew: true })
    }
    return key
  }

  status (): KeyStatus['keys'] {
    return statusOf(this.#ring)
  }

  jwkSet (): string {
    return jwkSetOf(this.#ring)
  }

  /**
   * Checks the settings of a guard: no token may outlive its key under them, now or after a reload.
   * @throws {InvalidConfiguration}
   */
  admitGuard (settings: Settings): void {
    const leeway = Math.max(this.#leeway, settings.leeway)
    const { keys } = this.#ring
    const entries = keys.map((key) => ({ ...key, verifyUntil: key.life.until }))
    const verifyExp = this.#verifyExp && settings.verifyExp
    checkEntries(entries, { ...this.#resolved, settings: { ...this.#resolved.settings, authMode: false, verifyExp } }, leeway)
    this.#leeway = leeway
    this.#verifyExp = verifyExp
  }

  /**
   * Calls the function again and replaces the ring. A call during a reload reloads once more after it, because the first
   * reload may have read the keys before they changed.
   * @throws {InvalidConfiguration} if the new list fails a check; the old ring stays
   */
  async reload (): Promise<void> {
    const load = this.#load
    if (load === undefined) {
      throw new InvalidConfiguration('reloadKeys() needs a function that returns the keys. Give one as "keys".', {
        page,
        duringRequest: true
      })
    }
    if (this.#reloading === undefined) {
      this.#reloading = this.#reloadOnce(load).finally(() => {
        this.#reloading = undefined
      })
      return await this.#reloading
    }
    this.#waiting ??= this.#reloading
      .catch(() => {})
      .then(async () => {
        this.#waiting = undefined
        await this.reload()
      })
    return await this.#waiting
  }

  async #reloadOnce (load: () => unknown): Promise<void> {
    try {
      const { settings } = this.#resolved
      const entries = await callKeys(load, settings, false)
      checkEntries(entries, { ...this.#resolved, settings: { ...settings, verifyExp: this.#verifyExp } }, this.#leeway)
      const before = this.#ring
      const list = listed(before)
      const accepted = before.keys.filter(({ life }) => isAlive(life))
      this.#ring = createRing(entries, before)
      const removed = accepted.filter(({ life }) => !isConfigured(life)).map(({ kid }) => kid)
      this.#abortEnded()
      const added = newIn(entries, before)
      if (list !== listed(this.#ring) || this.#hasFailed) {
        this.#report({ type: 'reloaded', isNew: true, removed, isWeak: added.some(({ isWeak }) => isWeak), residue: residueIn(added) })
      }
      this.#reportLate(before)
    } catch (error) {
      this.#report({ type: 'reload-failed', error, isNew: !this.#hasFailed })
      this.#hasFailed = true
      throw error
    }
    this.#hasFailed = false
    this.signing()
  }

  /** Aborts the controllers that watch a key whose `verifyUntil` has passed. */
  #abortEnded (): void {
    for (const { life } of this.#ring.keys) if (!isAlive(life)) abortTokens(life)
  }

  /** Reports new keys that sign before the caches of all clients have expired. */
  #reportLate (before: KeyRing): void {
    const now = Date.now()
    const known = new Set(before.keys.map(({ kid, verifying }) => `${kid} ${verifying.fingerprint}`))
    const soon = now + (jwksMaxAge + this.#resolved.settings.leeway) * 1000
    for (const key of this.#ring.keys) {
      const isNew = !known.has(`${key.kid} ${key.verifying.fingerprint}`)
      if (isNew && key.signFrom < soon && endOfSigning(key, this.#ring.keys) > now) {
        this.#report({ type: 'late', kid: key.kid, isNew: true })
      }
    }
  }

  /** Begins to call the function, and to compare dates with the clock, until {@link stop}. */
  start (): void {
    if (this.#load === undefined && nextSwitch(this.#ring.keys, Date.now()) === Infinity) return
    this.#timer = setTimeout(() => { this.#tick() }, reloadTime)
    // The timer must not keep the process alive.
    this.#timer.unref()
  }

  async #tick (): Promise<void> {
    const timer = this.#timer
    // `reload()` reported the error; the next tick retries.
    if (this.#load !== undefined) await this.reload().catch(() => {})
    this.signing()
    this.#abortEnded()
    // Not if `stop()` was called meanwhile.
    if (this.#timer === timer) this.start()
  }

  stop (): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
