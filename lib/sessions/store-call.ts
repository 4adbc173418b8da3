/** Calls the session store, and converts its failures to errors. */
import { SessionStoreUnavailable } from '../errors.ts'
import { wrongResult } from '../host/call.ts'
import { within } from '../promises.ts'
import { isText, isWhole, memberOf, typeName } from '../values.ts'
import type { Advance, SessionStore, StoredSession } from '../../types/sessions.ts'
import { maximumCounter } from './refresh-token.ts'
import { storeTimeoutMs } from './stores/store-clock.ts'

type Results = { [Method in keyof SessionStore]: Awaited<ReturnType<SessionStore[Method]>> }

/** What a method must return. */
interface Expectation<Result> {
  readonly expected: string
  isFit (result: unknown): result is Result
}

/** The largest time value (ECMA-262 section 21.4.1.1). For larger ones, `toISOString()` would throw. */
const maximumTime = 8.64e15

const outcomes: ReadonlySet<unknown> = new Set<Advance['outcome']>(['rotated', 'recovered', 'repeated', 'reissued', 'reused', 'unknown'])

const isTime = (value: unknown) => isWhole(value, 0, maximumTime)
/** Infinity is allowed, for a part that was never read. */
const isAge = (value: unknown) => typeof value === 'number' && value >= 0
const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
const isListOfIds = (result: unknown): result is string[] => Array.isArray(result) && result.every(isText)

function isAdvance (result: unknown): result is Advance {
  return isRecord(result) && outcomes.has(result.outcome) && isWhole(result.n, 0, maximumCounter)
}

/** Whether a value is the JSON text of an object. Throws if it is not JSON. */
const isJsonObject = (value: unknown) => typeof value === 'string' && isRecord(JSON.parse(value))

function isStoredSession (value: unknown): value is StoredSession {
  return (
    isRecord(value) &&
    isText(value.sid) &&
    isTime(value.createdAt) &&
    isTime(value.usedAt) &&
    isTime(value.endsAt) &&
    isJsonObject(value.data)
  )
}

const expectations: { readonly [Method in keyof SessionStore]: Expectation<Results[Method]> } = {
  create: { expected: 'an array of session ids', isFit: isListOfIds },
  advance: { expected: `{ outcome, n }, with an outcome of ${[...outcomes].join(', ')} and a whole number`, isFit: isAdvance },
  end: { expected: 'an array of session ids', isFit: isListOfIds },
  list: {
    expected: 'an array of { sid, createdAt, usedAt, endsAt, data }, with times in whole milliseconds and data as JSON',
    isFit: (result): result is StoredSession[] => Array.isArray(result) && result.every(isStoredSession)
  },
  // The result is ignored.
  confirm: { expected: 'anything', isFit: (_result): _result is Results['confirm'] => true },
  endedSince: {
    expected:
      '{ ended, cursor }, with an array of session ids and a string, and perhaps staleFor, a number of milliseconds, and reason, a string or null',
    isFit: (result): result is Results['endedSince'] =>
      isRecord(result) &&
      isListOfIds(result.ended) &&
      isText(result.cursor) &&
      (result.staleFor === undefined || isAge(result.staleFor)) &&
      (result.reason === undefined || result.reason === null || isText(result.reason))
  }
}

/** Waits for a call, for at most five seconds. */
const waitFor = async (name: string, call: () => unknown): Promise<unknown> =>
  // The timer alone must not keep the process alive.
  await within(storeTimeoutMs, call, () => { throw new Error(`${name} did not settle within ${storeTimeoutMs / 1000} seconds.`) }, false)

/**
 * Returns an error with a message. Client libraries also reject with undefined, or with errors without a message, such as
 * the AggregateError of a host with several addresses.
 */
function withMessage (name: string, thrown: unknown): unknown {
  const [message, code] = [memberOf(thrown, 'message'), memberOf(thrown, 'code')]
  if (typeof message === 'string' && message !== '') return thrown
  const kind = thrown instanceof Error ? thrown.name : typeName(thrown)
  const what = typeof code === 'string' ? `${kind} (${code})` : kind
  return new Error(`${name} rejected with ${what}, which has no message.`, { cause: thrown })
}

function fits<Result> ({ isFit }: Expectation<Result>, result: unknown): result is Result {
  try {
    return isFit(result)
  } catch {
    // Invalid JSON, or a getter that threw.
    return false
  }
}

/**
 * Calls a method of the store.
 * @throws {SessionStoreUnavailable} if the method throws, rejects, or does not settle within five seconds. An error of the
 * store is only its cause: with an error of status 401, clients would discard valid tokens.
 * @throws {HandlerFailed} if its result has the wrong type
 */
export async function callStore<Method extends keyof SessionStore> (method: Method, call: () => unknown): Promise<Results[Method]> {
  const name = `sessions.store.${method}`
  let result: unknown
  try {
    result = await waitFor(name, call)
  } catch (error) {
    throw new SessionStoreUnavailable(undefined, { cause: withMessage(name, error) })
  }
  const expectation = expectations[method]
  if (!fits(expectation, result)) throw wrongResult(name, expectation.expected, result)
  return result
}
