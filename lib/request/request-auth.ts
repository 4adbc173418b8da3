/** `request.tokenAuth`: what the application may know of the authentication state of a request. */
import type { Payload, UserId } from '../../types/handlers.ts'
import type { RequestTokenAuth } from '../../types/instance.ts'
import type { Settings } from '../settings/schema.ts'

type State = RequestTokenAuth<object, Record<string, unknown>>

/** The public face of a request's state. The state itself, with rules and registration, stays private. */
export class RequestAuth implements State {
  readonly #state: State

  constructor (state: State) {
    this.#state = state
  }

  get payload (): Payload | null { return this.#state.payload }
  get userId (): UserId | null { return this.#state.userId }
  get scopes (): string[] | null { return this.#state.scopes }
  get sessionId (): string | null { return this.#state.sessionId }
  get issuer (): string | null { return this.#state.issuer }
  get token (): string | null { return this.#state.token }
  get signal (): AbortSignal { return this.#state.signal }
  get source (): State['source'] { return this.#state.source }
  get settings (): Readonly<Settings> { return this.#state.settings }
  user (): Promise<object | null> { return this.#state.user() }
  ready (): Promise<void> { return this.#state.ready() }
}
