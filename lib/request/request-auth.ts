/** `request.tokenAuth`: what the application may know of the authentication state of a request. */
import type { TokenAuthError } from '../errors.ts'
import type { Payload, UserId } from '../../types/handlers.ts'
import type { RequestTokenAuth, VerifiedRequest } from '../../types/instance.ts'
import type { Settings } from '../settings/schema.ts'
import type { TokenSource } from './extract.ts'
import { createSignal, type Circumstances } from './signal.ts'
import type { ValidToken } from './verify.ts'

/** What is read of the state of a request. Without a valid token, all properties but `settings` are null. */
export interface Readable extends Circumstances {
  readonly valid: ValidToken | null
  readonly source: TokenSource | null
  readonly payload: Payload | null
  readonly userId: UserId | null
  readonly scopes: string[] | null
  readonly settings: Readonly<Settings>
  user (): Promise<object | null>
  ready (): Promise<void>
  toRefused (): TokenAuthError
}

/** The public face of a request's state. The state itself, with rules and registration, stays private. */
export class RequestAuth implements RequestTokenAuth<object> {
  readonly #state: Readable
  #signal: AbortSignal | undefined
  #verified: VerifiedRequest | undefined

  constructor (state: Readable) {
    this.#state = state
  }

  get payload (): Payload | null { return this.#state.payload }
  get userId (): UserId | null { return this.#state.userId }
  get scopes (): string[] | null { return this.#state.scopes }
  get sessionId (): string | null { return this.#state.sessionId }
  get issuer (): string | null { return this.#state.valid?.verified.issuer?.issuer ?? null }
  get token (): string | null { return this.#state.valid?.verified.token ?? null }
  get source (): TokenSource | null { return this.#state.source }
  get settings (): Readonly<Settings> { return this.#state.settings }
  user (): Promise<object | null> { return this.#state.user() }
  ready (): Promise<void> { return this.#state.ready() }

  get verified (): VerifiedRequest {
    this.#verified ??= this.#readVerified()
    return this.#verified
  }

  #readVerified (): VerifiedRequest {
    const { payload, userId, scopes, sessionId, issuer, token, source } = this
    if (payload === null || userId === null || token === null || source === null) throw this.#state.toRefused()
    return { payload, userId, scopes, sessionId, issuer, token, source }
  }

  get signal (): AbortSignal {
    // Without a valid token, one that never aborts. Not kept, because the token may turn out to be valid when the keys of its
    // issuer have been fetched, and not shared, because listeners on it would stay.
    const { valid } = this.#state
    if (valid === null) return new AbortController().signal
    this.#signal ??= createSignal(valid.verified, this.#state)
    return this.#signal
  }
}
