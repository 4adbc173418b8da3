/** The option `sessions`: read, checked and completed. */
import type { FastifyRequest } from 'fastify'
import { Type, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { MaybePromise } from '../../types/handlers.ts'
import type { SessionRules, SessionStore } from '../../types/sessions.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { isPlainObject, typeName } from '../values.ts'
import { accessorOf, type SettingName, type Settings } from '../settings/schema.ts'
import { checkWithSessions } from '../settings/check.ts'
import type { Resolved } from '../settings/configuration.ts'
import { suggest } from '../settings/suggest.ts'

/** A century in seconds. */
export const maximumSeconds = 3_153_600_000

const integer = (minimum: number, maximum: number, unit = 'a whole number of seconds') =>
  Type.Integer({ minimum, maximum, allowed: `${unit} from ${minimum} to ${maximum}` })

/** Every setting of sessions, once. Bounds that depend on other settings are checked in {@link checkBounds}. */
export const sessionsSchema = {
  /** Where sessions are kept. Default: `memorySessions()`, which ends with the process. */
  store: Type.Any({ allowed: 'an object with the methods create, advance, end, list, endedSince and confirm' }),
  /** Secret, or list of secrets, that authenticates refresh tokens: the first signs, all verify. Default: derived from the key that signs access tokens. */
  secret: Type.Any({ allowed: 'a secret of at least 32 bytes, or a non-empty list of them' }),
  /** Seconds after a refresh in which the current refresh token, and the one before it, are exchanged for the current one. 0: each can be used once (RFC 9700). */
  grace: integer(0, 300),
  /** Seconds without a refresh after which a session ends. */
  idle: integer(1, maximumSeconds),
  /** Seconds after the login at which a session ends, or a function `(request, user)` that returns them. */
  lifetime: Type.Any({ allowed: `a whole number of seconds from 1 to ${maximumSeconds}, or a function (request, user) that returns one` }),
  /** Sessions that a user may have at once. A further login ends the one that would expire first. */
  maxPerUser: integer(1, 1000, 'a whole number'),
  /** Seconds between two reads of the sessions that ended in other processes. */
  poll: integer(1, 60),
  /** Seconds after the last successful read from which guards answer 503. Null: guards continue with what they know. */
  refuseAfter: Type.Union([Type.Integer({ minimum: 1, maximum: maximumSeconds }), Type.Null()], { allowed: `a whole number of seconds from 1 to ${maximumSeconds}, or null` }),
  /** Function `(request, user)` that returns the data to store with a session and show in lists, such as the device. Default: none. */
  data: Type.Any({ allowed: 'a function (request, user) that returns an object' })
} as const satisfies Record<string, TSchema>

type Name = keyof typeof sessionsSchema
const names = Object.keys(sessionsSchema) as Name[]

type Lifetime = (request: FastifyRequest, user: object) => number
export type SessionData = (request: FastifyRequest, user: object) => MaybePromise<object>

/** The settings of sessions, complete. */
export interface SessionSettings {
  /** Undefined: the store of the process's memory. */
  readonly store: SessionStore | undefined
  /** Undefined: the refresh tokens' keys are derived from the key that signs. */
  readonly secrets: readonly unknown[] | undefined
  readonly rules: SessionRules
  /** Seconds. */
  readonly lifetime: number | Lifetime
  /** Seconds. */
  readonly poll: number
  /** Seconds; null: never. */
  readonly refuseAfter: number | null
  readonly data: SessionData | undefined
}

/** 15 and 30 days, in seconds. */
const defaultIdle = 1_296_000
const defaultLifetime = 2_592_000

const page = 'sessions.md#settings'
const wrong = (name: Name, value: unknown, allowed: string = sessionsSchema[name].allowed) => {
  const found = typeof value === 'number' ? String(value) : typeName(value)
  return new InvalidConfiguration(`"sessions.${name}" must be ${allowed}; given: ${found}.`, { page })
}

function checkStore (store: unknown, authMode: boolean): void {
  const methods = authMode ? ['create', 'advance', 'end', 'list', 'endedSince', 'confirm'] : ['endedSince']
  const missing = methods.find((method) => typeof Object(store)[method] !== 'function')
  if (typeof store !== 'object' || store === null) throw wrong('store', store, authMode ? sessionsSchema.store.allowed : 'an object with the method endedSince')
  if (missing !== undefined) throw new InvalidConfiguration(`"sessions.store" has no method "${missing}". It must have ${methods.join(', ')}; see ${authMode ? 'SessionStore' : 'SessionFeed'}. For a database client, give redisSessions(client) or postgresSessions(client).`, { page })
}

/** Whether a value is a number of seconds within bounds. */
export const isSeconds = (value: unknown, minimum: number): value is number => Number.isInteger(value) && Number(value) >= minimum && Number(value) <= maximumSeconds

interface Numbers { grace: number, idle: number, lifetime: unknown, poll: number, refuseAfter: number | null }

/** Bounds that depend on other settings. */
function checkBounds ({ grace, idle, lifetime, poll, refuseAfter }: Numbers, { authMode, expirationDelta }: Settings): void {
  if (refuseAfter !== null && refuseAfter < 2 * poll) throw wrong('refuseAfter', refuseAfter, `null, or at least twice "sessions.poll", which is ${poll} seconds`)
  if (typeof lifetime !== 'function' && !isSeconds(lifetime, 1)) throw wrong('lifetime', lifetime)
  // An instance that only verifies tokens does not use the others, whose defaults must not restrict its "expirationDelta".
  if (!authMode) return
  const least = `at least "expirationDelta", which is ${expirationDelta} seconds`
  if (grace > expirationDelta / 2) throw wrong('grace', grace, `at most half of "expirationDelta", which is ${expirationDelta} seconds`)
  if (idle < expirationDelta) throw wrong('idle', idle, idle === defaultIdle ? `${least}; its default is less` : least)
  if (typeof lifetime === 'number' && lifetime < expirationDelta) throw wrong('lifetime', lifetime, lifetime === defaultLifetime ? `${least}; its default is less` : least)
}

/** Getters with which users of two tenants would share a list, or an ended session be accepted again. */
const refusedGetters: readonly SettingName[] = ['secret', 'publicKey', 'privateKey', 'algorithm', 'verifyExp', 'leeway', 'claimIss', 'claimAud', 'userId']

/** Settings and handlers that contradict sessions. @throws {InvalidConfiguration} by name */
function checkConflicts ({ settings, getters, given, generateRefreshToken }: Resolved): void {
  if (generateRefreshToken !== undefined || getters.has('generateRefreshToken')) {
    throw new InvalidConfiguration('"sessions" and "generateRefreshToken" are given. With sessions, refresh tokens have a format of their own: remove "generateRefreshToken".', { page })
  }
  if (given.has('refreshTokenEnabled') && !settings.refreshTokenEnabled) {
    throw new InvalidConfiguration('"sessions" is given, and "refreshTokenEnabled" is false. Sessions have refresh tokens: remove "refreshTokenEnabled".', { page })
  }
  const getter = refusedGetters.find((name) => getters.has(name))
  if (getter !== undefined) throw new InvalidConfiguration(`"sessions" and "${accessorOf('get', getter)}" are given. Sessions need one value of "${getter}" for all requests: give "${getter}", or register an instance for each value.`, { page })
  if (!settings.verifyExp) throw new InvalidConfiguration('"sessions" is given, and "verifyExp" is false. Ended sessions are remembered until their access tokens expire: set "verifyExp" to true.', { page })
  checkWithSessions(settings)
}

/**
 * Reads the option `sessions`.
 * @returns undefined where it is not given
 * @throws {InvalidConfiguration} which names what is wrong
 */
export function readSessions (option: unknown, resolved: Resolved): SessionSettings | undefined {
  if (option === undefined) return undefined
  if (!isPlainObject(option)) throw new InvalidConfiguration(`Option "sessions" must be a plain object, such as { store }; given: ${typeName(option)}. {} keeps sessions in the memory of the process.`, { page })
  const unknown = Object.keys(option).find((name) => !names.includes(name as Name))
  if (unknown === 'create') throw new InvalidConfiguration('Option "sessions" is a store. Give it as "sessions": { store }.', { page })
  if (unknown !== undefined) throw new InvalidConfiguration(`Unknown setting "sessions.${unknown}".${suggest(unknown, names)} "sessions" has ${names.join(', ')}.`, { page })
  // Without a prototype: properties of a polluted `Object.prototype` are not settings.
  const given: Record<string, unknown> = Object.assign(Object.create(null), option)
  const { settings } = resolved
  checkConflicts(resolved)
  const { expirationDelta, leeway } = settings
  const { store, secret, data, grace = Math.min(30, Math.floor(expirationDelta / 2)), idle = defaultIdle, lifetime = defaultLifetime, maxPerUser = 100, poll = 2, refuseAfter = null } = given
  const simple = { grace, idle, maxPerUser, poll, refuseAfter }
  for (const [name, value] of Object.entries(simple)) if (!Value.Check(sessionsSchema[name as Name], value)) throw wrong(name as Name, value)
  if (store === undefined && !settings.authMode) throw new InvalidConfiguration('"sessions" is given without "store", and "authMode" is false. An instance that only verifies tokens reads the ended sessions from the store of the service that issues them: give "sessions": { store } and the key of that service. Tokens of "issuers" belong to no session.', { page })
  if (store !== undefined) checkStore(store, settings.authMode)
  if (data !== undefined && typeof data !== 'function') throw wrong('data', data)
  if (Array.isArray(secret) && secret.length === 0) throw wrong('secret', secret, 'a secret of at least 32 bytes, or a non-empty list of them')
  // Checked above, value by value.
  const checked = simple as { grace: number, idle: number, maxPerUser: number, poll: number, refuseAfter: number | null }
  checkBounds({ ...checked, lifetime }, settings)
  return {
    store: store as SessionStore | undefined,
    secrets: secret === undefined ? undefined : [secret].flat(),
    rules: Object.freeze({
      graceMs: checked.grace * 1000,
      idleMs: checked.idle * 1000,
      // Verifiers of other services may have a larger leeway than the issuer: hence twice as long as its own need.
      keepMs: 2 * (expirationDelta + leeway) * 1000,
      maxPerUser: checked.maxPerUser
    }),
    lifetime: lifetime as number | Lifetime,
    poll: checked.poll,
    refuseAfter: checked.refuseAfter,
    data: data as SessionData | undefined
  }
}

/** Sessions have refresh tokens, whatever the default of `refreshTokenEnabled` is. */
export function withSessions (resolved: Resolved): Resolved {
  return { ...resolved, settings: Object.freeze({ ...resolved.settings, refreshTokenEnabled: true }) }
}

/**
 * Checks the overrides of a guard: it must not accept tokens whose sessions may have been removed from the list of ended ones.
 * @throws {InvalidConfiguration}
 */
export function checkSessionOverrides ({ verifyExp, leeway }: Settings, { expirationDelta, leeway: own }: Settings): void {
  if (!verifyExp) throw new InvalidConfiguration('A guard overrides "verifyExp" with false. With "sessions", ended sessions are remembered only while access tokens have not expired: remove the override.', { page })
  const largest = expirationDelta + 2 * own
  if (leeway > largest) throw new InvalidConfiguration(`A guard overrides "leeway" with ${leeway}. With "sessions" it must be at most ${largest} seconds, "expirationDelta" and twice "leeway" of the registration, for which ended sessions are remembered.`, { page })
}
