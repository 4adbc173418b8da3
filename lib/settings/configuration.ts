/** Where the value of a setting comes from: default < application < configuration class < option; getters and overrides on top. */
import type { TSchema } from '@sinclair/typebox'
import { InvalidConfiguration } from '../errors.ts'
import { typeName } from '../host/call.ts'
import type { GenerateRefreshToken, SettingValues } from '../../types/settings.ts'
import { checkSetting, checkSubclass, checkTogether, given as describeGiven } from './check.ts'
import {
  accessorOf, keySettings, routeSettings, settingNames, settingsSchema, type KeySetting, type SettingName, type Settings
} from './schema.ts'
import { suggest } from './suggest.ts'

/** The properties of a configuration class are settings, under their names. */
export interface Configuration extends Omit<SettingValues<object>, 'generateRefreshToken'> {
  // A method, so that a subclass may have it as a method or as a property.
  generateRefreshToken? (...parameters: Parameters<GenerateRefreshToken<object>>): ReturnType<GenerateRefreshToken<object>>
}

/**
 * The base of a configuration class. In a subclass, a property is a setting (`leeway = 60`), `set<Setting>` is its value
 * or a function that computes it once, and `get<Setting>(request)` computes it for one request, at most once.
 */
export class Configuration {}

/** Computes a setting from a request. */
export type Getter = (request: object) => unknown

type Values = Partial<Record<SettingName, unknown>>

/** All sources brought together. */
export interface Resolved {
  readonly settings: Readonly<Settings>
  /** Key material, behind a function: who logs or serializes an instance, or what a request knows of it, must not see it. */
  readonly keys: () => Readonly<Partial<Record<KeySetting, unknown>>>
  readonly generateRefreshToken: unknown
  readonly getters: ReadonlyMap<SettingName, Getter>
  /** The settings that some source sets, so that their values are not the defaults of the schema. */
  readonly given: ReadonlySet<string>
}

const known: ReadonlySet<string> = new Set(settingNames)
const isSetting = (name: string): name is SettingName => known.has(name)
const isRouteSetting = (name: string) => (routeSettings as readonly string[]).includes(name)

/** The key that verifies; `publicKey` is an alias of `secret`. */
const verifyingKeys: readonly SettingName[] = ['secret', 'publicKey']

const environmentPrefix = 'SERVICE_JWT_'

/** The key of a setting in the application's configuration: `SERVICE_JWT_EXPIRATION_DELTA`. */
export function environmentKey (name: SettingName): string {
  return environmentPrefix + name.replace(/(?<=[a-z])(?=[A-Z])/g, '_').toUpperCase()
}

const byEnvironmentKey = new Map(settingNames.map((name) => [environmentKey(name), name]))

/** `setLeeway` -> `leeway`; undefined for what is not a setter or getter of a setting. */
function accessed (name: string, prefix: 'set' | 'get'): SettingName | undefined {
  if (!name.startsWith(prefix)) return undefined
  return settingNames.find((candidate) => accessorOf(prefix, candidate) === name)
}

/** Every name that speaks of a setting in a configuration class or among the options, getters that are refused included. */
export const settingOptionNames: readonly string[] = settingNames.flatMap((name) => [name, accessorOf('set', name), accessorOf('get', name)])

