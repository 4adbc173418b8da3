/** How the store of sessions is called, and what becomes of its failures. */
import { SessionStoreUnavailable } from '../errors.ts'
import { wrongResult } from '../host/call.ts'
import type { Advance, SessionStore, StoredSession } from '../../types/sessions.ts'
import { maximumCounter } from './refresh-token.ts'

/** How long a store may take: as long as clients are told to wait before they try again. */
export const storeTimeoutMs = 5000

type Answers = { [Method in keyof SessionStore]: Awaited<ReturnType<SessionStore[Method]>> }

/** What a method must give, in words, and whether it did. */
interface Expectation<Answer> {
  readonly expected: string
  isFit (answer: unknown): answer is Answer
}

/** Beyond it, a number is no time (ECMA-262 section 21.4.1.1), and writing it would throw. */
const maximumTime = 8.64e15

const outcomes: ReadonlySet<unknown> = new Set<Advance['outcome']>(['rotated', 'recovered', 'repeated', 'reused', 'unknown'])

const isText = (value: unknown) => typeof value === 'string'
const isWhole = (value: unknown, maximum: number) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= maximum
const isTime = (value: unknown) => isWhole(value, maximumTime)
const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
const isListOfIds = (answer: unknown): answer is string[] => Array.isArray(answer) && answer.every(isText)

function isAdvance (answer: unknown): answer is Advance {
  return isRecord(answer) && outcomes.has(answer.outcome) && isWhole(answer.n, maximumCounter)
}

function isStoredSession (value: unknown): value is StoredSession {
  return isRecord(value) && isText(value.sid) && isTime(value.createdAt) && isTime(value.usedAt) && isTime(value.endsAt) && isText(value.data)
}

const expectations: { readonly [Method in keyof SessionStore]: Expectation<Answers[Method]> } = {
  create: { expected: 'a list of the ids of sessions', isFit: isListOfIds },
  advance: { expected: `an outcome of ${[...outcomes].join(', ')}, and n, a whole number`, isFit: isAdvance },
  end: { expected: 'a list of the ids of sessions', isFit: isListOfIds },
  list: {
    expected: 'a list of { sid, createdAt, usedAt, endsAt, data }, texts and times in whole milliseconds',
    isFit: (answer): answer is StoredSession[] => Array.isArray(answer) && answer.every(isStoredSession)
  },
  endedSince: {
    expected: '{ ended, cursor }, a list of the ids of sessions and a text',
    isFit: (answer): answer is Answers['endedSince'] => isRecord(answer) && isListOfIds(answer.ended) && isText(answer.cursor)
  }
}

/** Waits for a call for five seconds. Whether and how it settles later does not matter. */
async function waitFor (name: string, call: () => unknown): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`${name} gave no answer within ${storeTimeoutMs / 1000} seconds.`)), storeTimeoutMs)
    // It must not keep a process alive that has nothing else to do.
    timer.unref()
  })
  try {
    return await Promise.race([call(), timeout])
  } finally {
    clearTimeout(timer)
  }
}

function fits<Answer> ({ isFit }: Expectation<Answer>, answer: unknown): answer is Answer {
  try {
    return isFit(answer)
  } catch {
    // A getter of the answer threw.
    return false
  }
}

/**
 * Calls a method of the store.
 * @throws {SessionStoreUnavailable} where it throws, rejects or gives no answer for five seconds. What it throws does not
 * matter: an error with a 401 of its own would tell a client to throw away tokens that are good.
 * @throws {HandlerFailed} where its answer is of the wrong type
 */
export async function callStore<Method extends keyof SessionStore> (method: Method, call: () => unknown): Promise<Answers[Method]> {
  const name = `sessions.store.${method}`
  let answer: unknown
  try {
    answer = await waitFor(name, call)
  } catch (cause) {
    throw new SessionStoreUnavailable(undefined, { cause })
  }
  const expectation = expectations[method]
  if (!fits(expectation, answer)) throw wrongResult(name, expectation.expected, answer)
  return answer
}
