/** User objects: a mapping that has the user id, or an object that has it and is serialized by `toDict()` or `toJSON()`. */
import type { FastifyRequest } from 'fastify'
import { InvalidUserObject } from '../errors.ts'
import type { Settings } from '../settings/schema.ts'
import { asClaimed, isUserId, memberOf, typeName } from '../values.ts'
import type { Payload, UserId } from '../../types/handlers.ts'
import { callHost, readHost } from './call.ts'
import type { HostHandlers } from './handlers.ts'

const serializers = ['toDict', 'toJSON'] as const

/** Whether an object is a plain object of any realm: its prototype is null or the root of a prototype chain. */
function isMapping (value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || (Object.getPrototypeOf(prototype) === null && !Array.isArray(value))
}

const serializerOf = (user: object) => serializers.find((name) => typeof memberOf(user, name) === 'function')

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
 * @returns the id as tokens have it: text where `key` is `sub`
 * @throws {InvalidUserObject}
 */
export function userIdOf (user: unknown, key: string, from: string): UserId {
  const checked = checkUser(user, from)
  // A mapping must have the id as its own property; an object of a class may compute it.
  const id: unknown = readHost('user object', () => isMapping(checked) && !Object.hasOwn(checked, key) ? undefined : memberOf(checked, key))
  if (isUserId(id)) return asClaimed(key, id)
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

/** The handlers of which the log has said what they return. */
const told = { numbers: new WeakSet<object>(), types: new WeakSet<object>(), users: new WeakSet<object>() }

function warnOnce (about: keyof typeof told, handlers: Partial<HostHandlers>, request: FastifyRequest, message: string): void {
  if (told[about].has(handlers)) return
  told[about].add(handlers)
  try {
    request.log.warn(message)
  } catch {
    // A logger that throws must not decide about the request.
  }
}

/** Whether a text is that of an id that a database may have as a number. */
const isTextOfNumber = (id: unknown) => typeof id === 'string' && Number.isSafeInteger(Number(id)) && String(Number(id)) === id

/**
 * Returns the user of a valid token: the result of the handler `retrieveUser`, or without that handler `{ <userId>: id }`.
 * @param id the user id of the token
 * @throws {InvalidUserObject} {HandlerFailed}
 */
export async function retrieveUser (handlers: Partial<HostHandlers>, request: FastifyRequest, payload: Payload, { userId }: Settings, id: unknown = payload[userId]): Promise<object | null> {
  if (handlers.retrieveUser === undefined) return { [userId]: id }
  const user: unknown = await callHost('retrieveUser', () => handlers.retrieveUser!(request, payload))
  if (user !== undefined && user !== null) return checkUser(user, 'retrieveUser must return')
  if (userId === 'sub' && isTextOfNumber(id)) warnOnce('numbers', handlers, request, 'The handler "retrieveUser" found nobody for a user id that is the text of a number. With "userId": "sub", ids are text in tokens and payloads (RFC 7519 section 4.1.2): where your database has numbers, convert payload.sub with Number().')
  return null
}

/** Returns the id that is a property of a user. A getter is not called once more, and a proxy that throws does not count: the route may not need the id. */
function storedId (user: object | null, key: string): unknown {
  try {
    return Object.getOwnPropertyDescriptor(Object(user), key)?.value
  } catch {
    return undefined
  }
}

/**
 * As {@link retrieveUser}, for a token of the instance itself. Says once in the log that the handler found somebody else: some
 * databases convert the text of an id to a number, and find the user 42 for the id `42bd-2f1e`.
 */
export async function retrieveOwnUser (handlers: Partial<HostHandlers>, request: FastifyRequest, payload: Payload, settings: Settings, id: unknown): Promise<object | null> {
  const user = await retrieveUser(handlers, request, payload, settings, id)
  const found = storedId(user, settings.userId)
  if (isUserId(found) && String(found) !== String(id)) warnOnce('users', handlers, request, `The handler "retrieveUser" returned another user than that of the token: their "${settings.userId}" differ. Some databases convert text to a number, and find 42 for "42bd-2f1e": pass the id as a parameter of the type of the column, and compare it with that of the user.`)
  return user
}

/** The ids of a form, in words. */
const formOf = (id: UserId) => ({ string: 'text, such as "42"', number: 'a number, such as 42', boolean: 'a boolean' })[typeof id as 'string' | 'number' | 'boolean']

/**
 * Compares the user of a refresh with the one who has logged in. 42 and "42" are two users.
 * @param userId the id of the login
 * @param user the result of {@link retrieveUser}
 * @returns why they are not the same; undefined where they are
 * @throws {InvalidUserObject}
 */
export function differenceOf (userId: UserId, user: object, key: string, handlers: Partial<HostHandlers>, request: FastifyRequest): string | undefined {
  const id = userIdOf(user, key, 'retrieveUser must return')
  if (id === userId) return undefined
  if (String(id) !== String(userId)) return 'the handler "retrieveUser" returned another user'
  const difference = `The user id of the login (handler "authenticate", or sessions.start()) is ${formOf(userId)}, and that of the handler "retrieveUser" is ${formOf(id)}. These are two users: return ids of one type.`
  warnOnce('types', handlers, request, `A refresh was refused. ${difference}`)
  return difference
}
