/** Checks the values of settings, and describes invalid ones without printing key material. */
import type { TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { types } from 'node:util'
import { InvalidConfiguration, type Page } from '../configuration-errors.ts'
import { adviceOnCopies } from '../copies.ts'
import { bytesOf, describeKey, quote, typeName } from '../values.ts'
import { alternatives, Wrong, type Kind } from './kinds.ts'
import { faultOfOrigins } from './origins.ts'
import { accessorOf, routeSettings, settingsSchema, type SettingName } from './schema.ts'

const schemas: Record<string, TSchema> = settingsSchema.properties

/** Whether a value has a form of key material. Its content is checked when it is read. */
function isKeyMaterial (value: unknown): boolean {
  if (typeof value === 'string' || bytesOf(value) !== undefined || types.isKeyObject(value) || value instanceof URL) return true
  if (typeof value !== 'object' || value === null) return false
  // When it is read, a JWK that also has members of another form is refused.
  if ('kty' in value) return typeof value.kty === 'string'
  if ('passphrase' in value && !['string', 'undefined'].includes(typeof value.passphrase)) return false
  if ('pem' in value) return typeof value.pem === 'string' || bytesOf(value.pem) !== undefined
  return 'path' in value && typeof value.path === 'string'
}

/** Whether a value has the type and range of a setting. */
export function fits (name: SettingName, value: unknown): boolean {
  const schema = schemas[name]!
  if (schema.holds === 'key') return isKeyMaterial(value)
  if (schema.holds === 'callable') return typeof value === 'function'
  if (schema.holds === 'origins') return value === '*' || (Array.isArray(value) && faultOfOrigins(value) === undefined)
  return Value.Check(schema, value)
}

function allowed (schema: TSchema): string {
  if (schema.holds === 'key') return 'a string, a Buffer or other bytes, a KeyObject, a JWK, a file: URL, { path } or { pem, passphrase }'
  if (schema.allowed !== undefined) return schema.allowed
  if (schema.anyOf !== undefined) return alternatives(schema.anyOf.map(allowed))
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.type === 'boolean') return 'true or false'
  if (schema.type === 'integer') return `a whole number from ${schema.minimum} to ${schema.maximum}`
  return schema.type
}

/** Describes the allowed values of a setting, for error messages and for docs/settings.md. */
export function allowedValues (name: SettingName): string {
  return allowed(schemas[name]!)
}

/** Describes the value of a setting for an error message. For key material, it states only the type. */
export function describeValue (name: SettingName, value: unknown): string {
  const { holds } = schemas[name]!
  if (holds === 'key') return describeKey(value)
  if (holds === 'callable') return typeName(value)
  if (holds === 'origins' && Array.isArray(value)) return `a list whose ${faultOfOrigins(value)}`
  if (typeof value === 'string') return quote(value)
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : typeName(value)
}

/** The kind of an option that takes the values of a setting. `Value` must be the type of the setting. */
export const ofSetting = <Value>(name: SettingName): Kind<Value> => ({
  allowed: allowedValues(name),
  read: (value) => fits(name, value) ? value as Value : new Wrong(describeValue(name, value))
})

/**
 * Checks an option that must be a class.
 * @throws {InvalidConfiguration} for anything but the base class and its subclasses
 */
export function checkSubclass<Base extends new () => object> (option: string, value: unknown, base: Base, page: Page): Base {
  if (typeof value === 'function' && (value === base || value.prototype instanceof base)) return value as Base
  const description = typeof value === 'function' ? `${value.name || 'a function'}, which does not extend it` : typeName(value)
  throw new InvalidConfiguration(
    `Option "${option}" must be a subclass of ${base.name}; given: ${description}.${adviceOnCopies([value])}`,
    { page }
  )
}

/**
 * Checks the value of a setting.
 * @param source where the value comes from, as the beginning of the error message: `Option "leeway"`
 * @param isReturned whether the source is a function that returned the value
 * @throws {InvalidConfiguration} with a message that names the source, the allowed values and the value
 */
export function checkSetting (name: SettingName, value: unknown, source: string, isReturned = false): void {
  if (fits(name, value)) return
  const [verb, participle] = isReturned ? ['return', 'returned'] : ['be', 'given']
  const canBeComputed = typeof value === 'function' && !isReturned && !routeSettings.some((fixed) => fixed === name)
  const advice = canBeComputed ? ` A function of the request is "${accessorOf('get', name)}".` : ''
  throw new InvalidConfiguration(`${source} must ${verb} ${allowedValues(name)}; ${participle}: ${describeValue(name, value)}.${advice}`, {
    page: 'settings.md'
  })
}
