/** Where a request keeps its authentication states: a linked list, because most requests have one. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { GetterResults } from '../host/getters.ts'
import { invalidToken } from '../refusal.ts'
import { RequestState, type Owner } from './state.ts'
import type { AccessRules } from './rules.ts'
import type { Renewal } from './verify.ts'

const slot = Symbol('token-auth')

const notRead = invalidToken('the endpoint does not read it')

interface SlottedRequest extends FastifyRequest { [slot]?: RequestState | null }

/** Reserves the slot once for each application, so that all requests keep one hidden class. */
export function reserveSlot (fastify: FastifyInstance): void {
  if (!fastify.hasRequestDecorator(slot)) fastify.decorateRequest(slot, null)
}

function find (owner: Owner, request: FastifyRequest): RequestState | null {
  let state = (request as SlottedRequest)[slot] ?? null
  while (state !== null && state.owner !== owner) state = state.next
  return state
}

/**
 * Returns the state of a request under the rules of a guard. Other rules begin with a new state: what was found under laxer
 * rules must not let a request pass stricter ones. Only results of getters are kept.
 */
export function openState (owner: Owner, request: FastifyRequest, rules: AccessRules): RequestState {
  const known = find(owner, request)
  if (known !== null && known.rules === rules) return known
  const slotted: SlottedRequest = request
  // A newer state hides an older one of the same registration.
  const state = new RequestState(owner, request, rules, known?.results, slotted[slot] ?? null, known?.renewal)
  slotted[slot] = state
  return state
}

/** As {@link openState}, for a request that a renewal has given new tokens. */
export function openRenewed (owner: Owner, request: FastifyRequest, rules: AccessRules, results: GetterResults, renewal: Renewal): RequestState {
  const known = find(owner, request)
  if (known?.rules === rules && known.renewal === renewal) return known
  const slotted: SlottedRequest = request
  const state = new RequestState(owner, request, rules, results, slotted[slot]!, renewal)
  slotted[slot] = state
  return state
}

/**
 * Returns a new state in which the request carries no access token, whatever it carries: for an endpoint that does not look
 * at it. Otherwise, the application could take the user of one token for the user of another one.
 */
export function openWithoutToken (owner: Owner, request: FastifyRequest): RequestState {
  const slotted: SlottedRequest = request
  const state = new RequestState(owner, request, owner.rules, find(owner, request)?.results, slotted[slot] ?? null)
  state.refuse(notRead)
  slotted[slot] = state
  return state
}

/** As {@link openWithoutToken}, for a renewal: readers of the request do not see the state. */
export function withoutToken ({ owner, request, results }: RequestState): RequestState {
  const state = new RequestState(owner, request, owner.rules, results, null)
  state.refuse(notRead)
  return state
}

/** Returns the state of a request as its last guard left it; without a guard, under the rules of the registration. */
export function stateOf (owner: Owner, request: FastifyRequest): RequestState {
  return find(owner, request) ?? openState(owner, request, owner.rules)
}

/** Returns the state of a request under the rules of the registration, without a change to what its guard left. */
export function registeredStateOf (owner: Owner, request: FastifyRequest): RequestState {
  const known = stateOf(owner, request)
  return known.rules === owner.rules ? known : new RequestState(owner, request, owner.rules, known.results, null, known.renewal)
}
