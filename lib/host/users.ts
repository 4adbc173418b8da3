/** User objects: plain objects with the user id, or objects with the user id that `toDict()` or `toJSON()` serializes. */
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
  if (typeof user === 'object' && user !== null && readHost('user object', () => isMapping(user) || serializerOf(user) !== undefined)) {
    return user
  }
  const description =
    typeof user === 'object' && user !== null && !Array.isArray(user) ? 'an instance of a class without these methods' : typeName(user)
  throw new InvalidUserObject(`${from} a plain object, or an object with toDict() or toJSON(), not ${description}.`)
}

/**
 * Reads the user id of a user object.
 * @param key the setting `userId`
 * @returns the id as tokens contain it: a string if `key` is `sub`
 * @throws {InvalidUserObject}
 */
export function userIdOf (user: unknown, key: string, from: string): UserId {
  const checked = checkUser(user, from)
  // A mapping must have the id as its own property; an object of a class may compute it.
  const id: unknown = readHost('user object', () =>
    isMapping(checked) && !Object.hasOwn(checked, key) ? undefined : memberOf(checked, key)
  )
  if (isUserId(id)) return asClaimed(key, id)
  throw new InvalidUserObject(
    `${from} a user whose "${key}" is a non-empty string, a safe integer or a boolean, not ${id === '' ? 'an empty string' : typeName(id)}. The setting "userId" is the name of this property.`
  )
}

/** Serializes a user for a response: the result of `toDict()` or `toJSON()`, or the mapping itself. @throws {InvalidUserObject} */
export async function serializeUser (user: object): Promise<object> {
  const serializer = readHost('user object', () => serializerOf(user))
  const serialized: unknown =
    serializer === undefined ? user : await callHost(serializer, () => Reflect.apply(Reflect.get(user, serializer), user, []))
  if (typeof serialized === 'object' && serialized !== null && !Array.isArray(serialized)) {
    // Calls the getters now: while Fastify serializes the response, their errors would reach the client.
    readHost('user object', () => JSON.stringify(serialized))
    return serialized
  }
  throw new InvalidUserObject(`${serializer}() of a user must return an object; it returned ${typeName(serialized)}.`)
}

/** By the kind of warning, the handlers for which it was logged. */
const warned = { numbers: new WeakSet<object>(), users: new WeakSet<object>() }

function warnOnce (about: keyof typeof warned, handlers: Partial<HostHandlers>, request: FastifyRequest, message: string): void {
  if (warned[about].has(handlers)) return
  warned[about].add(handlers)
  try {
    request.log.warn(message)
  } catch {
    // A logger that throws must not make the request fail.
  }
}

/** Whether an id is a string that a database may store as a number. */
const isTextOfNumber = (id: unknown) => typeof id === 'string' && Number.isSafeInteger(Number(id)) && String(Number(id)) === id

/**
 * Returns the user of a valid token: the result of the handler `retrieveUser`, or without that handler `{ <userId>: id }`.
 * @param id the user id of the token
 * @throws {InvalidUserObject} {HandlerFailed}
 */
export async function retrieveUser (
  handlers: Partial<HostHandlers>,
  request: FastifyRequest,
  payload: Payload,
  { userId }: Settings,
  id: unknown = payload[userId]
): Promise<object | null> {
  if (handlers.retrieveUser === undefined) return { [userId]: id }
  const user: unknown = await callHost('retrieveUser', () => handlers.retrieveUser!(request, payload))
  if (user !== undefined && user !== null) return checkUser(user, 'retrieveUser must return')
  if (userId === 'sub' && isTextOfNumber(id)) {
    warnOnce(
      'numbers',
      handlers,
      request,
      'The handler "retrieveUser" found no user for a user id that is a number as text. With "userId": "sub", ids are text in tokens and payloads (RFC 7519 section 4.1.2): if your database has numbers, convert payload.sub with Number().'
    )
  }
  return null
}

/** Returns the id if it is a data property. Does not call a getter again, and ignores a proxy that throws: the route may not need it. */
function storedId (user: object | null, key: string): unknown {
  try {
    return Object.getOwnPropertyDescriptor(Object(user), key)?.value
  } catch {
    return undefined
  }
}

/**
 * As {@link retrieveUser}, for a token of the instance itself. Logs once if the handler returned another user: some databases
 * convert the text of an id to a number, and find the user 42 for the id `42bd-2f1e`.
 */
export async function retrieveOwnUser (
  handlers: Partial<HostHandlers>,
  request: FastifyRequest,
  payload: Payload,
  settings: Settings,
  id: unknown
): Promise<object | null> {
  const user = await retrieveUser(handlers, request, payload, settings, id)
  const found = storedId(user, settings.userId)
  if (isUserId(found) && String(found) !== String(id)) {
    warnOnce(
      'users',
      handlers,
      request,
      `The handler "retrieveUser" returned another user than that of the token: their "${settings.userId}" differ. Some databases convert text to a number, and find 42 for "42bd-2f1e": pass the id as a parameter of the type of the column, and compare it with the id of the user that was found.`
    )
  }
  return user
}

/** Describes the type of an id. */
const formOf = (id: UserId) =>
  ({ string: 'text, such as "42"', number: 'a number, such as 42', boolean: 'a boolean' })[typeof id as 'string' | 'number' | 'boolean']

/**
 * Compares the user that `retrieveUser` returned at a refresh with the user of the login. 42 and "42" are two users.
 * @param userId the id of the login
 * @param user the result of {@link retrieveUser}
 * @returns why they are not the same; undefined if they are
 * @throws {InvalidUserObject}
 */
export function differenceOf (userId: UserId, user: object, key: string): string | undefined {
  const id = userIdOf(user, key, 'retrieveUser must return')
  if (id === userId) return undefined
  if (String(id) !== String(userId)) return 'the handler "retrieveUser" returned another user'
  return `the user id of the login (handler "authenticate", or sessions.start()) is ${formOf(userId)}, and that of the handler "retrieveUser" is ${formOf(id)}, so these are two users; return ids of one type`
}
