/** Checks the values of settings, and describes invalid ones without printing key material. */
import type { TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { KeyObject } from 'node:crypto'
import { InvalidConfiguration, type Page } from '../configuration-errors.ts'
import { quote, typeName } from '../values.ts'
import { alternatives, Wrong, type Kind } from './kinds.ts'
import { faultOfOrigins } from './origins.ts'
import { registeredClaimNames, settingsSchema, type SettingName, type Settings } from './schema.ts'

const schemas: Record<string, TSchema> = settingsSchema.properties

/** Whether a value has one of the forms of key material. What it holds is checked where it is read. */
function isKeyMaterial (value: unknown): boolean {
  if (typeof value === 'string' || Buffer.isBuffer(value) || value instanceof KeyObject || value instanceof URL) return true
  if (typeof value !== 'object' || value === null) return false
  if ('passphrase' in value && !['string', 'undefined'].includes(typeof value.passphrase)) return false
  if ('pem' in value) return typeof value.pem === 'string' || Buffer.isBuffer(value.pem)
  return ('path' in value && typeof value.path === 'string') || ('kty' in value && typeof value.kty === 'string')
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
  if (schema.holds === 'key') return 'a string, a Buffer, a KeyObject, a JWK, a file: URL, { path } or { pem, passphrase }'
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

/** Describes the value of a setting for an error message. Of key material, it names only the type. */
export function describeValue (name: SettingName, value: unknown): string {
  const { holds } = schemas[name]!
  if (holds === 'key' || holds === 'callable') return typeName(value)
  if (holds === 'origins' && Array.isArray(value)) return `a list whose ${faultOfOrigins(value)}`
  if (typeof value === 'string') return quote(value)
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : typeName(value)
}

/** The values of a setting, where an option takes the same. The type is that of the setting. */
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
  throw new InvalidConfiguration(`Option "${option}" must be a subclass of ${base.name}; given: ${description}.`, { page })
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
  throw new InvalidConfiguration(`${source} must ${verb} ${allowedValues(name)}; ${participle}: ${describeValue(name, value)}.`, { page: 'settings.md' })
}

type Names = { readonly [K in SettingName]?: string }

/** @throws {InvalidConfiguration} for two settings with the same name or path */
export function checkDistinct (names: Names, what: string): void {
  const taken = new Map<string, string>()
  for (const [setting, name] of Object.entries(names)) {
    const other = taken.get(name)
    if (other !== undefined) {
      throw new InvalidConfiguration(`"${setting}" and "${other}" are both ${JSON.stringify(name)}: ${what}.`, { finding: 'E10' })
    }
    taken.set(name, setting)
  }
}

/** The claims of access tokens of sessions, and what they contain. */
const sessionClaims = { sid: 'the id of the session', sgen: 'the generation of its refresh token' }

/** As {@link checkTogether}, for the claims that an instance has with the option `sessions`. @throws {InvalidConfiguration} */
export function checkWithSessions (settings: Settings): void {
  for (const setting of ['userId', 'scopesName'] as const) {
    const { [setting]: name } = settings
    const content = Object.hasOwn(sessionClaims, name) ? Reflect.get(sessionClaims, name) : undefined
    if (content !== undefined) throw new InvalidConfiguration(`"${setting}" must not be "${name}" with "sessions", because this claim then contains ${content}. Choose another name.`, { finding: 'E10' })
  }
}

/** Browsers reject a cookie if the prefix of its name requires attributes that it does not have (RFC 6265bis section 4.1.3). */
function checkPrefixes (settings: Settings): void {
  for (const setting of ['cookieAccessTokenName', 'cookieRefreshTokenName', 'cookieSplitSignatureName'] as const) {
    const name = settings[setting].toLowerCase()
    const isHostOnly = settings.cookieDomain === '' && settings.cookiePath === '/'
    if (((name.startsWith('__secure-') || name.startsWith('__host-')) && !settings.cookieSecure) || (name.startsWith('__host-') && !isHostOnly)) {
      throw new InvalidConfiguration(`"${setting}" is ${JSON.stringify(settings[setting])}, but browsers accept the prefix "__Secure-" only with "cookieSecure": true, and "__Host-" only with "cookiePath": "/" and no "cookieDomain" as well. Change these settings, or choose a name without this prefix.`, { finding: 'E09' })
    }
  }
}

/** Checks the placeholders of a redirect target. What a getter returns may have other braces, which come from the request. @throws {InvalidConfiguration} */
export function checkTarget (name: string, target: string): void {
  const wrong = target.match(/\{[^}]*\}/g)?.find((text) => text !== '{next}' && text !== '{reason}')
  if (wrong === undefined) return
  throw new InvalidConfiguration(`"${name}" has ${quote(wrong)}, but only {next} and {reason} are replaced in it. Remove it, or write its braces as %7B and %7D.`, { finding: 'E58' })
}

/**
 * Checks the rules that concern several settings. Those of paths stand with the table of endpoints.
 * @throws {InvalidConfiguration} if settings contradict each other
 */
export function checkTogether (settings: Settings): void {
  checkDistinct({ accessTokenName: settings.accessTokenName, refreshTokenName: settings.refreshTokenName }, 'the fields of a response need different names')
  checkDistinct({
    cookieAccessTokenName: settings.cookieAccessTokenName,
    cookieRefreshTokenName: settings.cookieRefreshTokenName,
    cookieSplitSignatureName: settings.cookieSplitSignatureName
  }, 'cookies need different names')
  checkDistinct({
    queryStringAccessTokenName: settings.queryStringAccessTokenName,
    queryStringRefreshTokenName: settings.queryStringRefreshTokenName
  }, 'query parameters need different names')
  checkDistinct({ userId: settings.userId, scopesName: settings.scopesName }, 'claims need different names')
  for (const setting of ['userId', 'scopesName'] as const) {
    if (registeredClaimNames.includes(settings[setting])) {
      throw new InvalidConfiguration(`"${setting}" must not be ${JSON.stringify(settings[setting])}, which is the name of a registered claim (RFC 7519 section 4.1). Choose another name.`, { finding: 'E10' })
    }
  }
  for (const setting of ['userId', 'scopesName'] as const) {
    if (settings.claimAuthTime && settings[setting] === 'auth_time') {
      throw new InvalidConfiguration(`"${setting}" must not be "auth_time" if "claimAuthTime" is true, because this claim then contains the time of the login. Choose another name.`, { finding: 'E10' })
    }
  }
  if (settings.cookieSet) checkPrefixes(settings)
  checkTarget('loginRedirectUrl', settings.loginRedirectUrl)
  if (settings.cookieSet && settings.cookieSamesite === 'none' && !settings.cookieSecure) {
    throw new InvalidConfiguration('"cookieSamesite" is "none" and "cookieSecure" is false, so browsers reject the cookies. Set "cookieSecure" to true.', { finding: 'E09' })
  }
}
