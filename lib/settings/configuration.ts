/**
 * Resolves settings from their sources. Each source takes precedence over those before it: default, configuration of the
 * application, configuration class, option, `get<Setting>`, override of a guard.
 */
import type { TSchema } from '@sinclair/typebox'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { memberOf, typeName } from '../values.ts'
import type { GenerateRefreshToken, SettingValues } from '../../types/settings.ts'
import { checkSetting, checkSubclass, describeValue } from './check.ts'
import { splitOrigins } from './origins.ts'
import {
  accessorOf, keySettings, routeSettings, settingNames, settingsSchema, type KeySetting, type SettingName, type Settings
} from './schema.ts'
import { suggest } from './suggest.ts'
import { checkTogether } from './together.ts'

/** Settings as properties of a configuration class. */
export interface Configuration extends Omit<SettingValues<object>, 'generateRefreshToken'> {
  // Declared as a method, so that a subclass can have a method or a property of this name.
  generateRefreshToken? (...parameters: Parameters<GenerateRefreshToken<object>>): ReturnType<GenerateRefreshToken<object>>
}

/**
 * The base class for the option `configurationClass`. In a subclass, a property is the value of a setting (`leeway = 60`).
 * `set<Setting>` is the value, or a function that computes it once, at registration. `get<Setting>(request)` computes the
 * value for each request, at most once and only if it is needed.
 */
export class Configuration {}

/** Computes a setting from a request. */
export type Getter = (request: object) => unknown

type Values = Partial<Record<SettingName, unknown>>

/** The settings of a registration or of a guard, resolved from all sources. */
export interface Resolved {
  readonly settings: Readonly<Settings>
  /** Returns the key material. It is a function so that logging or serializing this record discloses no keys. */
  readonly keys: () => Readonly<Partial<Record<KeySetting, unknown>>>
  readonly generateRefreshToken: unknown
  readonly getters: ReadonlyMap<SettingName, Getter>
  /** The names of the settings that a source sets. The remaining settings have their defaults. */
  readonly configured: ReadonlySet<string>
  /** Whether the registration has the option `sessions`, which adds claims to tokens. */
  readonly hasSessions: boolean
}

const known: ReadonlySet<string> = new Set(settingNames)
const isSetting = (name: string): name is SettingName => known.has(name)
const isRouteSetting = (name: string) => (routeSettings as readonly string[]).includes(name)

/** The names of the key that verifies tokens: `publicKey` is an alias of `secret`. */
const verifyingKeys: readonly SettingName[] = ['secret', 'publicKey']

const environmentPrefix = 'SERVICE_JWT_'

/** Returns the key of a setting in the application's configuration, such as `SERVICE_JWT_EXPIRATION_DELTA`. */
function environmentKey (name: SettingName): string {
  return environmentPrefix + name.replace(/(?<=[a-z])(?=[A-Z])/g, '_').toUpperCase()
}

const byEnvironmentKey = new Map(settingNames.map((name) => [environmentKey(name), name]))

/** Returns the setting of an accessor: `leeway` for `setLeeway`. Undefined for any other name. */
function settingOf (name: string, prefix: 'set' | 'get'): SettingName | undefined {
  if (!name.startsWith(prefix)) return undefined
  return settingNames.find((candidate) => accessorOf(prefix, candidate) === name)
}

/**
 * The names under which options and configuration classes refer to settings. They include getters of settings that cannot
 * have one, because these getters cause a more specific error.
 */
export const settingOptionNames: readonly string[] = settingNames.flatMap((name) => [
  name,
  accessorOf('set', name),
  accessorOf('get', name)
])

function coerce (name: SettingName, value: unknown, source: string): unknown {
  const schema: TSchema = settingsSchema.properties[name]
  if (schema.holds === 'origins' && typeof value === 'string') return splitOrigins(value)
  const members: TSchema[] = schema.anyOf ?? [schema]
  const types = new Set(members.map((member) => member.type))
  if (types.has('boolean')) {
    const text = typeof value === 'string' ? value.toLowerCase() : value
    if (text === true || text === 'true' || text === '1' || text === 1) return true
    if (text === false || text === 'false' || text === '0' || text === 0) return false
    throw new InvalidConfiguration(`${source} must be true, false, 1 or 0; given: ${describeValue(name, value)}.`, { page: 'settings.md' })
  }
  if (types.has('integer') && typeof value === 'string' && /^\d+$/.test(value)) return Number(value)
  return value
}

