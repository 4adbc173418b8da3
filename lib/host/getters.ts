/** Settings that getters compute from a request: at most once for a request and registration, and only if they are needed. */
import { InvalidConfiguration, RequiredKeysNotFound } from '../configuration-errors.ts'
import { HandlerFailed } from '../errors.ts'
import { hostError } from './call.ts'
import { ignoreRejection, ownPromise } from '../promises.ts'
import { typeName } from '../values.ts'
import { allowedValues, describeValue, fits } from '../settings/check.ts'
import type { MaybePromise } from '../../types/handlers.ts'
import type { Getter, Resolved } from '../settings/configuration.ts'
import { accessorOf, keySettings, type KeySetting, type SettingName, type Settings } from '../settings/schema.ts'
import { computedRulesOf, type ComputedRule } from '../settings/together.ts'

const isKey = (name: SettingName): name is KeySetting => (keySettings as readonly string[]).includes(name)

/** The results of the getters of a registration. */
export interface GetterResults {
  /** @throws {RequiredKeysNotFound} if there is no request to compute the setting from */
  get (name: SettingName, getter: Getter): unknown
  /** Whether a getter has returned a value. */
  has (getter: Getter): boolean
}

/**
 * Creates the results for an operation without a request, such as `verifyToken`. Reading a setting with a getter throws:
 * with any other value, such as the default, a token could be accepted that no request may use.
 * @param advice the end of the error message, which states what to do instead
 */
export function withoutRequest (advice: string): GetterResults {
  return {
    get (name) {
      throw new RequiredKeysNotFound(`"${accessorOf('get', name)}" needs a request${advice}`, { page: 'settings.md', duringRequest: true })
    },
    has: () => false
  }
}

/** The results of the getters of a registration for one request. All guards of the request share them. */
export class RequestResults implements GetterResults {
  readonly #request: object
  /**
   * By the getter, not by the setting: code that has this object but not the getter of a key can neither read the key nor
   * set a value in advance. Created when the first getter runs, because most requests run none.
   */
  #results: Map<Getter, { value: unknown } | { error: unknown }> | undefined

  constructor (request: object) {
    this.#request = request
  }

  /** @throws the error of the getter, converted by {@link hostError}; the same error on every call */
  get (name: SettingName, getter: Getter): unknown {
    this.#results ??= new Map()
    let result = this.#results.get(getter)
    if (result === undefined) {
      try {
        result = { value: this.#run(name, getter) }
      } catch (error) {
        result = { error }
      }
      this.#results.set(getter, result)
    }
    if ('error' in result) throw result.error
    return result.value
  }

  has (getter: Getter): boolean {
    const result = this.#results?.get(getter)
    return result !== undefined && 'value' in result
  }

  #run (name: SettingName, getter: Getter): unknown {
    const handler = accessorOf('get', name)
    let value: unknown
    try {
      value = getter(this.#request)
    } catch (cause) {
      throw hostError(handler, cause)
    }
    // The getter of a key can be asynchronous. Keys are checked when they are used.
    if (isKey(name)) return ownPromise(value)
    if (fits(name, value)) return value
    ignoreRejection(value)
    const cause = new InvalidConfiguration(
      `${handler} must return ${allowedValues(name)}; returned: ${Array.isArray(value) ? describeValue(name, value) : typeName(value)}.`,
      { page: 'settings.md' }
    )
    throw new HandlerFailed(handler, { cause })
  }
}

/** The settings of one request, and the results of the getters that compute some of them. */
export interface RequestSettings {
  readonly settings: Readonly<Settings>
  readonly results: GetterResults
}

/** A value for all requests, or a function that computes it for one. It returns a promise only if the getter of a key does. */
export type Prepared<Value extends object> = Value | ((context: RequestSettings) => MaybePromise<Value>)

/** Creates the settings object of one request. */
export type SettingsOfRequest = (results: GetterResults) => Readonly<Settings>

/** The data of a settings object of one request. */
interface OfRequest {
  readonly results: GetterResults
  /** The settings whose rules were checked. */
  readonly checked: Set<SettingName>
}

/**
 * Checks the rules that read a computed setting. A rule that reads several computed settings is checked when the last of
 * them is computed, so that no getter runs only for a check.
 * @throws {HandlerFailed}
 */
function checkComputed (name: SettingName, rules: readonly ComputedRule[], { settings, getters }: Resolved, results: GetterResults): void {
  for (const { check, computed } of rules) {
    const known = computed.map((other) => [other, getters.get(other)!] as const)
    if (!known.every(([, getter]) => results.has(getter))) continue
    const values = Object.fromEntries(known.map(([other, getter]) => [other, { value: results.get(other, getter) }]))
    try {
      check(Object.create(settings, values))
    } catch (cause) {
      throw new HandlerFailed(accessorOf('get', name), { cause })
    }
  }
}

/**
 * Prepares the creation of settings objects. Without getters, all requests share one frozen object. With getters, each
 * request gets an object whose computed settings are accessors, so that a getter runs only if its setting is read.
 */
export function prepareSettings (resolved: Resolved): SettingsOfRequest {
  const computed = [...resolved.getters].filter(([name]) => !isKey(name) && name !== 'generateRefreshToken')
  const { settings } = resolved
  if (computed.length === 0) return () => settings
  const ofRequest = Symbol('ofRequest')
  const prototype: object = { ...settings }
  for (const [name, getter] of computed) {
    const rules = computedRulesOf(name, resolved)
    Object.defineProperty(prototype, name, {
      enumerable: true,
      get (this: { [ofRequest]: OfRequest }) {
        const { results, checked } = this[ofRequest]
        const value = results.get(name, getter)
        if (!checked.has(name)) {
          checkComputed(name, rules, resolved, results)
          checked.add(name)
        }
        return value
      }
    })
  }
  Object.freeze(prototype)
  return (results) => Object.freeze(Object.create(prototype, { [ofRequest]: { value: { results, checked: new Set() } } }))
}
