/** User objects: a mapping that has the user id, or an object that has it and is serialized by `toDict()` or `toJSON()`. */
import type { FastifyRequest } from 'fastify'
import { InvalidUserObject } from '../errors.ts'
import type { Settings } from '../settings/schema.ts'
import { isUserId, typeName } from '../values.ts'
import type { Payload, UserId } from '../../types/handlers.ts'
import { callHost, readHost } from './call.ts'
import type { HostHandlers } from './handlers.ts'

const serializers = ['toDict', 'toJSON'] as const

/** Whether an object is a plain object of any realm: its prototype is null or the root of a prototype chain. */
function isMapping (value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || (Object.getPrototypeOf(prototype) === null && !Array.isArray(value))
}

const serializerOf = (user: object) => serializers.find((name) => typeof Reflect.get(user, name) === 'function')

/**
 * Checks a user object.
 * @param from the beginning of the message: `authenticate must return`
 * @throws {InvalidUserObject}
 */
export function checkUser (user: unknown, from: string): object {
  if (typeof user === 'object' && user !== null && readHost('user object', () => isMapping(user) || serializerOf(user) !== undefined)) return user
  const description = typeof user === 'object' && user !== null && !Array.isArray(user) ? 'an instance of a class without these methods' : typeName(user)
  throw new InvalidUserObject(`${from} a plain object, or an object with toDict() or toJSON(), not ${description}.`)
}

/**
 * Reads the user id of a user object.
 * @param key the setting `userId`
 * @throws {InvalidUserObject}
 */
export function userIdOf (user: unknown, key: string, from: string): UserId {
  const checked = checkUser(user, from)
  // A mapping must have the id as its own property; an object of a class may compute it.
  const id: unknown = readHost('user object', () => isMapping(checked) && !Object.hasOwn(checked, key) ? undefined : Reflect.get(checked, key))
  if (isUserId(id)) return id
  throw new InvalidUserObject(`${from} a user whose "${key}" is a non-empty string, a safe integer or a boolean, not ${id === '' ? 'an empty string' : typeName(id)}. The setting "userId" is the name of this property.`)
}

/** Serializes a user for a response: the result of `toDict()` or `toJSON()`, or the mapping itself. @throws {InvalidUserObject} */
export async function serializeUser (user: object): Promise<object> {
  const serializer = readHost('user object', () => serializerOf(user))
  const serialized: unknown = serializer === undefined ? user : await callHost(serializer, () => Reflect.apply(Reflect.get(user, serializer), user, []))
  if (typeof serialized === 'object' && serialized !== null && !Array.isArray(serialized)) {
    // A getter that throws must fail here: while the answer is written, its message would reach the client.
    readHost('user object', () => JSON.stringify(serialized))
    return serialized
  }
  throw new InvalidUserObject(`${serializer}() of a user must return an object; it returned ${typeName(serialized)}.`)
}

/**
 * Returns the user of a valid token: the result of the handler `retrieveUser`, or without that handler `{ <userId>: id }`.
 * @param id the user id of the token
 * @throws {InvalidUserObject} {HandlerFailed}
 */
export async function retrieveUser (handlers: Partial<HostHandlers>, request: FastifyRequest, payload: Payload, { userId }: Settings, id: unknown = payload[userId]): Promise<object | null> {
  if (handlers.retrieveUser === undefined) return { [userId]: id }
  const user: unknown = await callHost('retrieveUser', () => handlers.retrieveUser!(request, payload))
  return user === undefined || user === null ? null : checkUser(user, 'retrieveUser must return')
}