function readApplication (application: unknown): Values {
  const values: Values = {}
  if (typeof application !== 'object' || application === null) return values
  for (const [key, value] of Object.entries(application)) {
    if (!key.startsWith(environmentPrefix) || value === undefined) continue
    const name = byEnvironmentKey.get(key)
    if (name === undefined) {
      throw new InvalidConfiguration(
        `The application's configuration has the unknown key "${key}".${suggest(key, byEnvironmentKey.keys())} Keys with the prefix ${environmentPrefix} are reserved for settings of this plugin. Rename or remove the key.`,
        { page: 'settings.md' }
      )
    }
    const source = `"${key}" of the application's configuration`
    const coerced = coerce(name, value, source)
    checkSetting(name, coerced, source)
    values[name] = coerced
  }
  return values
}

interface Accessors {
  values: Values
  getters: Map<SettingName, Getter>
}

/**
 * Reads values, setters and getters of settings.
 * @param owner the options, or an instance of the configuration class
 * @param label the beginning of error messages: `Option` or `Configuration class:`
 */
function readAccessors (owner: object, names: Iterable<string>, label: string): Accessors {
  const values: Values = {}
  const getters = new Map<SettingName, Getter>()
  const setBy = new Map<SettingName, string>()
  const setValue = (setting: SettingName, name: string, value: unknown, isReturned = false) => {
    const other = setBy.get(setting)
    if (other !== undefined) {
      throw new InvalidConfiguration(`${label} "${setting}" is given twice, as "${other}" and as "${name}". Remove one of them.`, {
        page: 'settings.md'
      })
    }
    setBy.set(setting, name)
    checkSetting(setting, value, `${label} "${name}"`, isReturned)
    // `generateRefreshToken` can be a method of the class.
    values[setting] = typeof value === 'function' && !isReturned ? value.bind(owner) : value
  }
  for (const name of names) {
    const value = memberOf(owner, name)
    if (value === undefined) continue
    const set = settingOf(name, 'set')
    const get = settingOf(name, 'get')
    if (isSetting(name)) {
      setValue(name, name, value)
    } else if (set !== undefined) {
      const isFunction = typeof value === 'function'
      setValue(set, name, isFunction ? Reflect.apply(value, owner, []) : value, isFunction)
    } else if (get !== undefined) {
      if (isRouteSetting(get)) {
        throw new InvalidConfiguration(
          `${label} "${name}" is not allowed: "${get}" determines the routes at registration, so it cannot be computed from a request. Use "${get}" or "${accessorOf('set', get)}".`,
          { page: 'settings.md' }
        )
      }
      if (typeof value !== 'function') {
        throw new InvalidConfiguration(`${label} "${name}" must be a function of the request; given: ${typeName(value)}.`, {
          page: 'settings.md'
        })
      }
      getters.set(get, (request) => Reflect.apply(value, owner, [request]))
    }
  }
  return { values, getters }
}

/** Returns the names of the fields of a configuration and of the members of its classes, up to the base class. */
function namesOf (configuration: Configuration): Set<string> {
  const names = new Set(Object.keys(configuration))
  for (let level = Object.getPrototypeOf(configuration); level !== Configuration.prototype; level = Object.getPrototypeOf(level)) {
    for (const name of Object.getOwnPropertyNames(level)) if (name !== 'constructor') names.add(name)
  }
  return names
}

function readClass (configurationClass: unknown): Accessors {
  if (configurationClass === undefined) return { values: {}, getters: new Map() }
  const ConfigurationClass = checkSubclass('configurationClass', configurationClass, Configuration, 'settings.md')
  const configuration = new ConfigurationClass()
  const names = namesOf(configuration)
  for (const name of names) {
    // A method with another name is a helper of the class. A field or an accessor with another name is a mistake.
    const isHelper = typeof memberOf(configuration, name) === 'function' && !/^[gs]et[A-Z]/.test(name)
    if (!isHelper && !settingOptionNames.includes(name)) {
      throw new InvalidConfiguration(
        `Configuration class: unknown setting "${name}".${suggest(name, settingOptionNames)} The properties of the class must be settings, "set<Setting>" or "get<Setting>". Use #private fields for other data.`,
        { page: 'settings.md' }
      )
    }
  }
  return readAccessors(configuration, names, 'Configuration class:')
}

