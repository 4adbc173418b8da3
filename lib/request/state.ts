/** Authentication state of one request for one registration. */
import type { FastifyRequest } from 'fastify'
import { notOwn, type Authority, type Credential } from '../authorities/authority.ts'
import { retrieveOwnUser, retrieveUser } from '../host/users.ts'
import { CrossOriginRequest, InitializationFailure, type TokenAuthError } from '../errors.ts'
import { whenSettled } from '../promises.ts'
import { invalidToken, RefusedRefresh, Refusal, type Verdict } from '../refusal.ts'
import type { Settings } from '../settings/schema.ts'
import type { MaybePromise, Payload, UserId } from '../../types/handlers.ts'
import type { RequestTokenAuth } from '../../types/instance.ts'
import { describeSources, extractToken, refreshTokenSource, type FoundToken, type TokenCarrier, type TokenSource } from './extract.ts'
import { checkOrigin, describeOrigin } from './origin.ts'
import { parsed } from './headers.ts'
import type { RequestRecord } from './record.ts'
import type { AccessRules } from './rules.ts'
import { signedOutBy, type NotRenewed, type SignedOut } from './signed-out.ts'
import { keyNotKnown, ownPayload, sessionIdOf, type Renewal, type ValidCredential, type Verification } from './verify.ts'

/** The access token of a refresh request. */
export interface RefreshSubject {
  readonly payload: Payload
  readonly userId: UserId
}

/** The outcome while functions of the application, such as getters, help to verify a credential. */
const beingVerified = invalidToken('its verification has not ended')

/** The credential of one request and its verification, under the rules of one guard. Never share it between requests. */
export class RequestState implements Verification {
  /** The record that all guards of the registration share on this request. */
  readonly record: RequestRecord<RequestState>
  readonly rules: AccessRules
  readonly settings: Readonly<Settings>
  readonly renewal: Renewal | undefined
  /** Set if a guard has tried to renew the request without success. */
  notRenewed: NotRenewed | undefined = undefined
  waitsForKeys = false
  /** The object `request.tokenAuth`, created at the first access. */
  face: RequestTokenAuth<object> | undefined = undefined
  /** Undefined before the verification; then the refusal, null for a valid token, or a promise of either. */
  #outcome: MaybePromise<Refusal | null> | undefined
  /** Whether a guard has accepted every kind of credentials, including those with `Authority.unlessAccepted`. */
  #isAccepted = false
  #found: FoundToken | undefined
  #valid: ValidCredential | undefined
  #refreshSubject: Promise<Verdict<RefreshSubject>> | undefined
  #user: Promise<object | null> | undefined

  constructor (record: RequestRecord<RequestState>, rules: AccessRules, renewal?: Renewal) {
    this.record = record
    this.rules = rules
    this.settings = rules.settingsOf(record)
    this.renewal = renewal
  }

  get request (): FastifyRequest { return this.record.request }

  get results (): RequestRecord<RequestState> { return this.record }

  /** The parts of the request from which tokens are read. */
  get carrier (): TokenCarrier { return this.renewal === undefined ? parsed(this.request.raw) : this.renewal.carrier }

  /** Returns the token of the request, or the refusal of a request without one. */
  extract (): FoundToken | Refusal { return extractToken(this.carrier, this.settings) }

  /**
   * Verifies the credential of the request, once.
   * @param acceptsAny whether the caller accepts credentials with `Authority.unlessAccepted`. `request.tokenAuth` then shows them
   * @returns the refusal, or null for a valid credential
   * @throws {HandlerFailed} if a getter fails
   */
  verify (acceptsAny = false): MaybePromise<Refusal | null> {
    // Not `??=`: null is the most frequent value.
    if (this.#outcome === undefined) {
      this.#outcome = this.#verifyOnce()
    } else if (this.#outcome === beingVerified) {
      throw new InitializationFailure(
        'request.tokenAuth was read by a function that helps to verify its token, such as "trusted" or a getter. Use the parameters of the function.'
      )
    }
    return acceptsAny ? whenSettled(this.#outcome, (refusal) => this.#accept(refusal)) : this.#outcome
  }

  #accept (refusal: Refusal | null): Refusal | null {
    this.#isAccepted = true
    return this.#unlessAccepted(refusal)
  }

