/** Settings that are computed from a request: at most once per request and instance, and only when something asks. */
import { HandlerFailed, InvalidConfiguration, RequiredKeysNotFound } from '../errors.ts'
import { hostError, typeName } from '../host/call.ts'
import { allowedValues, fits } from './check.ts'
import type { Getter, Resolved } from './configuration.ts'
import { accessorOf, keySettings, type KeySetting, type SettingName, type Settings } from './schema.ts'

const isKey = (name: SettingName): name is KeySetting => (keySettings as readonly string[]).includes(name)

/** What the getters of one instance give. */
export interface GetterResults {
  /** @throws {RequiredKeysNotFound} where there is no request to compute the setting from */
  get (name: SettingName, getter: Getter): unknown
}

/**
 * For work without a request, such as verifying a token that came by another way: a setting that has a getter has no
 * value there, and no other value may stand in for it.
 * @param advice what to do instead, as the end of the message
 */
export function withoutRequest (advice: string): GetterResults {
  return {
    get (name) {
      throw new RequiredKeysNotFound(`"${accessorOf('get', name)}" needs a request${advice}`, { section: 'settings', duringRequest: true })
    }
  }
}

/** What the getters of one instance gave for one request. All guards of that request share it. */
export class RequestResults implements GetterResults {
  readonly #request: object
  /** Made when the first getter runs: most requests have none. */
  #results: Map<SettingName, { value: unknown } | { error: unknown }> | undefined

  constructor (request: object) {
    this.#request = request
  }

  /** @throws what {@link hostError} makes of what the getter threw, the first time and every time */
  get (name: SettingName, getter: Getter): unknown {
    this.#results ??= new Map()
    let result = this.#results.get(name)
    if (result === undefined) {
      try {
        result = { value: this.#run(name, getter) }
      } catch (error) {
        result = { error }
      }
      this.#results.set(name, result)
    }
    if ('error' in result) throw result.error
    return result.value
  }

  #run (name: SettingName, getter: Getter): unknown {
    const handler = accessorOf('get', name)
    let value: unknown
    try {
      value = getter(this.#request)
    } catch (cause) {
      throw hostError(handler, cause)
    }
    // Keys may be promised, and are checked where they are used.
    if (isKey(name)) return value
    if (fits(name, value)) return value
    // A promise that nobody awaits must not end the process when it rejects.
    if (value instanceof Promise) value.catch(() => {})
    const cause = new InvalidConfiguration(`"${name}" must be ${allowedValues(name)}; ${handler} gave ${typeName(value)}.`, { section: 'settings' })
    throw new HandlerFailed(handler, { cause })
  }
}

/** The settings as one request sees them, and the results of getters that they come from. */
export interface RequestSettings {
  readonly settings: Readonly<Settings>
  readonly results: GetterResults
}

/** Creates the settings object that one request sees. */
export type SettingsOfRequest = (results: GetterResults) => Readonly<Settings>

/**
 * Prepares, once, how a request sees these settings. Without getters every request sees the same frozen object;
 * with some, an object whose computed settings are accessors, so that only those asked for run.
 */
export function prepareSettings (resolved: Resolved): SettingsOfRequest {
  const computed = [...resolved.getters].filter(([name]) => !isKey(name) && name !== 'generateRefreshToken')
  const { settings } = resolved
  if (computed.length === 0) return () => settings
  const results = Symbol('results')
  const prototype: object = { ...settings }
  for (const [name, getter] of computed) {
    Object.defineProperty(prototype, name, {
      enumerable: true,
      get (this: { [results]: GetterResults }) { return this[results].get(name, getter) }
    })
  }
  Object.freeze(prototype)
  return (value) => Object.freeze(Object.create(prototype, { [results]: { value } }))
}
