/** One registration of the plugin: its settings, handlers and keys, and what can be done with them. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { CustomClaim, ExtraVerification, MaybePromise, Payload, UserId } from '../types/handlers.ts'
import type {
  Guard, GuardOptions, InjectedRouteHandler, RequiredScopes, ScopedOptions, TokenAdditions, TokenAuthInstance, UserRouteHandler
} from '../types/instance.ts'
import type { AllSettings } from '../types/settings.ts'
import type { HostHandlers } from './authentication.ts'
import { readCustomClaims } from './custom-claims.ts'
import { HandlerFailed, InvalidConfiguration, InvalidToken, RefreshTokenNotImplemented, TokenAuthError } from './errors.ts'
import { callHost, wrongResult } from './host.ts'
import { makeGuard, makeInjection, makeScopedGuard } from './guards.ts'
import { issueAccessToken } from './issue.ts'
import { preparePolicy, readOptions, type Policy, type RedirectOptions } from './policy.ts'
import { Refusal } from './refusal.ts'
import { RequestAuth } from './request-auth.ts'
import { isReplaced, sendError, type Responses } from './responses.ts'
import { overrideSettings, type Resolved } from './settings/configuration.ts'
import { withoutRequest } from './settings/per-request.ts'
import type { Settings } from './settings/schema.ts'
import { suggest } from './settings/suggest.ts'
import type { Verifier } from './token/codec.ts'
import { CodecCache } from './token/codec-cache.ts'
import { makeRefreshToken } from './token/refresh.ts'
import { ownPayload, verifyToken } from './token/verify.ts'
import { checkUser, userIdOf } from './users.ts'

/** Where a request keeps what instances know of it: a list, because most often there is one. Reserved by the plugin. */
export const requestSlot = Symbol('token-auth')

type GenerateRefreshToken = AllSettings<object>['generateRefreshToken']

const issuingWithoutRequest = withoutRequest('. Give generateAccessToken the option "request".')
const verifyingWithoutRequest = withoutRequest(', so a token can only be verified with its own: read request.tokenAuth.payload.')

const additionNames: readonly string[] = ['customClaims', 'extendPayload', 'scopes', 'request'] satisfies Array<keyof TokenAdditions<object>>

interface SlottedRequest extends FastifyRequest { [requestSlot]?: RequestAuth | null }

export interface Parts {
  readonly resolved: Resolved
  readonly handlers: Partial<HostHandlers>
  readonly responses: Responses
  readonly customClaims: readonly CustomClaim[]
  readonly extraVerifications: readonly ExtraVerification[]
}