function defaults (): Values {
  const values: Values = {}
  for (const name of settingNames) values[name] = settingsSchema.properties[name].default
  return values
}

/** Separates key material and the generator of refresh tokens from the settings that can be shown. */
function separateKeys (values: Values): Pick<Resolved, 'settings' | 'keys' | 'generateRefreshToken'> {
  const settings: Values = { ...values }
  const keys: Partial<Record<KeySetting, unknown>> = {}
  for (const name of keySettings) {
    if (settings[name] !== undefined) keys[name] = settings[name]
    delete settings[name]
  }
  // A copy, because the application may change its list after the check.
  if (Array.isArray(settings.trustedOrigins)) settings.trustedOrigins = Object.freeze([...settings.trustedOrigins])
  const generateRefreshToken = settings.generateRefreshToken
  delete settings.generateRefreshToken
  // Every value was checked against the schema, from which the type is derived.
  const complete = Object.freeze({ ...settings }) as Readonly<Settings>
  return { settings: complete, keys: () => keys, generateRefreshToken }
}

/**
 * Resolves the settings of a registration.
 * @param options the options of the registration; names that do not belong to settings are ignored
 * @param application the configuration of the application (`fastify.config`), if there is one
 * @throws {InvalidConfiguration} for an unknown name, an invalid value, or settings that contradict each other
 */
export function resolveSettings (options: Readonly<Record<string, unknown>>, application: unknown): Resolved {
  const fromClass = readClass(options.configurationClass)
  const fromOptions = readAccessors(options, Object.keys(options), 'Option')
  const given = { ...readApplication(application), ...fromClass.values, ...fromOptions.values }
  const getters = new Map([...fromClass.getters, ...fromOptions.getters])
  const resolved = { ...separateKeys({ ...defaults(), ...given }), getters, configured: new Set(Object.keys(given)), hasSessions: false }
  checkTogether(resolved)
  // With a getter of `cookieSet`, a response without cookies has the tokens in its body.
  if (!resolved.settings.tokensInBody && !resolved.settings.cookieSet && !getters.has('cookieSet')) {
    throw new InvalidConfiguration(
      '"tokensInBody" and "cookieSet" are both false, so clients would receive no tokens. Set one of them to true.',
      { page: 'settings.md' }
    )
  }
  return resolved
}

/**
 * Applies the overrides of a guard.
 * @throws {InvalidConfiguration} for a setting that cannot be overridden, or an invalid value
 */
export function overrideSettings (base: Resolved, overrides: Overrides): Resolved {
  const values: Values = { ...base.settings, ...base.keys(), generateRefreshToken: base.generateRefreshToken }
  const getters = new Map(base.getters)
  for (const [name, value] of checkOverrides(overrides)) {
    if (verifyingKeys.includes(name)) {
      // Both names denote the same key. The registration's key under the other name must not take precedence over the override.
      for (const alias of verifyingKeys) {
        if (overrides[alias] === undefined) delete values[alias]
        getters.delete(alias)
      }
    }
    values[name] = value
    getters.delete(name)
  }
  const resolved = { ...base, ...separateKeys(values), getters }
  checkTogether(resolved)
  return resolved
}

/** The overrides of a guard, by setting. */
export type Overrides = { readonly [Name in SettingName]?: unknown }

/** Checks overrides without the settings that they override. @throws {InvalidConfiguration} as {@link overrideSettings} */
export function checkOverrides (overrides: Overrides): Map<SettingName, unknown> {
  const checked = new Map<SettingName, unknown>()
  for (const name of settingNames) {
    const value = Object.hasOwn(overrides, name) ? overrides[name] : undefined
    if (value === undefined) continue
    if (isRouteSetting(name)) {
      throw new InvalidConfiguration(
        `"${name}" determines the routes at registration, so a guard cannot override it. Set it in the options of register().`,
        { page: 'guards.md' }
      )
    }
    checkSetting(name, value, `Override "${name}"`)
    checked.set(name, value)
  }
  return checked
}
