/** Checks types of values, and describes values in messages that must not print them. */
import { types } from 'node:util'
import type { UserId } from '../types/handlers.ts'
import { isPromise } from './promises.ts'

/** Reads a property of any value, also an inherited one; undefined for a value that has none. */
export function memberOf (value: unknown, name: PropertyKey): unknown {
  const holder: Record<PropertyKey, unknown> = Object(value)
  return holder[name]
}

/** As {@link memberOf}, for own properties only: `Object.prototype` may be polluted. */
export const ownMemberOf = (value: unknown, name: PropertyKey): unknown =>
  Object.hasOwn(Object(value), name) ? memberOf(value, name) : undefined

/** Describes the type of a value that must not be printed. */
export function typeName (value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  if (isPromise(value)) return 'a promise'
  if (typeof value === 'object' || typeof value === 'undefined') return value === undefined ? 'undefined' : 'an object'
  return `a ${typeof value}`
}

/** Describes a value that is not key material. */
export const describeKey = (value: unknown): string =>
  types.isCryptoKey(value) ? 'a CryptoKey, which only Web Crypto reads. Convert it with KeyObject.from() of node:crypto' : typeName(value)

/**
 * Whether a value is an object literal, or an object without a prototype. Promises, Maps, class instances and objects that
 * inherit from other objects are not: reading options from them would miss some.
 */
export function isPlainObject (value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  // The second form is the `Object.prototype` of another realm, such as a vm context.
  return prototype === null || (Object.getPrototypeOf(prototype) === null && Object.hasOwn(Object(prototype), 'hasOwnProperty'))
}

/** Describes a value that should be a plain object but is not. */
export function describeOther (value: unknown): string {
  const isInstance = typeof value === 'object' && value !== null && !Array.isArray(value) && !isPromise(value)
  return isInstance ? 'an instance of a class, or an object that inherits from another' : typeName(value)
}

/** Returns a Buffer of the same memory for a typed array, DataView or ArrayBuffer of any realm; otherwise undefined. */
export function bytesOf (value: unknown): Buffer | undefined {
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  return types.isAnyArrayBuffer(value) ? Buffer.from(value) : undefined
}

/** 100 years in seconds: long enough for any token, and short enough that `exp` is still a valid date. */
export const maximumSeconds = 3_153_600_000

export const isText = (value: unknown): value is string => typeof value === 'string'

export const isFunction = (value: unknown): value is Function => typeof value === 'function'

/** Whether a value is a whole number within bounds. */
export const isWhole = (value: unknown, minimum: number, maximum: number): value is number =>
  Number.isInteger(value) && Number(value) >= minimum && Number(value) <= maximum

/** Quotes at most 60 characters of a text that is not a secret. */
export const quote = (text: string): string => JSON.stringify(text.length > 60 ? `${text.slice(0, 57)}...` : text)

/** Describes a value that is not allowed. Does not print strings, which may be secrets; only states whether they are blank. */
export function describeGiven (value: unknown): string {
  if (typeof value === 'number') return String(value)
  if (isText(value) && value.trim() === '') return value === '' ? 'an empty string' : 'a blank string'
  return Array.isArray(value) && value.length === 0 ? 'an empty list' : typeName(value)
}

/**
 * Returns a user id as its claim contains it. `sub` is always a string (RFC 7519 section 4.1.2), so 42 and "42" are the same
 * user; in other claims they are two users.
 */
export const asClaimed = (claim: string, userId: UserId): UserId => claim === 'sub' ? String(userId) : userId

/** A user id is a non-empty string, a safe integer or a boolean. An object would reach the application's database query as one. */
export function isUserId (value: unknown): value is UserId {
  return (typeof value === 'string' && value !== '') || Number.isSafeInteger(value) || typeof value === 'boolean'
}