export class TokenAuth implements TokenAuthInstance<object> {
  readonly settings: Readonly<Settings>
  readonly responses: Responses
  readonly handlers: Partial<HostHandlers>
  readonly customClaims: readonly CustomClaim[]
  readonly extraVerifications: readonly ExtraVerification[]
  /** The policy of the registration itself; guards with overrides have their own. */
  readonly policy: Policy
  /** Made when the first key is computed: most instances never compute one. */
  #made: CodecCache | undefined
  readonly #computedKeys = (): CodecCache => {
    this.#made ??= new CodecCache()
    return this.#made
  }

  readonly #generateRefreshToken: GenerateRefreshToken

  constructor (parts: Parts) {
    const { resolved } = parts
    this.settings = resolved.settings
    this.responses = parts.responses
    this.handlers = parts.handlers
    this.customClaims = parts.customClaims
    this.extraVerifications = parts.extraVerifications
    this.policy = preparePolicy(resolved, resolved.settings.authMode ? 'must' : 'may', this.#computedKeys)
    // Checked to be a function with the other settings.
    this.#generateRefreshToken = (resolved.generateRefreshToken as GenerateRefreshToken | undefined) ?? makeRefreshToken
  }

  /** Prepares the policy of one guard. Without overrides it is that of the registration. */
  policyOf (options: GuardOptions): Policy {
    const { redirectOnFail, redirectUrl, ...overrides } = readOptions(options)
    const redirect: RedirectOptions = { redirectOnFail, redirectUrl }
    const overridden = Object.values(overrides).some((value) => value !== undefined)
    if (!overridden && redirectOnFail === undefined && redirectUrl === undefined) return this.policy
    const resolved = overridden ? overrideSettings(this.policy.resolved, { ...overrides }) : this.policy.resolved
    return preparePolicy(resolved, 'never', this.#computedKeys, redirect)
  }

  /** What is known of a request, as the last guard left it; without a guard, under the settings of the registration. */
  of (request: FastifyRequest): RequestAuth {
    return this.#find(request) ?? this.enter(request, this.policy)
  }

  #find (request: FastifyRequest): RequestAuth | null {
    let known = (request as SlottedRequest)[requestSlot] ?? null
    while (known !== null && known.tokenAuth !== this) known = known.next
    return known
  }

  /**
   * What is known of a request under the policy of a guard. Another policy begins afresh: what was found out under a
   * laxer one must not let a request pass a stricter one. Only what getters gave is kept.
   */
  enter (request: FastifyRequest, policy: Policy): RequestAuth {
    const known = this.#find(request)
    if (known !== null && known.policy === policy) return known
    const slotted: SlottedRequest = request
    // A later entry hides an earlier one of the same instance.
    const fresh = new RequestAuth(this, request, policy, known?.results, slotted[requestSlot] ?? null)
    slotted[requestSlot] = fresh
    return fresh
  }

  /** A request under the settings of the registration, without a change to what its guard left: that is whom the route was opened for. */
  #registered (request: FastifyRequest): RequestAuth {
    const known = this.of(request)
    return known.policy === this.policy ? known : new RequestAuth(this, request, this.policy, known.results, null)
  }

  /** Answers a refusal, or throws what the host's error handler is to see. @param given a refusal, or whatever was thrown on the way */
  refuse (request: FastifyRequest, reply: FastifyReply, given: unknown, auth: RequestAuth): MaybePromise<unknown> {
    const error = given instanceof Refusal ? this.#errorOf(given, auth) : given
    if (!(error instanceof TokenAuthError) || error instanceof HandlerFailed || auth.settings.onRefusal === 'throw') throw error
    const { redirectUrl } = auth.policy
    if (redirectUrl !== undefined && error.statusCode === 401) return reply.redirect(redirectUrl(auth.settings), 302)
    return sendError(this.responses, request, reply, error)
  }

  #errorOf (refusal: Refusal, auth: RequestAuth): Readonly<TokenAuthError> {
    const isSeenByHost = isReplaced(this.responses, 'exceptionResponse') || auth.settings.onRefusal === 'throw'
    return isSeenByHost ? auth.errorForHost(refusal) : auth.errorToRender(refusal)
  }

  protect (overrides: GuardOptions = {}): Guard {
    // First: a route that is given this method itself calls it on another object.
    const options = readOptions(overrides)
    return makeGuard(this, this.policyOf(options))
  }

  scoped (scopes: RequiredScopes, options: ScopedOptions = {}): Guard {
    const { requireAll, requireAllActions, ...overrides } = readOptions(options)
    return makeScopedGuard(this, this.policyOf(overrides), scopes, { requireAll, requireAllActions })
  }

  injectUser<Route extends object> (handler: UserRouteHandler<object, Route>, overrides: GuardOptions = {}): InjectedRouteHandler<Route> {
    const overridden = Object.values(readOptions(overrides)).some((value) => value !== undefined)
    return makeInjection(this, overridden ? this.policyOf(overrides) : undefined, handler)
  }

  async generateAccessToken (user: object, additions: TokenAdditions<object> = {}): Promise<string> {
    const unknown = Object.keys(additions).find((name) => !additionNames.includes(name))
    if (unknown !== undefined) {
      throw new InvalidConfiguration(`generateAccessToken has no option "${unknown}".${suggest(unknown, additionNames)} It has ${additionNames.join(', ')}.`, { section: 'instances' })
    }
    const { request } = additions
    const auth = request === undefined ? undefined : this.#registered(request)
    return await this.issue(user, 'generateAccessToken must be given', auth, additions)
  }

  /** Makes an access token. @param from how the user came, for messages: `authenticate must return` @param auth the request that asks for it, from which settings may be computed */
  async issue (user: unknown, from: string, auth: RequestAuth | undefined, additions: TokenAdditions<object> = {}): Promise<string> {
    const results = auth?.results ?? issuingWithoutRequest
    const settings = auth?.settings ?? this.policy.settingsOf(results)
    const { extendPayload, addScopesToPayload } = this.handlers
    const { scopes } = additions
    const signer = await this.policy.signer(settings, results)
    const added = additions.customClaims === undefined ? [] : readCustomClaims(additions.customClaims, this.settings, this.customClaims)
    return await issueAccessToken(user, from, {
      settings,
      signer,
      customClaims: [...this.customClaims, ...added],
      extendPayload: [extendPayload, additions.extendPayload].filter((handler) => handler !== undefined),
      addScopesToPayload: scopes !== undefined ? () => scopes : settings.scopesEnabled ? addScopesToPayload : undefined
    })
  }

  async generateRefreshToken (request: FastifyRequest, user: object): Promise<string> {
    const auth = this.#registered(request)
    const userId = userIdOf(user, auth.settings.userId, 'generateRefreshToken must be given')
    const refreshToken = await this.makeRefreshToken(request, user, auth)
    await this.storeRefreshToken(request, userId, refreshToken)
    return refreshToken
  }

  /** Makes a refresh token without storing it. @throws {HandlerFailed} where the generator gives no non-empty text */
  async makeRefreshToken (request: FastifyRequest, user: object, { results }: RequestAuth): Promise<string> {
    const getter = this.policy.resolved.getters.get('generateRefreshToken')
    const generate = getter === undefined ? this.#generateRefreshToken : results.get('generateRefreshToken', getter) as GenerateRefreshToken
    const refreshToken: unknown = await callHost('generateRefreshToken', () => generate(request, user))
    // Half a surrogate pair has no form in UTF-8: no client could send it back.
    const isText = typeof refreshToken === 'string' && refreshToken !== '' && !/\p{Surrogate}/u.test(refreshToken)
    if (!isText) throw wrongResult('generateRefreshToken', 'a non-empty string', refreshToken)
    return refreshToken
  }

  async storeRefreshToken (request: FastifyRequest, userId: UserId, refreshToken: string): Promise<void> {
    const { storeRefreshToken } = this.handlers
    if (storeRefreshToken === undefined) throw new RefreshTokenNotImplemented('The handler "storeRefreshToken" is missing. Give it as an option or as a method of the authentication class.', { section: 'handlers' })
    await callHost('storeRefreshToken', () => storeRefreshToken(userId, refreshToken, request))
  }

  verifyToken (token: string): Payload {
    if (typeof token !== 'string') throw new InvalidToken()
    const settings = this.policy.settingsOf(verifyingWithoutRequest)
    // Synchronous: a getter is all that can make it wait, and there is no request for one.
    const verifier = this.policy.verifier(settings, verifyingWithoutRequest) as Verifier
    const valid = verifyToken(token, verifier, settings, this)
    if (valid instanceof Refusal) throw valid.toError()
    return ownPayload(valid)
  }

  isAuthenticated (request: FastifyRequest): boolean { return this.of(request).claims !== null }
  extractPayload (request: FastifyRequest): Payload | null { return this.of(request).payload }
  extractUserId (request: FastifyRequest): UserId | null { return this.of(request).userId }
  extractScopes (request: FastifyRequest): string[] | null { return this.of(request).scopes }

  /** The user of a valid token: what `retrieveUser` gives, or the user id alone. @throws {InvalidUserObject} {HandlerFailed} */
  async retrieveUser (request: FastifyRequest, payload: Payload, settings: Settings): Promise<object | null> {
    const { retrieveUser } = this.handlers
    if (retrieveUser === undefined) return { [settings.userId]: payload[settings.userId] }
    const user: unknown = await callHost('retrieveUser', () => retrieveUser(request, payload))
    return user === undefined || user === null ? null : checkUser(user, 'retrieveUser must return')
  }
}
