/** Where a request keeps its records: a linked list, because most requests have one. */
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

/** Reserves the slot once for each application, so that all requests keep one hidden class. */
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
 * Returns the state of a request under the rules of a guard. Other rules begin with a new state: what was found under laxer
 * rules must not let a request pass stricter ones. Only results of getters are kept.
 */
export function openState (owner: Owner, request: FastifyRequest, rules: AccessRules): RequestState {
  const record = recordOf(owner, request)
  const { state } = record
  if (state !== null && state.rules === rules) return state
  record.state = new RequestState(record, rules, state?.renewal)
  return record.state
}

/** As {@link openState}, for a request that a renewal has given new tokens. */
export function openRenewed ({ record }: RequestState, rules: AccessRules, renewal: Renewal): RequestState {
  const { state } = record
  if (state?.rules === rules && state.renewal === renewal) return state
  record.state = new RequestState(record, rules, renewal)
  return record.state
}

/** Returns a state in which a request carries no access token, whatever it carries. Readers of the request do not see it. */
export function withoutToken (record: Record): RequestState {
  const state = new RequestState(record, record.owner.rules)
  state.refuse(notRead)
  return state
}

/**
 * As {@link withoutToken}, for an endpoint that does not look at the token: readers see this state. Otherwise, the application
 * could take the user of one token for the user of another one.
 */
export function openWithoutToken (owner: Owner, request: FastifyRequest): RequestState {
  const record = recordOf(owner, request)
  record.state = withoutToken(record)
  return record.state
}

/** Returns the state of a request as its last guard left it; without a guard, under the rules of the registration. */
export function stateOf (owner: Owner, request: FastifyRequest): RequestState {
  return recordOf(owner, request).state ?? openState(owner, request, owner.rules)
}

/** Returns the state of a request under the rules of the registration, without a change to what its guard left. */
export function registeredStateOf (owner: Owner, request: FastifyRequest): RequestState {
  const known = stateOf(owner, request)
  return known.rules === owner.rules ? known : new RequestState(known.record, owner.rules, known.renewal)
}
