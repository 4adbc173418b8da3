/**
 * Finds the guard in a function that has replaced it. Tracing tools replace hooks and handlers with wrappers, many of them
 * without a reference to the original. A wrapper is called with a placeholder instead of a request: it passes its parameters
 * on unchanged, and the guard records the call. Any other function fails at the first property that it reads from the
 * placeholder.
 */

/** The placeholder for request, reply and callback. @fastify/websocket reads a socket from `request.raw`. */
const nothing = Object.freeze({ raw: Object.freeze({}) })

let reached: object[] = []

/**
 * Whether a call of a guard is a trial call. Every guard checks this first. The guard is recorded only if the caller passes
 * `next` on: a caller that replaces the callback may ignore a refusal.
 * @param next the callback of a hook, or the reply of a handler
 */
export function recordTrial (request: unknown, next: unknown, guard: object): boolean {
  if (request !== nothing) return false
  if (next === nothing) reached.push(guard)
  return true
}

/** The guards that were found in functions, so that each function is called once. */
const tried = new WeakMap<object, readonly object[]>()

/** Returns the guards that a function calls before it waits for anything. It may call them for some requests only. */
export function guardsCalledBy (value: object, context: object): readonly object[] {
  const known = tried.get(value)
  if (known !== undefined) return known
  const found: object[] = []
  reached = found
  try {
    const result: unknown = Reflect.apply(value as () => unknown, context, [nothing, nothing, nothing])
    // An unhandled rejection would end the process.
    Promise.resolve(result).catch(() => {})
  } catch {
    // Not a wrapper: the function expects a request.
  }
  // Guards that the function calls later are not found.
  reached = []
  tried.set(value, found)
  return found
}
