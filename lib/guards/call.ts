/** Checks how guards, and handlers made by `injectUser`, are called. */
import { InvalidConfiguration } from '../configuration-errors.ts'
import { memberOf } from '../values.ts'

const errorOptions = { page: 'guards.md', duringRequest: true } as const

function checkParameters (request: unknown, reply: unknown, what: string, call: string): void {
  // `headers` is an object in a request, and a method in a reply. Any object is accepted as the reply: a GraphQL subscription has none.
  if (typeof memberOf(request, 'headers') === 'object' && typeof reply === 'object' && reply !== null) return
  throw new InvalidConfiguration(
    `${what} was called without the request and the reply. Pass both: await ${call}(request, reply).`,
    errorOptions
  )
}

/** Refuses a call of a handler of `injectUser` without the request and the reply. @throws {InvalidConfiguration} */
export const checkHandlerCall = (request: unknown, reply: unknown): void =>
  checkParameters(request, reply, 'A handler of injectUser()', 'handler')

/** Checks that a guard is called as a hook or awaited. @throws {InvalidConfiguration} at once: a promise without `await` may be ignored */
export function checkCall (request: unknown, reply: unknown, done: unknown): void {
  if (done === undefined) checkParameters(request, reply, 'A guard', 'guard')
  else if (typeof done !== 'function') {
    throw new InvalidConfiguration(
      'A guard was called with the parameters of another kind of hook. Use it as onRequest, preValidation or preHandler.',
      errorOptions
    )
  }
}
