/** `fastify.tokenAuth`: the public face of one registration. */
import type { FastifyRequest } from 'fastify'
import type { Payload, UserId } from '../types/handlers.ts'
import type {
  Guard, GuardOptions, InjectedRouteHandler, RequiredScopes, ScopedOptions, TokenAdditions, TokenAuthInstance, UserRouteHandler
} from '../types/instance.ts'
import type { KeyStatus } from '../types/keys.ts'
import type { RouteAccess } from '../types/routes.ts'
import type { Sessions } from '../types/sessions.ts'
import { InvalidConfiguration, InvalidToken, RequiredKeysNotFound } from './errors.ts'
import { publishIssued } from './events.ts'
import { makeInjection } from './guards/inject-user.ts'
import { readOptions } from './guards/options.ts'
import { makeProtectGuard } from './guards/protect.ts'
import { makeScopedGuard } from './guards/scoped.ts'
import { isPlainObject, typeName } from './host/call.ts'
import { userIdOf } from './host/users.ts'
import type { Responses } from './http/responses.ts'
import { storeRefreshToken } from './issuing/refresh-token.ts'
import { Refusal } from './refusal.ts'
import type { Registration } from './registration.ts'
import { registeredStateOf, stateOf } from './request/slot.ts'
import { ownPayload, type Context } from './request/verify.ts'
import { InstanceSessions } from './sessions/sessions.ts'
import { checkAuthTime } from './settings/auth-time.ts'
import { withoutRequest } from './settings/per-request.ts'
import type { Settings } from './settings/schema.ts'
import { suggest } from './settings/suggest.ts'

const additionNames: readonly string[] = ['customClaims', 'extendPayload', 'scopes', 'authTime', 'request'] satisfies Array<keyof TokenAdditions<object>>

const needsRequest = ', so verifyToken cannot be used. Read request.tokenAuth.payload instead.'

export class TokenAuth implements TokenAuthInstance<object> {
  readonly settings: Readonly<Settings>
  readonly responses: Responses
  readonly sessions: Sessions<object>
  readonly #registration: Registration
  /** For a token that did not come with a request. Reading a setting that has a getter throws. */
  readonly #withoutRequest: Context

  constructor (registration: Registration) {
    this.settings = registration.settings
    this.responses = registration.responses
    this.#registration = registration
    const { sessions: service, issuing } = registration
    this.sessions = new InstanceSessions(service && { service, issuing, stateOf: (request) => registeredStateOf(registration, request) })
    const results = withoutRequest(needsRequest)
    this.#withoutRequest = { results, settings: registration.rules.settingsOf(results), request: undefined }
  }

  // The options are read first: a route that was given one of these methods itself calls it on another object.
  protect (overrides: GuardOptions = {}): Guard {
    const options = readOptions(overrides)
    return makeProtectGuard(this.#registration, options)
  }

  scoped (scopes: RequiredScopes, overrides: ScopedOptions = {}): Guard {
    const options = readOptions(overrides)
    return makeScopedGuard(this.#registration, scopes, options)
  }

  injectUser<Route extends object> (handler: UserRouteHandler<object, Route>, overrides: GuardOptions = {}): InjectedRouteHandler<Route> {
    const options = readOptions(overrides)
    return makeInjection(this.#registration, handler, options)
  }

  async generateAccessToken (user: object, additions: TokenAdditions<object> = {}): Promise<string> {
    const given: unknown = additions
    if (!isPlainObject(given)) throw new InvalidConfiguration(`The second parameter of generateAccessToken must be a plain object; given: ${typeName(given)}.`, { section: 'instances', duringRequest: true })
    const unknown = Object.keys(additions).find((name) => !additionNames.includes(name))
    if (unknown !== undefined) {
      throw new InvalidConfiguration(`generateAccessToken has no option "${unknown}".${suggest(unknown, additionNames)} Its options are ${additionNames.join(', ')}.`, { section: 'instances', duringRequest: true })
    }
    checkAuthTime(additions.authTime, 'generateAccessToken')
    const { issuing } = this.#registration
    const { request } = additions
    const context = request === undefined ? issuing.withoutRequest : registeredStateOf(this.#registration, request)
    const userId = userIdOf(user, context.settings.userId, 'generateAccessToken requires')
    const token = await issuing.accessToken(user, 'generateAccessToken requires', context, additions)
    publishIssued(this.settings.instanceName, userId, 'generate', request)
    return token
  }

  async generateRefreshToken (request: FastifyRequest, user: object): Promise<string> {
    const { issuing, host, sessions } = this.#registration
    if (sessions !== undefined) throw new InvalidConfiguration('generateRefreshToken() does not exist with "sessions", whose refresh tokens belong to a session. Use sessions.start().', { section: 'sessions', duringRequest: true })
    const state = registeredStateOf(this.#registration, request)
    const userId = userIdOf(user, state.settings.userId, 'generateRefreshToken requires')
    const refreshToken = await issuing.refreshToken(request, user, state)
    await storeRefreshToken(host.handlers, request, userId, refreshToken)
    return refreshToken
  }

  verifyToken (token: string): Payload {
    if (typeof token !== 'string') throw new InvalidToken()
    const { rules } = this.#registration
    const verdict = rules.verify(token, this.#withoutRequest, 'access')
    if (verdict instanceof Refusal) throw verdict.toError()
    // A rejection that nobody handles would end the process.
    if (verdict instanceof Promise) verdict.catch(() => {})
    if (verdict instanceof Promise && rules.readsKeys) throw new InvalidToken(undefined, { reason: 'its key is not known yet, and is being fetched' })
    // A check that has to be waited for cannot be asked here, and must not be skipped.
    if (verdict instanceof Promise) throw new RequiredKeysNotFound(`A check of this instance is asynchronous${needsRequest}`, { section: 'settings', duringRequest: true })
    return ownPayload(verdict)
  }

  async reloadKeys (): Promise<void> {
    const { reload } = this.#registration.keys
    if (reload === undefined) throw new InvalidConfiguration('reloadKeys() needs the option "keys". Give it a function that returns the keys.', { section: 'changing-keys', duringRequest: true })
    await reload()
  }

  keyStatus (): KeyStatus { return this.#registration.keys.status() }
  routes (): RouteAccess[] { return this.#registration.routes.routes() }
  printRoutes (): string { return this.#registration.routes.printRoutes() }

  isAuthenticated (request: FastifyRequest): boolean { return stateOf(this.#registration, request).claims !== null }
  extractPayload (request: FastifyRequest): Payload | null { return stateOf(this.#registration, request).payload }
  extractUserId (request: FastifyRequest): UserId | null { return stateOf(this.#registration, request).userId }
  extractScopes (request: FastifyRequest): string[] | null { return stateOf(this.#registration, request).scopes }
}
