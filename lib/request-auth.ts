/** What one instance knows of one request. Made anew for every request, never shared. */
import type { FastifyRequest } from 'fastify'
import type { MaybePromise, Payload, UserId } from '../types/handlers.ts'
import type { RequestTokenAuth } from '../types/instance.ts'
import { InitializationFailure, type TokenAuthError } from './errors.ts'
import type { Policy } from './policy.ts'
import { Refusal } from './refusal.ts'
import { describeSources, extractToken, type FoundToken, type TokenSource } from './request/extract.ts'
import { RequestResults, type GetterResults } from './settings/per-request.ts'
import type { Settings } from './settings/schema.ts'
import type { VerifiedToken, Verifier } from './token/codec.ts'
import { readScopes } from './token/scopes.ts'
import { ownPayload, verifyToken, type ValidToken } from './token/verify.ts'
import type { TokenAuth } from './token-auth.ts'

/** Null: nothing refuses the request. */
export type Outcome = Refusal | null

export class RequestAuth implements RequestTokenAuth<object, Record<string, unknown>> {
  readonly tokenAuth: TokenAuth
  readonly policy: Policy
  /** Another instance's knowledge of the same request. */
  readonly next: RequestAuth | null
  /** What the getters gave, for every guard of this instance on this request. */
  readonly results: GetterResults
  readonly #request: FastifyRequest
  readonly #settings: Readonly<Settings>
  /** Undefined until something asks; then the refusal, null for none, or what is being found out. */
  #refusal: Outcome | Promise<Outcome> | undefined
  #found: FoundToken | undefined
  #valid: ValidToken | undefined
  #payload: Payload | undefined
  #user: Promise<object | null> | undefined

  constructor (tokenAuth: TokenAuth, request: FastifyRequest, policy: Policy, results: GetterResults | undefined, next: RequestAuth | null) {
    this.tokenAuth = tokenAuth
    this.policy = policy
    this.next = next
    this.results = results ?? new RequestResults(request)
    this.#request = request
    this.#settings = policy.settingsOf(this.results)
  }

  get settings (): Readonly<Settings> { return this.#settings }

  /**
   * Says whether the request carries a valid access token. Found out once, remembered for the request.
   * @throws {HandlerFailed} where a getter fails
   */
  verify (): Outcome | Promise<Outcome> {
    // Not `??=`: null is an answer too, the one of nearly every request.
    if (this.#refusal === undefined) this.#refusal = this.#findOut()
    return this.#refusal
  }

  async ready (): Promise<void> {
    await this.verify()
  }

  /** As {@link verify}, for readers that cannot wait. */
  #isValid (): boolean {
    const refusal = this.verify()
    if (refusal instanceof Promise) {
      // Nobody may come to wait for it, and a key that cannot be had must not end the process.
      refusal.catch(() => {})
      throw new InitializationFailure('The key of this instance is computed asynchronously: guard the route, or await request.tokenAuth.ready() first.')
    }
    return refusal === null
  }

  #findOut (): Outcome | Promise<Outcome> {
    const found = extractToken(this.#request.raw, this.#settings)
    if (found instanceof Refusal) return found
    this.#found = found
    const verifier = this.policy.verifier(this.#settings, this.results)
    if (!(verifier instanceof Promise)) return this.#check(found, verifier)
    return verifier.then((made) => {
      this.#refusal = this.#check(found, made)
      return this.#refusal
    })
  }

  /**
   * Verifies the access token that comes with a refresh request: it may have expired, everything else must hold.
   * @throws the refusal
   */
  async verifyForRefresh (): Promise<{ payload: Payload, userId: UserId }> {
    const found = extractToken(this.#request.raw, this.#settings)
    if (found instanceof Refusal) throw this.errorForHost(found)
    this.#found = found
    const verifier = await this.policy.verifier(this.#settings, this.results)
    const valid = verifyToken(found.token, verifier, this.#settings, this.tokenAuth, false)
    if (valid instanceof Refusal) throw this.errorForHost(valid)
    return { payload: ownPayload(valid), userId: valid.verified.payload[this.#settings.userId] as UserId }
  }

  #check (found: FoundToken, verifier: Verifier): Outcome {
    const valid = verifyToken(found.token, verifier, this.#settings, this.tokenAuth)
    if (valid instanceof Refusal) return valid
    this.#valid = valid
    return null
  }

  /** The error of a refusal, for a host. With the setting `debug` it says what was wrong, and where the token was. */
  errorForHost (refusal: Refusal): TokenAuthError {
    const error = refusal.toError()
    if (this.#settings.debug) {
      const place = this.#found === undefined ? `expected: ${describeSources(this.#settings)}` : `token found in the ${this.#found.source}`
      error.detail = `${refusal.reason ?? error.message} (${place})`
    }
    return error
  }

  /** As {@link errorForHost}, to be rendered by this library and seen by nobody else. */
  errorToRender (refusal: Refusal): Readonly<TokenAuthError> {
    return this.#settings.debug ? this.errorForHost(refusal) : refusal.shared
  }

  /** The verified payload as the signature covers it; for this library only, which never changes it. */
  get claims (): VerifiedToken['payload'] | null {
    return this.#isValid() ? this.#valid!.verified.payload : null
  }

  /** As {@link claims}, where other requests with the same token get the same object: what follows from it can be kept. */
  get remembered (): VerifiedToken | null {
    return this.#isValid() && this.#valid!.verified.isRemembered ? this.#valid!.verified : null
  }

  get payload (): Payload | null {
    if (!this.#isValid()) return null
    this.#payload ??= ownPayload(this.#valid!)
    return this.#payload
  }

  get userId (): UserId | null {
    const claims = this.claims
    // Checked with the other claims before the token was found valid.
    return claims === null ? null : claims[this.#settings.userId] as UserId
  }

  get scopes (): string[] | null {
    const claims = this.claims
    const { scopesName } = this.#settings
    return claims === null || !Object.hasOwn(claims, scopesName) ? null : readScopes(claims[scopesName])
  }

  get token (): string | null {
    return this.#isValid() ? this.#valid!.verified.token : null
  }

  get source (): TokenSource | null {
    return this.#isValid() ? this.#found!.source : null
  }

  /** As {@link source}, for a guard: where the token was found that let the request pass; null where none was asked for. */
  get foundIn (): TokenSource | null {
    return this.#valid === undefined ? null : this.#found!.source
  }

  user (): Promise<object | null> {
    this.#user ??= this.#retrieveUser()
    return this.#user
  }

  async #retrieveUser (): Promise<object | null> {
    const refusal: MaybePromise<Outcome> = this.verify()
    if (refusal instanceof Promise) await refusal
    const { payload } = this
    return payload === null ? null : await this.tokenAuth.retrieveUser(this.#request, payload, this.#settings)
  }
}
