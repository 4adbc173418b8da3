/** What is asked of the value of a setting, and how a wrong one is described without ever printing key material. */
import type { TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { KeyObject } from 'node:crypto'
import { InvalidConfiguration } from '../errors.ts'
import { typeName } from '../host/call.ts'
import { registeredClaimNames, settingsSchema, type SettingName, type Settings } from './schema.ts'

const schemas: Record<string, TSchema> = settingsSchema.properties

function isKeyMaterial (value: unknown): boolean {
  return typeof value === 'string' || Buffer.isBuffer(value) || value instanceof KeyObject || value instanceof URL ||
    (typeof value === 'object' && value !== null && 'path' in value && typeof value.path === 'string')
}

/** Whether a value has the type and range of a setting. */
export function fits (name: SettingName, value: unknown): boolean {
  const schema = schemas[name]!
  if (schema.holds === 'key') return isKeyMaterial(value)
  if (schema.holds === 'callable') return typeof value === 'function'
  return Value.Check(schema, value)
}

/** `a, b or c` */
function alternatives (words: readonly string[]): string {
  return `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}

function allowed (schema: TSchema): string {
  if (schema.holds === 'key') return 'a string, a Buffer, a KeyObject, a file: URL or { path }'
  if (schema.allowed !== undefined) return schema.allowed
  if (schema.anyOf !== undefined) return alternatives(schema.anyOf.map(allowed))
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.type === 'boolean') return 'true or false'
  if (schema.type === 'integer') return `a whole number from ${schema.minimum} to ${schema.maximum}`
  return schema.type
}

/** What a setting may be, in words; for error messages and the README's table. */
export function allowedValues (name: SettingName): string {
  return allowed(schemas[name]!)
}

/** Describes the value that a setting was given; never key material. */
export function given (name: SettingName, value: unknown): string {
  if (schemas[name]!.holds !== undefined) return typeName(value)
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 57)}...` : value)
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : typeName(value)
}

/**
 * Checks an option that is a class of the host.
 * @throws {InvalidConfiguration} for anything but the base class and its subclasses
 */
export function checkSubclass<Base extends new () => object> (option: string, value: unknown, base: Base, section: 'settings' | 'handlers' | 'responses'): Base {
  if (typeof value === 'function' && (value === base || value.prototype instanceof base)) return value as Base
  const found = typeof value === 'function' ? `${value.name || 'a function'}, which does not extend it` : typeName(value)
  throw new InvalidConfiguration(`Option "${option}" must be a subclass of ${base.name}; given: ${found}.`, { section })
}

/**
 * Checks one value of one setting.
 * @param source where it was given, as the user would name it: `option "leeway"`
 * @throws {InvalidConfiguration} which names the source, what was given and what is allowed
 */
export function checkSetting (name: SettingName, value: unknown, source: string): void {
  if (fits(name, value)) return
  throw new InvalidConfiguration(`${source} must be ${allowedValues(name)}; given: ${given(name, value)}.`, { section: 'settings' })
}

type Names = { readonly [K in SettingName]?: string }

function checkDistinct (names: Names, what: string): void {
  const taken = new Map<string, string>()
  for (const [setting, name] of Object.entries(names)) {
    const other = taken.get(name)
    if (other !== undefined) {
      throw new InvalidConfiguration(`"${setting}" and "${other}" are both ${JSON.stringify(name)}: ${what}.`, { finding: 'E10', section: 'settings' })
    }
    taken.set(name, setting)
  }
}

/** With or without a trailing slash, two paths are one where slashes are not strict. */
const withoutSlash = (path: string) => path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path

/** RFC 6265bis section 4.1.3: browsers drop a cookie whose name promises what its attributes do not keep. */
function checkPrefixes (settings: Settings): void {
  for (const setting of ['cookieAccessTokenName', 'cookieRefreshTokenName', 'cookieSplitSignatureName'] as const) {
    const name = settings[setting].toLowerCase()
    const isHostOnly = settings.cookieDomain === '' && settings.cookiePath === '/'
    if (((name.startsWith('__secure-') || name.startsWith('__host-')) && !settings.cookieSecure) || (name.startsWith('__host-') && !isHostOnly)) {
      throw new InvalidConfiguration(`"${setting}" is ${JSON.stringify(settings[setting])}: a name with "__Secure-" needs "cookieSecure": true, and one with "__Host-" also "cookiePath": "/" and no "cookieDomain". Browsers drop such a cookie otherwise.`, { finding: 'E09', section: 'settings' })
    }
  }
}

/**
 * Checks what only all settings together can show.
 * @throws {InvalidConfiguration} where they contradict each other
 */
export function checkTogether (settings: Settings): void {
  checkDistinct({ accessTokenName: settings.accessTokenName, refreshTokenName: settings.refreshTokenName }, 'the fields of one response need different names')
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
      throw new InvalidConfiguration(`"${setting}" must not be ${JSON.stringify(settings[setting])}, which is a registered claim with a meaning of its own (RFC 7519 section 4.1). Choose another name.`, { finding: 'E10', section: 'settings' })
    }
  }
  for (const setting of ['userId', 'scopesName'] as const) {
    if (settings.claimAuthTime && settings[setting] === 'auth_time') {
      throw new InvalidConfiguration(`"${setting}" must not be "auth_time" where "claimAuthTime" is true, which writes the time of the login as this claim. Choose another name.`, { finding: 'E10', section: 'settings' })
    }
  }
  const shape = settings.strictSlashes ? (path: string) => path : withoutSlash
  checkDistinct({ pathToAuthenticate: shape(settings.pathToAuthenticate), pathToRefresh: shape(settings.pathToRefresh) }, 'the POST endpoints need different paths')
  checkDistinct({ pathToVerify: shape(settings.pathToVerify), pathToRetrieveUser: shape(settings.pathToRetrieveUser) }, 'the GET endpoints need different paths')
  if (settings.cookieSet) checkPrefixes(settings)
  if (settings.cookieSet && settings.cookieSamesite === 'none' && !settings.cookieSecure) {
    throw new InvalidConfiguration('"cookieSamesite" "none" needs "cookieSecure": true, because browsers drop such a cookie otherwise.', { finding: 'E09', section: 'settings' })
  }
}
