/** The records of a request, one for each registration: a linked list, because most requests have only one. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { invalidToken } from '../refusal.ts'
import { RequestRecord, type Owner } from './record.ts'
import { RequestState } from './state.ts'
import type { AccessRules } from './rules.ts'
import type { Renewal } from './verify.ts'

type Record = RequestRecord<RequestState>

const slot = Symbol('token-auth')

const notRead = invalidToken('the endpoint does not read it')

interface SlottedRequest extends FastifyRequest { [slot]?: Record | null }

/** Adds the slot to all requests of an application, so that they have the same hidden class. */
export function reserveSlot (fastify: FastifyInstance): void {
  if (!fastify.hasRequestDecorator(slot)) fastify.decorateRequest(slot, null)
}

function recordOf (owner: Owner, request: FastifyRequest): Record {
  const slotted: SlottedRequest = request
  const first = slotted[slot] ?? null
  let record = first
  while (record !== null && record.owner !== owner) record = record.next
  if (record !== null) return record
  const created: Record = new RequestRecord(owner, request, first)
  slotted[slot] = created
  return created
}

/**
 * Returns the state of a request under the rules of a guard. Other rules get a new state, because a result of laxer rules
 * must not pass stricter ones. Only the results of getters and the renewal are kept.
 */
export function openState (owner: Owner, request: FastifyRequest, rules: AccessRules): RequestState {
  const record = recordOf(owner, request)
  const { state } = record
  if (state !== null && state.rules === rules) return state
  record.state = new RequestState(record, rules, state?.renewal)
  return record.state
}

/** As {@link openState}, for a request that was renewed. */
export function openRenewed ({ record }: RequestState, rules: AccessRules, renewal: Renewal): RequestState {
  const { state } = record
  if (state?.rules === rules && state.renewal === renewal) return state
  record.state = new RequestState(record, rules, renewal)
  return record.state
}

/** Returns a state that ignores the access token of a request. `request.tokenAuth` does not use this state. */
export function withoutToken (record: Record): RequestState {
  const state = new RequestState(record, record.owner.rules)
  state.refuse(notRead)
  return state
}

/**
 * As {@link withoutToken}, for an endpoint that ignores the access token. `request.tokenAuth` uses this state; otherwise,
 * the application could confuse the user of the access token with that of the refresh token.
 */
export function openWithoutToken (owner: Owner, request: FastifyRequest): RequestState {
  const record = recordOf(owner, request)
  record.state = withoutToken(record)
  return record.state
}

/** Returns the state under the rules of the last guard; without a guard, under the rules of the registration. */
export function stateOf (owner: Owner, request: FastifyRequest): RequestState {
  return recordOf(owner, request).state ?? openState(owner, request, owner.rules)
}

/** Returns a state under the rules of the registration, or others. `request.tokenAuth` keeps the state of the last guard. */
export function registeredStateOf (owner: Owner, request: FastifyRequest, rules: AccessRules = owner.rules): RequestState {
  const known = stateOf(owner, request)
  return known.rules === rules ? known : new RequestState(known.record, rules, known.renewal)
}
