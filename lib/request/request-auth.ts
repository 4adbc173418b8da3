/** `request.tokenAuth`: the part of a request's authentication state that the application can read. */
import type { Payload, UserId } from '../../types/handlers.ts'
import type { RequestTokenAuth, ScopeOptions, VerifiedRequest } from '../../types/instance.ts'
import type { Settings } from '../settings/schema.ts'
import type { TokenSource } from './extract.ts'
import { can } from './scope-question.ts'
import { createSignal } from './signal.ts'
import type { SignedOut } from './signed-out.ts'
import type { RequestState } from './state.ts'

/** The public view of a request's state. The state itself, with rules and registration, stays private. */
class RequestAuth implements RequestTokenAuth<object> {
  readonly #state: RequestState
  #signal: AbortSignal | undefined
  #verified: VerifiedRequest | undefined

  constructor (state: RequestState) {
    this.#state = state
  }

  get payload (): Payload | null { return this.#state.payload }
  get userId (): UserId | null { return this.#state.userId }
  get scopes (): string[] | null { return this.#state.scopes }
  get sessionId (): string | null { return this.#state.sessionId }
  get issuer (): string | null { return this.#state.authority?.issuer ?? null }
  get token (): string | null { return this.#state.valid?.credential.token ?? null }
  get source (): TokenSource | null { return this.#state.source }
  get signedOut (): SignedOut | null { return this.#state.signedOut }
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
    const verified = { payload, userId, scopes, sessionId, issuer, token, source }
    // Not enumerable, so that loggers, `inspect` and `structuredClone` do not copy the token.
    return Object.defineProperty(verified, 'token', { enumerable: false })
  }

  get signal (): AbortSignal {
    // Without a valid token, a signal that never aborts. Not cached, because the token may be valid when the keys of its
    // issuer have been fetched, and not shared, because its listeners would accumulate.
    const { valid } = this.#state
    if (valid === null) return new AbortController().signal
    const { settings, record, request } = this.#state
    this.#signal ??= createSignal(valid.credential, settings, record.owner, request)
    return this.#signal
  }

  can (scopes: string | readonly string[], options?: ScopeOptions): boolean {
    return can(this.#state.record.owner, scopes, options, () => this.#state)
  }
}

/** Returns the public view of a request's state, always the same object. */
export function faceOf (state: RequestState): RequestTokenAuth<object> {
  state.face ??= new RequestAuth(state)
  return state.face
}
