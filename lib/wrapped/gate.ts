/**
 * Makes sure that a request passes a guard in whose place something else stands, such as the function of a tool that traces
 * requests. Such a function is known to call the guard when it is tried, and no trial can show that it always does.
 */
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'

/** A hook with a callback. */
export type CallbackHook = (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction) => void

/** A guard that a gate makes sure of. */
export interface EnforcedGuard {
  readonly hook: CallbackHook
  /** Whether the guard has let a request pass. */
  hasPassed (request: FastifyRequest): boolean
}

/** The requests that a guard has let pass. They are noted only for guards that a gate asks about. */
export class PassedRequests {
  #requests: WeakSet<FastifyRequest> | undefined

  note (request: FastifyRequest): void {
    this.#requests?.add(request)
  }

  /** Begins to note requests, and returns what tells of one whether the guard has let it pass. */
  watch (): EnforcedGuard['hasPassed'] {
    const requests = this.#requests ??= new WeakSet()
    return (request) => requests.has(request)
  }
}

/** Makes a hook that passes a request to each of the guards that have not let it pass. */
export function makeGate (guards: readonly EnforcedGuard[]): CallbackHook {
  const gate: CallbackHook = (request, reply, done) => {
    const ask = (index: number): void => {
      const next = guards.findIndex(({ hasPassed }, at) => at >= index && !hasPassed(request))
      if (next < 0) done()
      else guards[next]!.hook(request, reply, (error) => error === undefined ? ask(next + 1) : done(error))
    }
    ask(0)
  }
  return Object.defineProperty(gate, 'name', { value: `gate of ${guards.map(({ hook }) => hook.name).join(' and ')}` })
}
