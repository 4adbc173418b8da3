/**
 * Finds the guard that a function calls, for functions that something has put in the place of a guard. Tools that trace
 * requests replace hooks and handlers by functions of their own, of which many keep nothing that leads to the original.
 * Such a function is called with a request that is none: tools pass its parameters on unchanged, and the guard notes that
 * it was reached. Anything else fails at the first property that it expects of a request, a reply or a callback.
 */

/** Stands for request, reply and callback. @fastify/websocket looks for a socket in `request.raw`. */
const nothing = Object.freeze({ raw: Object.freeze({}) })

let reached: object[] = []

/**
 * Every guard asks this before it looks at a request: whether it is called to be found. It is noted only if the caller
 * passes on what it was given: what calls a guard with a callback of its own may ignore its decision.
 * @param next the parameter that decides what comes next: the callback of a hook, the reply of a handler
 */
export function isTrial (request: unknown, next: unknown, guard: object): boolean {
  if (request !== nothing) return false
  if (next === nothing) reached.push(guard)
  return true
}

/** What was found behind functions, so that each is called once. */
const tried = new WeakMap<object, readonly object[]>()

/** Returns the guards that a function calls before it waits for anything. It may call them for some requests only. */
export function guardsCalledBy (value: object, context: object): readonly object[] {
  const known = tried.get(value)
  if (known !== undefined) return known
  const found: object[] = []
  reached = found
  try {
    const result: unknown = Reflect.apply(value as () => unknown, context, [nothing, nothing, nothing])
    // A rejection that nobody handles would end the process.
    Promise.resolve(result).catch(() => {})
  } catch {
    // It is no wrapper, and expects a request.
  }
  // What is called later is not found.
  reached = []
  tried.set(value, found)
  return found
}