  /** Returns the refusal, or null if it is only `Authority.unlessAccepted`. */
  #unlessAccepted (refusal: Refusal | null): Refusal | null {
    return refusal === this.#valid?.credential.authority.unlessAccepted ? null : refusal
  }

  /** As {@link verify}, for actions that require a token of this instance, such as ending sessions. */
  async verifyOwn (): Promise<Refusal | null> {
    return await this.verify() ?? (this.authority!.hasSessions ? null : notOwn)
  }

  #verifyOnce (): MaybePromise<Refusal | null> {
    this.#outcome = beingVerified
    try {
      return this.#verifyAccess()
    } catch (error) {
      this.#outcome = undefined
      throw error
    }
  }

  #verifyAccess (): MaybePromise<Refusal | null> {
    const found = this.extract()
    if (found instanceof Refusal) return found
    this.#found = found
    // Browsers add cookies to cross-origin requests. Checked before the verification, so that the response reveals no result of it.
    const crossOrigin = found.source === 'cookie' ? checkOrigin(this.request, this.settings) : null
    if (crossOrigin !== null) return crossOrigin
    const verdict = this.rules.verify(found.token, this, 'access', true)
    if (!(verdict instanceof Promise)) return this.#keep(verdict)
    return verdict.then((settled) => {
      this.#outcome = this.#keep(settled)
      return this.#outcome
    })
  }

  /** Refuses the request without verification. `request.tokenAuth` reports this refusal, too. */
  refuse (refusal: Refusal): void {
    this.#outcome = refusal
  }

  #keep (verdict: Verdict<ValidCredential>): Refusal | null {
    if (verdict instanceof Refusal) return verdict
    this.#valid = verdict
    return verdict.credential.authority.unlessAccepted ?? null
  }

  /** Verifies the access token of a refresh request, once. It may have expired, or its key may be retired; all other checks apply. */
  verifyForRefresh (): Promise<Verdict<RefreshSubject>> {
    this.#refreshSubject ??= this.#verifyRefresh()
    return this.#refreshSubject
  }

  async #verifyRefresh (): Promise<Verdict<RefreshSubject>> {
    const found = this.extract()
    if (found instanceof Refusal) return found
    this.#found = found
    const valid = await this.rules.verify(found.token, this, 'refresh')
    return valid instanceof Refusal
      ? valid
      : { payload: ownPayload(valid), userId: valid.credential.authority.userIdOf(valid.credential.payload, this.settings) }
  }

  /** As {@link verify}, for synchronous readers. */
  #isValid (): boolean {
    const outcome = this.verify()
    if (outcome instanceof Promise) {
      // An unhandled rejection would end the process.
      outcome.catch(() => {})
      // Not an error of the application: anyone can send a token whose key is not known yet.
      if (this.waitsForKeys) return false
      throw new InitializationFailure(
        'The key, or the handler "trusted", of this instance is asynchronous. Add a guard to the route, or await request.tokenAuth.ready() first; in a log, use requestSerializer({ userId: true }), and in "trusted" itself, use the parameters.'
      )
    }
    return (this.#isAccepted ? this.#unlessAccepted(outcome) : outcome) === null
  }

  async ready (): Promise<void> {
    await this.verify()
  }

  /**
   * Creates the error of a refusal for the application. With the setting `debug`, `detail` contains the failed check and
   * the source of the token.
   */
  toError (refusal: Refusal): TokenAuthError {
    const error = refusal.toError(this.settings)
    if (this.settings.debug && refusal instanceof RefusedRefresh) {
      error.detail = `${refusal.reason} (refresh token found in the ${refreshTokenSource(this.request.raw, this.settings)})`
    } else if (this.settings.debug) {
      const where = this.#found === undefined ? `expected: ${describeSources(this.settings)}` : `token found in the ${this.#found.source}`
      const why =
        error instanceof CrossOriginRequest
          ? describeOrigin(this.request)
          : `${refusal.explanation ?? refusal.reason ?? error.message} (${where})`
      error.detail = this.notRenewed === undefined ? why : `${why}; not renewed: ${this.notRenewed.reason}`
    }
    return error
  }

  /** As {@link toError}, for a refresh token that is missing or refused. */
  toRefreshError (refusal: Refusal): TokenAuthError {
    const error = refusal.toError(this.settings)
    if (this.settings.debug) error.detail = `${refusal.reason ?? error.message} (expected: ${describeSources(this.settings, 'refresh')})`
    return error
  }

  /** Creates the error that a guard would send for a request without a valid token. */
  toRefused (): TokenAuthError {
    const outcome = this.verify()
    return this.toError(outcome instanceof Refusal ? outcome : keyNotKnown)
  }

  /** Why the request is anonymous; null with a valid token. */
  get signedOut (): SignedOut | null {
    if (this.#isValid()) return null
    return signedOutBy(this.#outcome instanceof Refusal ? this.#outcome : keyNotKnown, this.notRenewed)
  }

  get valid (): ValidCredential | null { return this.#isValid() ? this.#valid! : null }

  get source (): TokenSource | null { return this.#isValid() ? this.#found!.source : null }

  /** The verified payload, shared by all requests with the same token: never change it, and never pass it to the application. */
  get claims (): Credential['payload'] | null {
    return this.#isValid() ? this.#valid!.credential.payload : null
  }

  /** The verified token if all requests with it share this object, so that results can be stored on it; otherwise null. */
  get remembered (): Credential | null {
    return this.#isValid() && this.#valid!.credential.isRemembered ? this.#valid!.credential : null
  }

  get payload (): Payload | null {
    return this.#isValid() ? ownPayload(this.#valid!) : null
  }

  get userId (): UserId | null {
    return this.authority?.userIdOf(this.#valid!.credential.payload, this.settings) ?? null
  }

  get scopes (): string[] | null {
    return this.authority?.scopesOf(this.#valid!.credential.payload, this.settings) ?? null
  }

  /** The authority of the valid token: this instance or an issuer. */
  get authority (): Authority | null { return this.#isValid() ? this.#valid!.credential.authority : null }

  get sessionId (): string | null {
    return this.#isValid() ? sessionIdOf(this.#valid!.credential) : null
  }

  /** The source of the verified token; null if none was verified. Unlike {@link source}, it does not start a verification. */
  get verifiedSource (): TokenSource | null {
    return this.#valid === undefined ? null : this.#found!.source
  }

  user (): Promise<object | null> {
    this.#user ??= this.#retrieveUser()
    return this.#user
  }

  async #retrieveUser (): Promise<object | null> {
    await this.verify()
    const { payload, userId, authority } = this
    // The user ids of an issuer differ from those that the handler returns.
    const retrieve = authority?.issuer === null ? retrieveOwnUser : retrieveUser
    return payload === null ? null : await retrieve(this.record.owner.host.handlers, this.request, payload, this.settings, userId)
  }
}
