/** `fastify.tokenAuth`: the public object of one registration. */
import type { FastifyRequest } from 'fastify'
import type { MaybePromise, Payload, UserId } from '../types/handlers.ts'
import type { Guard, GuardOptions, ProtectOptions, ScopedOptions, TokenAdditions, TokenAuthInstance, Verified } from '../types/instance.ts'
import type { KeyStatus } from '../types/keys.ts'
import type { RouteAccess } from '../types/routes.ts'
import type { Sessions, StoreStatus } from '../types/sessions.ts'
import { InvalidConfiguration } from './configuration-errors.ts'
import { publishIssued } from './events.ts'
import { declareMaker } from './guards/describe.ts'
import { makeInjection, type AnyHandler, type Injected } from './guards/inject-user.ts'
import { optionsOfGuards, readOptions } from './guards/options.ts'
import { makeProtectGuard } from './guards/protect.ts'
import { makeScopedGuard, type AnyScopes } from './guards/scoped.ts'
import { userIdOf } from './host/users.ts'
import type { Responses } from './http/responses.ts'
import { readAdditions } from './issuing/additions.ts'
import { storeRefreshToken } from './issuing/refresh-token.ts'
import type { Registration } from './registration.ts'
import { prepareGivenToken, readGivenToken, verifyGivenToken } from './request/given-token.ts'
import { registeredStateOf, stateOf } from './request/slot.ts'
import { InstanceSessions } from './sessions/sessions.ts'
import type { Settings } from './settings/schema.ts'

export class TokenAuth implements TokenAuthInstance<object> {
  readonly settings: Readonly<Settings>
  readonly responses: Responses
  readonly sessions: Sessions<object>
  readonly #registration: Registration
  readonly #verifyToken: (token: string) => Payload

  constructor (registration: Registration) {
    this.settings = registration.settings
    this.responses = registration.responses
    this.#registration = registration
    const { sessions: service, issuing } = registration
    this.sessions = new InstanceSessions(
      service && {
        service,
        issuing,
        userIdClaim: registration.settings.userId,
        stateOf: (request) => registeredStateOf(registration, request),
        logoutStateOf: (request) => registeredStateOf(registration, request, registration.logoutRules)
      }
    )
    this.#verifyToken = prepareGivenToken(registration)
  }

  // Reads the options before it uses `this`: a route with the method itself as its hook calls it on another object.
  protect (overrides: ProtectOptions = {}): Guard {
    const options = readOptions('protect', optionsOfGuards.protect, overrides)
    return makeProtectGuard(this.#registration, options)
  }

  scoped (scopes: AnyScopes, overrides: ScopedOptions = {}): Guard {
    const options = readOptions('scoped', optionsOfGuards.scoped, overrides)
    return makeScopedGuard(this.#registration, scopes, options)
  }

  injectUser (handler: AnyHandler, overrides: GuardOptions = {}): Injected {
    const options = readOptions('injectUser', optionsOfGuards.injectUser, overrides)
    return makeInjection(this.#registration, handler, options)
  }

  async generateAccessToken (user: object, given: TokenAdditions<object> = {}): Promise<string> {
    const additions = readAdditions(given)
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
    if (sessions !== undefined) {
      throw new InvalidConfiguration(
        'generateRefreshToken() does not exist with "sessions", whose refresh tokens belong to a session. Use sessions.start().',
        { page: 'sessions-reference.md#settings', duringRequest: true }
      )
    }
    const state = registeredStateOf(this.#registration, request)
    const userId = userIdOf(user, state.settings.userId, 'generateRefreshToken requires')
    const refreshToken = await issuing.refreshToken(request, user, state)
    await storeRefreshToken(host.handlers, request, userId, refreshToken)
    return refreshToken
  }

  verifyToken (token: string): Payload
  verifyToken (token: string, request: FastifyRequest): Promise<Payload>
  verifyToken (token: string, request?: FastifyRequest): MaybePromise<Payload> {
    return request === undefined ? this.#verifyToken(token) : verifyGivenToken(this.#registration, token, request)
  }

  async reloadKeys (): Promise<void> {
    const { reload } = this.#registration.keys
    if (reload === undefined) {
      throw new InvalidConfiguration('reloadKeys() needs the option "keys". Give it a function that returns the keys.', {
        page: 'keys.md',
        duringRequest: true
      })
    }
    await reload()
  }

  async verified (text: string, request: FastifyRequest): Promise<Verified> {
    return await readGivenToken(this.#registration, text, request)
  }

  storeStatus (): StoreStatus { return this.#registration.storeStatus() }
  keyStatus (): KeyStatus { return this.#registration.keys.status() }
  routes (): RouteAccess[] { return this.#registration.routes.routes() }
  printRoutes (): string { return this.#registration.routes.printRoutes() }

  isAuthenticated (request: FastifyRequest): boolean { return stateOf(this.#registration, request).claims !== null }
  extractPayload (request: FastifyRequest): Payload | null { return stateOf(this.#registration, request).payload }
  extractUserId (request: FastifyRequest): UserId | null { return stateOf(this.#registration, request).userId }
  extractScopes (request: FastifyRequest): string[] | null { return stateOf(this.#registration, request).scopes }
}

const { protect, scoped, injectUser } = TokenAuth.prototype
for (const [name, maker] of Object.entries({ protect, scoped, injectUser })) declareMaker(maker, name)
