/** Promises of the application and of other realms, and waiting with a time limit. */
import { types } from 'node:util'
import type { MaybePromise } from '../types/handlers.ts'

/** Whether a value is a promise of any realm: Node.js returns promises of its own realm to code that Jest isolates. */
export const isPromise = (value: unknown): value is Promise<unknown> => types.isPromise(value)

/** Converts a promise of any realm to one of this realm. Returns other values unchanged. */
export const ownPromise = (value: unknown): unknown => isPromise(value) ? Promise.resolve(value) : value

/** Prevents the rejection of a promise that is not awaited from ending the process. */
export function ignoreRejection (value: unknown): void {
  // Not `value.catch()`, which a subclass may override.
  if (isPromise(value)) Promise.prototype.then.call(value, undefined, () => {})
}

/** Calls a function with a value, or with the result of its promise. Avoid it in code that every request runs: it costs a closure. */
export const whenSettled = <Value, Result>(value: MaybePromise<Value>, use: (value: Value) => MaybePromise<Result>): MaybePromise<Result> =>
  value instanceof Promise ? value.then(use) : use(value)

/**
 * Calls a function and waits for its result for some milliseconds. A later result is ignored.
 * @param late called when the time is over. It returns the result instead of the function, or throws
 * @param isPatient whether waiting keeps the process alive
 */
export async function within<Value, Late> (
  milliseconds: number,
  call: () => Value,
  late: () => Late,
  isPatient: boolean
): Promise<Awaited<Value> | Awaited<Late>> {
  let timer: NodeJS.Timeout | undefined
  const end = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds)
    if (!isPatient) timer.unref()
  })
  try {
    return await Promise.race([call(), end.then(late)])
  } finally {
    clearTimeout(timer)
  }
}

/** Calls a function and waits for some milliseconds. @returns whether its promise resolved in this time */
export const isDoneWithin = async (milliseconds: number, call: () => Promise<unknown>): Promise<boolean> =>
  await within(milliseconds, async () => { await call(); return true }, () => false, true)
