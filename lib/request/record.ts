/** The state that the guards and endpoints of a registration, and `request.tokenAuth`, share on one request. */
import type { FastifyRequest } from 'fastify'
import { RequestResults, type GetterResults } from '../host/getters.ts'
import type { Host } from '../host/host.ts'
import type { MaybePromise } from '../../types/handlers.ts'
import type { Refusal } from '../refusal.ts'
import type { Getter } from '../settings/configuration.ts'
import type { SettingName } from '../settings/schema.ts'
import type { WatchSession } from './checks.ts'
import type { AccessRules } from './rules.ts'
import type { NotRenewed } from './signed-out.ts'
import type { Renewal } from './verify.ts'

/** The registration that a record belongs to. */
export interface Owner {
  /** The rules of the registration. Guards with overrides have other rules. */
  readonly rules: AccessRules
  readonly host: Host
  /** Undefined without sessions. */
  readonly watchSession: WatchSession | undefined
  /** Whether scopes of a trusted issuer are compared as whole strings, so that any text may be required. */
  readonly hasExactScopes: boolean
}

/** A guard that has let an anonymous request pass. If a later guard renews the request, this guard checks the new tokens, too. */
export interface WaitingGuard<State> {
  readonly rules: AccessRules
  check (renewed: State): MaybePromise<Refusal | null>
}

/** The renewal of a request. */
interface Renewing<State> {
  /** Undefined until a guard tries to renew. Each request is renewed at most once. */
  attempt: Promise<Renewal | NotRenewed> | undefined
  readonly waiting: Array<WaitingGuard<State>>
}

/** One object for each request and registration. More fields, or a base class, would slow down every guard. */
export class RequestRecord<State> implements GetterResults {
  readonly owner: Owner
  readonly request: FastifyRequest
  /** The record of another registration. */
  readonly next: RequestRecord<State> | null
  /** The state under the rules of the last guard; null before the first guard. */
  state: State | null = null
  #results: RequestResults | undefined
  #renewing: Renewing<State> | undefined

  constructor (owner: Owner, request: FastifyRequest, next: RequestRecord<State> | null) {
    this.owner = owner
    this.request = request
    this.next = next
  }

  get renewing (): Renewing<State> {
    this.#renewing ??= { attempt: undefined, waiting: [] }
    return this.#renewing
  }

  get (name: SettingName, getter: Getter): unknown {
    this.#results ??= new RequestResults(this.request)
    return this.#results.get(name, getter)
  }

  has (getter: Getter): boolean {
    return this.#results?.has(getter) === true
  }
}
