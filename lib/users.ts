/** User objects: a mapping with the user id, or an object that has one and says by `toDict()` (or `toJSON()`) what it shows. */
import { InvalidUserObject } from './errors.ts'
import { callHost, readHost, typeName } from './host.ts'
import { isUserId } from './token/claims.ts'
import type { UserId } from '../types/handlers.ts'

const serializers = ['toDict', 'toJSON'] as const

/** A plain object of any realm: its prototype is null or the root of a prototype chain. */
function isMapping (value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || (Object.getPrototypeOf(prototype) === null && !Array.isArray(value))
}

const serializerOf = (user: object) => serializers.find((name) => typeof Reflect.get(user, name) === 'function')

/**
 * Checks a user object.
 * @param from how it came, for messages: `authenticate must return`
 * @throws {InvalidUserObject}
 */
export function checkUser (user: unknown, from: string): object {
  if (typeof user === 'object' && user !== null && readHost('user object', () => isMapping(user) || serializerOf(user) !== undefined)) return user
  const found = typeof user === 'object' && user !== null && !Array.isArray(user) ? 'an object of a class without toDict() or toJSON()' : typeName(user)
  throw new InvalidUserObject(`${from} a plain object, or an object with toDict(); given: ${found}.`)
}

/**
 * The user id of a user object.
 * @param key the setting `userId`
 * @throws {InvalidUserObject}
 */
export function userIdOf (user: unknown, key: string, from: string): UserId {
  const checked = checkUser(user, from)
  // A mapping must have the id itself; an object of a class may compute it.
  const id: unknown = readHost('user object', () => isMapping(checked) && !Object.hasOwn(checked, key) ? undefined : Reflect.get(checked, key))
  if (isUserId(id)) return id
  throw new InvalidUserObject(`${from} a user whose "${key}" is a non-empty string, a safe integer or a boolean; it is ${typeName(id)}. The setting "userId" names the property.`)
}

/** What a user shows of itself: the result of `toDict()` or `toJSON()`, or the mapping itself. @throws {InvalidUserObject} */
export async function serializeUser (user: object): Promise<object> {
  const serializer = readHost('user object', () => serializerOf(user))
  const shown: unknown = serializer === undefined ? user : await callHost(serializer, () => Reflect.apply(Reflect.get(user, serializer), user, []))
  if (typeof shown === 'object' && shown !== null && !Array.isArray(shown)) {
    // A property that fails would else fail while the answer is written, and show its message to the client.
    readHost('user object', () => JSON.stringify(shown))
    return shown
  }
  throw new InvalidUserObject(`${serializer}() of a user must return an object; it returned ${typeName(shown)}.`)
}
