/** Promises of the application and of other realms, and how long something is waited for. */
import { types } from 'node:util'
import type { MaybePromise } from '../types/handlers.ts'

/** Whether a value is a promise, of this realm or of another: Node.js returns promises of its own realm to code that Jest isolates. */
export const isPromise = (value: unknown): value is Promise<unknown> => types.isPromise(value)

/** Returns a promise of any realm as one of this realm, and anything else as it is. */
export const ownPromise = (value: unknown): unknown => isPromise(value) ? Promise.resolve(value) : value

/** Keeps a promise that nothing awaits from ending the process with its rejection. */
export function ignoreRejection (value: unknown): void {
  // Not its own method `catch`, which a class may have replaced.
  if (isPromise(value)) Promise.prototype.then.call(value, undefined, () => {})
}

/** Calls a function with a value, or with what its promise resolves with. Not on the way of every request: it costs a closure where nothing is waited for. */
export const whenSettled = <Value, Result>(value: MaybePromise<Value>, use: (value: Value) => MaybePromise<Result>): MaybePromise<Result> =>
  value instanceof Promise ? value.then(use) : use(value)

/**
 * Calls a function and waits for its result for some milliseconds. What it settles with later is ignored.
 * @param late called when the time is over. Returns the result in place of that of the function, or throws
 * @param isPatient whether the process must not end meanwhile
 */
export async function within<Value, Late> (milliseconds: number, call: () => Value, late: () => Late, isPatient: boolean): Promise<Awaited<Value> | Awaited<Late>> {
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

/** Waits for some milliseconds for what a function does. @returns whether it was done in this time */
export const isDoneWithin = async (milliseconds: number, call: () => Promise<unknown>): Promise<boolean> =>
  await within(milliseconds, async () => { await call(); return true }, () => false, true)