function coerce (name: SettingName, value: unknown, source: string): unknown {
  const schema: TSchema = settingsSchema.properties[name]
  const members: TSchema[] = schema.anyOf ?? [schema]
  const types = new Set(members.map((member) => member.type))
  if (types.has('boolean')) {
    const text = typeof value === 'string' ? value.toLowerCase() : value
    if (text === true || text === 'true' || text === '1' || text === 1) return true
    if (text === false || text === 'false' || text === '0' || text === 0) return false
    throw new InvalidConfiguration(`${source} must be one of true, false, 1, 0; given: ${describeGiven(name, value)}.`, { section: 'settings' })
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
      throw new InvalidConfiguration(`The application's configuration has the unknown key "${key}".${suggest(key, byEnvironmentKey.keys())} Keys with the prefix ${environmentPrefix} are settings of this plugin: rename or remove it.`, { section: 'settings' })
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

/** Reads `x`, `setX` and `getX` from one object; `label` says whose they are. */
function readAccessors (owner: object, names: Iterable<string>, label: string): Accessors {
  const values: Values = {}
  const getters = new Map<SettingName, Getter>()
  const setBy = new Map<SettingName, string>()
  const take = (setting: SettingName, name: string, value: unknown, isReturned = false) => {
    const other = setBy.get(setting)
    if (other !== undefined) {
      throw new InvalidConfiguration(`${label} "${setting}" is given twice, as "${other}" and as "${name}". Keep one of them.`, { section: 'settings' })
    }
    setBy.set(setting, name)
    checkSetting(setting, value, isReturned ? `${label} "${name}": what the function returns` : `${label} "${name}"`)
    // The generator of refresh tokens may be a method, which needs its object.
    values[setting] = typeof value === 'function' && !isReturned ? value.bind(owner) : value
  }
  for (const name of names) {
    const value: unknown = Reflect.get(owner, name)
    if (value === undefined) continue
    const set = accessed(name, 'set')
    const get = accessed(name, 'get')
    if (isSetting(name)) {
      take(name, name, value)
    } else if (set !== undefined) {
      const isFunction = typeof value === 'function'
      take(set, name, isFunction ? Reflect.apply(value, owner, []) : value, isFunction)
    } else if (get !== undefined) {
      if (isRouteSetting(get)) {
        throw new InvalidConfiguration(`${label} "${name}": "${get}" shapes the routes and is decided once, so it cannot be computed per request. Use "${get}" or "${accessorOf('set', get)}".`, { section: 'settings' })
      }
      if (typeof value !== 'function') {
        throw new InvalidConfiguration(`${label} "${name}" must be a function of the request; given: ${typeName(value)}.`, { section: 'settings' })
      }
      getters.set(get, (request) => Reflect.apply(value, owner, [request]))
    }
  }
  return { values, getters }
}

/** The names that a configuration class gives: its own fields and the methods of its prototypes up to ours. */
function namesOf (configuration: Configuration): Set<string> {
  const names = new Set(Object.keys(configuration))
  for (let level = Object.getPrototypeOf(configuration); level !== Configuration.prototype; level = Object.getPrototypeOf(level)) {
    for (const name of Object.getOwnPropertyNames(level)) if (name !== 'constructor') names.add(name)
  }
  return names
}

function readClass (configurationClass: unknown): Accessors {
  if (configurationClass === undefined) return { values: {}, getters: new Map() }
  const Given = checkSubclass('configurationClass', configurationClass, Configuration, 'settings')
  const configuration = new Given()
  const names = namesOf(configuration)
  for (const name of names) {
    // A method of any other name is a helper of the class; a field, or a misspelt accessor, can only be a mistake.
    const helper = typeof Reflect.get(configuration, name) === 'function' && !/^[gs]et[A-Z]/.test(name)
    if (!helper && !settingOptionNames.includes(name)) {
      throw new InvalidConfiguration(`Configuration class: unknown setting "${name}".${suggest(name, settingOptionNames)} Its properties are settings, "set<Setting>" and "get<Setting>"; keep other data in #private fields.`, { section: 'settings' })
    }
  }
  return readAccessors(configuration, names, 'Configuration class:')
}

function defaults (): Values {
  const values: Values = {}
  for (const name of settingNames) values[name] = settingsSchema.properties[name].default
  return values
}

/** Splits what belongs together in a table of settings from what must never be shown. */
function split (values: Values): Pick<Resolved, 'settings' | 'keys' | 'generateRefreshToken'> {
  const settings: Values = { ...values }
  const keys: Partial<Record<KeySetting, unknown>> = {}
  for (const name of keySettings) {
    if (settings[name] !== undefined) keys[name] = settings[name]
    delete settings[name]
  }
  const generateRefreshToken = settings.generateRefreshToken
  delete settings.generateRefreshToken
  // A copy in the order of the schema: every value was checked against it, so the type is what the schema says.
  const complete = Object.freeze({ ...settings }) as Readonly<Settings>
  return { settings: complete, keys: () => keys, generateRefreshToken }
}

/**
 * Brings all sources together, each later one winning, and checks the outcome.
 * @param options the options of the registration, other names than settings ignored
 * @param application the application's own configuration (`fastify.config`), if it has one
 * @throws {InvalidConfiguration} which names what is wrong
 */
export function resolveSettings (options: Readonly<Record<string, unknown>>, application: unknown): Resolved {
  const fromClass = readClass(options.configurationClass)
  const fromOptions = readAccessors(options, Object.keys(options), 'Option')
  const given = { ...readApplication(application), ...fromClass.values, ...fromOptions.values }
  const resolved = split({ ...defaults(), ...given })
  checkTogether(resolved.settings)
  const getters = new Map([...fromClass.getters, ...fromOptions.getters])
  if (!resolved.settings.tokensInBody && !resolved.settings.cookieSet && !getters.has('cookieSet')) {
    throw new InvalidConfiguration('"tokensInBody" is false and "cookieSet" too, so that no client would ever receive a token. Set one of them to true.', { section: 'settings' })
  }
  return { ...resolved, getters, given: new Set(Object.keys(given)) }
}

/**
 * Applies the overrides of one guard.
 * @throws {InvalidConfiguration} for a name that is no setting, or one that cannot be overridden, or a wrong value
 */
export function overrideSettings (base: Resolved, overrides: Readonly<Record<string, unknown>>): Resolved {
  const values: Values = { ...base.settings, ...base.keys(), generateRefreshToken: base.generateRefreshToken }
  const getters = new Map(base.getters)
  for (const [name, value] of checkOverrides(overrides)) {
    if (verifyingKeys.includes(name)) {
      // One key under two names: what the instance has under the other name must not win over the override.
      for (const alias of verifyingKeys) {
        if (overrides[alias] === undefined) delete values[alias]
        getters.delete(alias)
      }
    }
    values[name] = value
    getters.delete(name)
  }
  const resolved = split(values)
  checkTogether(resolved.settings)
  return { ...resolved, getters, given: base.given }
}

/** What guards take besides settings. */
const guardOptions = ['maxAge', 'redirectOnFail', 'redirectUrl', 'requireAll', 'requireAllActions']

/** Checks overrides on their own, without an instance. @throws {InvalidConfiguration} */
export function checkOverrides (overrides: Readonly<Record<string, unknown>>): Map<SettingName, unknown> {
  const checked = new Map<SettingName, unknown>()
  for (const [name, value] of Object.entries(overrides)) {
    if (value === undefined) continue
    if (!isSetting(name)) {
      // The last two are unknown to guards without scopes.
      const valid = [...settingNames, ...guardOptions].filter((other) => other !== name)
      throw new InvalidConfiguration(`Unknown override "${name}".${suggest(name, valid)} A guard takes settings as overrides, "maxAge", "redirectOnFail" and "redirectUrl"; scoped() takes "requireAll" and "requireAllActions" too.`, { section: 'guards' })
    }
    if (isRouteSetting(name)) {
      throw new InvalidConfiguration(`"${name}" shapes the routes of an instance and cannot be overridden by a guard. Give it to register().`, { section: 'guards' })
    }
    checkSetting(name, value, `Override "${name}"`)
    checked.set(name, value)
  }
  return checked
}
