/** Reads the option `sessions`, checks it, and adds defaults. */
import type { FastifyRequest } from 'fastify'
import type { MaybePromise } from '../../types/handlers.ts'
import type { LoginFacts, SessionRules, SessionStore } from '../../types/sessions.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { accessorOf, bindingSettings, keyUseSettings, type SettingName, type Settings } from '../settings/schema.ts'
import type { Resolved } from '../settings/configuration.ts'
import { either, func, matching, objectWith, oneOrMore, orNull, seconds, whole } from '../settings/kinds.ts'
import { entryAt, optional, preset, readRecord, wrongValue, type Values } from '../settings/records.ts'
import { checkTogether } from '../settings/together.ts'

type Lifetime = (request: FastifyRequest, user: object) => number
export type SessionData = (request: FastifyRequest, user: object) => MaybePromise<object>
export type SessionLogin = (request: FastifyRequest, user: object) => MaybePromise<LoginFacts | undefined>

/** 15 and 30 days, in seconds. */
const defaultIdle = 1_296_000
const defaultLifetime = 2_592_000

const page = 'sessions-reference.md#settings'
const place = entryAt('sessions')

const storeAdvice = { advice: 'For a database client, give redisSessions(client) or postgresSessions(client).' }

/** The option `sessions`. Bounds that depend on other settings are checked in {@link checkBounds}. */
export const sessionsShape = {
  members: {
    store: optional(objectWith<SessionStore>(['create', 'advance', 'end', 'list', 'endedSince', 'confirm']), storeAdvice),
    secret: optional(oneOrMore('a secret of at least 32 bytes, or a non-empty list of them', matching<unknown>('a secret'))),
    grace: optional(seconds(0, 300)),
    idle: preset(seconds(1), defaultIdle),
    lifetime: preset(either(seconds(1), func<Lifetime>('a function (request, user) that returns one')), defaultLifetime),
    maxPerUser: preset(whole(1, 1000), 100),
    poll: preset(seconds(1, 60), 2),
    refuseAfter: preset(orNull(seconds(1)), null),
    data: optional(func<SessionData>('a function (request, user) that returns an object')),
    login: optional(func<SessionLogin>('a function (request, user) that returns { persistent, claims } or nothing'))
  },
  example: '{ store }',
  hint: () => ' {} keeps sessions in the memory of the process.',
  page
} as const

/** As {@link sessionsShape}, for an instance that only verifies tokens, and requires only `endedSince` of its store. */
const feedShape = {
  ...sessionsShape,
  members: { ...sessionsShape.members, store: optional(objectWith<SessionStore>(['endedSince']), storeAdvice) }
}

/** The settings of sessions, with defaults. */
export interface SessionSettings {
  /** Undefined: sessions are stored in the memory of the process. */
  readonly store: SessionStore | undefined
  /** Undefined: the keys of refresh tokens are derived from the key that signs access tokens. */
  readonly secrets: readonly unknown[] | undefined
  readonly rules: SessionRules
  /** Seconds. */
  readonly lifetime: number | Lifetime
  /** Seconds. */
  readonly poll: number
  /** Seconds; null: never. */
  readonly refuseAfter: number | null
  readonly data: SessionData | undefined
  readonly login: SessionLogin | undefined
}

/** Creates the error of a value outside of its bounds. */
const outOfBounds = (name: keyof typeof sessionsShape.members, value: number, allowed: string) =>
  wrongValue(place.nameOf(name), allowed, String(value), sessionsShape)

type Bounded = { readonly grace: number } & Pick<Values<typeof sessionsShape.members>, 'idle' | 'lifetime' | 'poll' | 'refuseAfter'>

/** Checks bounds that depend on other settings. */
function checkBounds ({ grace, idle, lifetime, poll, refuseAfter }: Bounded, { authMode, expirationDelta }: Settings): void {
  if (refuseAfter !== null && refuseAfter < 2 * poll) {
    throw outOfBounds('refuseAfter', refuseAfter, `null, or at least twice "sessions.poll", which is ${poll} seconds`)
  }
  // An instance that only verifies tokens ignores the other settings. Their defaults must not restrict its "expirationDelta".
  if (!authMode) return
  const least = `at least "expirationDelta", which is ${expirationDelta} seconds`
  if (grace > expirationDelta / 2) {
    throw outOfBounds('grace', grace, `at most half of "expirationDelta", which is ${expirationDelta} seconds`)
  }
  if (idle < expirationDelta) throw outOfBounds('idle', idle, idle === defaultIdle ? `${least}; its default is less` : least)
  if (typeof lifetime === 'number' && lifetime < expirationDelta) {
    throw outOfBounds('lifetime', lifetime, lifetime === defaultLifetime ? `${least}; its default is less` : least)
  }
}

