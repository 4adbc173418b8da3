/** What a login says for its whole session: whether its cookies outlive the browser, and claims of every access token. */
import { HandlerFailed } from '../errors.ts'
import { readHost } from '../host/call.ts'
import { flag, matching } from '../settings/kinds.ts'
import { optional, readRecord, resultOf, wrongValue } from '../settings/records.ts'
import { isPlainObject, quote } from '../values.ts'
import type { Payload } from '../../types/handlers.ts'
import type { LoginFacts } from '../../types/sessions.ts'

/** Limits the size of refresh tokens, which must fit into a cookie. */
export const maximumClaimsBytes = 512

/** Finds, among the names of claims, one that other claims of the instance have. */
export type FindReserved = (names: readonly string[]) => string | undefined

/** What a login says, as refresh tokens contain it. */
export interface StoredFacts {
  /** Whether cookies outlive the browser. */
  readonly persistent: boolean
  /** The claims, as the text of a JSON object; empty for none. */
  readonly claims: string
}

/** Without a prototype: properties of a polluted `Object.prototype` say nothing. */
export const noFacts: LoginFacts = Object.freeze(Object.create(null))

/** The members of {@link LoginFacts}. What the claims contain is checked by {@link factsOf}. */
export const factsMembers = {
  persistent: optional(flag),
  claims: optional(matching<Record<string, unknown>>(`a plain object of at most ${maximumClaimsBytes} bytes as JSON`, isPlainObject))
}

const errorOptions = { page: 'sessions-reference.md#settings', duringRequest: true } as const
const factsShape = { members: factsMembers, example: '{ persistent, claims }', ...errorOptions } as const

/** The result of the function `sessions.login`. @throws {InvalidConfiguration} for anything but its members */
export const readFacts = (result: unknown): LoginFacts =>
  result === undefined || result === null ? noFacts : readRecord(resultOf('sessions.login'), result, factsShape)

/** Converts claims to JSON. @param source where they come from, for messages @throws {InvalidConfiguration} {HandlerFailed} */
function claimsText (claims: Readonly<Record<string, unknown>>, source: string, findReserved: FindReserved): string {
  const name = `"claims" of ${source}`
  const text = readHost(name, () => JSON.stringify(claims))
  const written = claimsFrom(text)
  if (written === undefined) throw new HandlerFailed(name, { cause: new TypeError('The JSON of an object must be that of an object.') })
  const names = Object.keys(written)
  const reserved = findReserved(names)
  if (reserved !== undefined) {
    throw wrongValue(name, 'claims of your own', `${quote(reserved)}, which the plugin or a custom claim sets`, errorOptions)
  }
  const bytes = Buffer.byteLength(text)
  if (bytes > maximumClaimsBytes) throw wrongValue(name, factsMembers.claims.allowed, `${bytes} bytes`, errorOptions)
  return names.length === 0 ? '' : text
}

/**
 * Combines what the function `sessions.login` and the options of `sessions.start` say. Each member of the options wins.
 * @throws {InvalidConfiguration} for claims that are too large, or whose names are taken
 */
export function factsOf (result: LoginFacts, options: LoginFacts, findReserved: FindReserved): StoredFacts {
  const claims = options.claims ?? result.claims
  const source = options.claims === undefined ? 'the result of "sessions.login"' : 'sessions.start()'
  return {
    persistent: options.persistent ?? result.persistent ?? true,
    claims: claims === undefined ? '' : claimsText(claims, source, findReserved)
  }
}

/** Reads the claims of a login. Returns undefined for text that is not the JSON of an object. */
export function claimsFrom (text: string): Payload | undefined {
  try {
    const claims: unknown = text === '' ? {} : JSON.parse(text)
    return isPlainObject(claims) ? claims : undefined
  } catch {
    return undefined
  }
}
