/** How guards and handlers of `injectUser` are called. */
import { InvalidConfiguration } from '../configuration-errors.ts'
import { memberOf } from '../values.ts'

const place = { page: 'guards.md', duringRequest: true } as const

function checkParameters (request: unknown, reply: unknown, what: string, call: string): void {
  // A reply has `headers`, too: a method. What stands for the reply where there is none, such as in a subscription of GraphQL, is accepted.
  if (typeof memberOf(request, 'headers') === 'object' && typeof reply === 'object' && reply !== null) return
  throw new InvalidConfiguration(`${what} was called without the request and the reply. Pass both: await ${call}(request, reply).`, place)
}

/** Refuses a call of a handler of `injectUser` without the request and the reply. @throws {InvalidConfiguration} */
export const checkHandlerCall = (request: unknown, reply: unknown): void => checkParameters(request, reply, 'A handler of injectUser()', 'handler')

/** Refuses a call of a guard that is none of a hook, nor one of code that waits for it. @throws {InvalidConfiguration} at once: the promise of a call without `await` may be ignored */
export function checkCall (request: unknown, reply: unknown, done: unknown): void {
  if (done === undefined) checkParameters(request, reply, 'A guard', 'guard')
  else if (typeof done !== 'function') throw new InvalidConfiguration('A guard was called with the parameters of another kind of hook. Use it as onRequest, preValidation or preHandler.', place)
}