/** Getters that sessions exclude: users of two tenants could share a list of sessions, or an ended session could be accepted. */
const refusedGetters: readonly SettingName[] = [...keyUseSettings, 'verifyExp', 'leeway', ...bindingSettings]

/** Checks settings and handlers that contradict sessions. @throws {InvalidConfiguration} which names the setting */
function checkConflicts (resolved: Resolved): void {
  const { settings, getters, configured, generateRefreshToken } = resolved
  if (generateRefreshToken !== undefined || getters.has('generateRefreshToken')) {
    throw new InvalidConfiguration(
      '"sessions" and "generateRefreshToken" are given. With sessions, refresh tokens have a format of their own: remove "generateRefreshToken".',
      { page }
    )
  }
  if (configured.has('refreshTokenEnabled') && !settings.refreshTokenEnabled) {
    throw new InvalidConfiguration(
      '"sessions" is given, and "refreshTokenEnabled" is false. Sessions have refresh tokens: remove "refreshTokenEnabled".',
      { page }
    )
  }
  const getter = refusedGetters.find((name) => getters.has(name))
  if (getter !== undefined) {
    throw new InvalidConfiguration(
      `"sessions" and "${accessorOf('get', getter)}" are given. Sessions need one value of "${getter}" for all requests: give "${getter}", or register an instance for each value.`,
      { page }
    )
  }
  if (!settings.verifyExp) {
    throw new InvalidConfiguration(
      '"sessions" is given, and "verifyExp" is false. Ended sessions are remembered until their access tokens expire: set "verifyExp" to true.',
      { page }
    )
  }
  checkTogether({ ...resolved, hasSessions: true })
}

/**
 * Reads the option `sessions`.
 * @returns undefined if the option is missing
 * @throws {InvalidConfiguration} which names the wrong setting
 */
export function readSessions (option: unknown, resolved: Resolved): SessionSettings | undefined {
  if (option === undefined) return undefined
  // A store was passed instead of `{ store }`. Without this check, the error would name one of its methods as unknown option.
  if (Object.hasOwn(Object(option), 'create')) {
    throw new InvalidConfiguration('Option "sessions" is a store. Give it as "sessions": { store }.', { page })
  }
  const { settings } = resolved
  const { expirationDelta, leeway } = settings
  const read = readRecord(place, option, settings.authMode ? sessionsShape : feedShape)
  // Without the option it is never 0, which would be strict rotation.
  const { store, idle, lifetime, maxPerUser, poll, refuseAfter, grace = Math.min(30, Math.floor(expirationDelta / 2) || 0.5) } = read
  checkConflicts(resolved)
  if (store === undefined && !settings.authMode) {
    throw new InvalidConfiguration(
      '"sessions" is given without "store", and "authMode" is false. An instance that only verifies tokens reads the ended sessions from the store of the service that issues them: give "sessions": { store } and the key of that service. Tokens of "issuers" belong to no session.',
      { page }
    )
  }
  checkBounds({ grace, idle, lifetime, poll, refuseAfter }, settings)
  return {
    store,
    secrets: read.secret,
    rules: Object.freeze({
      graceMs: grace * 1000,
      idleMs: idle * 1000,
      // Twice the time that the issuer needs, because verifiers in other services may have a larger leeway.
      keepMs: 2 * (expirationDelta + leeway) * 1000,
      maxPerUser
    }),
    lifetime,
    poll,
    refuseAfter,
    data: read.data,
    login: read.login
  }
}

/** Returns the settings with `refreshTokenEnabled`, because sessions have refresh tokens. */
export function withSessions (resolved: Resolved): Resolved {
  return { ...resolved, hasSessions: true, settings: Object.freeze({ ...resolved.settings, refreshTokenEnabled: true }) }
}

/**
 * Checks the overrides of a guard: it must not accept tokens whose sessions may have been removed from the list of ended ones.
 * @throws {InvalidConfiguration}
 */
export function checkSessionOverrides ({ verifyExp, leeway }: Settings, { expirationDelta, leeway: own }: Settings): void {
  if (!verifyExp) {
    throw new InvalidConfiguration(
      'A guard overrides "verifyExp" with false. With "sessions", ended sessions are remembered only while access tokens have not expired: remove the override.',
      { page }
    )
  }
  const largest = expirationDelta + 2 * own
  if (leeway > largest) {
    throw new InvalidConfiguration(
      `A guard overrides "leeway" with ${leeway}. With "sessions" it must be at most ${largest} seconds, "expirationDelta" and twice "leeway" of the registration, for which ended sessions are remembered.`,
      { page }
    )
  }
}
