/**
 * A gate runs a guard that another function has replaced, such as the wrapper of a tracing tool, unless the request has
 * passed the guard already. A trial call shows that the wrapper calls the guard, but not that it does so for every request.
 */
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify'

/** A hook with a callback. */
export type CallbackHook = (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction) => void

/** A guard that a gate runs. */
export interface EnforcedGuard {
  readonly hook: CallbackHook
  /** Whether the guard has let a request pass. */
  hasPassed (request: FastifyRequest): boolean
}

/** The requests that a guard has let pass. They are recorded only for guards with a gate. */
export class PassedRequests {
  #requests: WeakSet<FastifyRequest> | undefined

  note (request: FastifyRequest): void {
    this.#requests?.add(request)
  }

  /** Starts recording requests. @returns a function that checks whether the guard has let a request pass */
  watch (): EnforcedGuard['hasPassed'] {
    const requests = this.#requests ??= new WeakSet()
    return (request) => requests.has(request)
  }
}

/** Makes a hook that runs each of the guards that has not let the request pass yet. */
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
