/**
 * Reads objects of options: `issuers`, `keys`, `sessions`, the options of guards, stores and functions. A table defines the
 * members. Messages and tables of the documents are generated from it; the documents take the description of a member from
 * the comment of its type. The callers check rules that concern several members.
 */
import { InvalidConfiguration, type Page } from '../configuration-errors.ts'
import { describeOther, isPlainObject, quote } from '../values.ts'
import { Wrong, type Kind } from './kinds.ts'
import { suggest } from './suggest.ts'

/** Additions to the message about a value that is not allowed. */
export interface Notes {
  /** What to do, as a sentence. */
  readonly advice?: string
  /** The code of the finding, such as `E17`. */
  readonly finding?: string
}

/** One member of an object of options. */
export interface Member<Result> extends Notes {
  readonly allowed: string
  readonly isRequired: boolean
  /** The value of an absent member, if it has a default. */
  readonly byDefault?: unknown
  readonly read: (value: unknown) => Result | Wrong
}

export const required = <Value>({ allowed, read }: Kind<Value>, notes: Notes = {}): Member<Value> => ({
  ...notes,
  allowed,
  isRequired: true,
  read
})

export const optional = <Value>({ allowed, read }: Kind<Value>, notes: Notes = {}): Member<Value | undefined> =>
  ({ ...notes, allowed, isRequired: false, read: (value) => value === undefined ? undefined : read(value) })

export const preset = <Value>({ allowed, read }: Kind<Value>, byDefault: Value, notes: Notes = {}): Member<Value> =>
  ({ ...notes, allowed, isRequired: false, byDefault, read: (value) => value === undefined ? byDefault : read(value) })

export type Members = Readonly<Record<string, Member<unknown>>>

/** The result of reading: a value for each member. */
export type Values<Table extends Members> = { readonly [Name in keyof Table]: Table[Name] extends Member<infer Result> ? Result : never }

interface Errors {
  readonly page: Page
  /** Whether the object may be read during a request. In production, clients then receive a neutral message. */
  readonly duringRequest?: boolean
}

/** An object of options. */
export interface Shape<Table extends Members, Other extends string = never> extends Errors {
  readonly members: Table
  /** Such as `{ key, signFrom }`. */
  readonly example: string
  /** Returns what to do instead of an unknown member, or nothing: then, similar names are suggested. */
  readonly instead?: (name: string) => string | undefined
  /** Returns a further sentence for a value that is not a plain object. */
  readonly hint?: (value: unknown) => string
  /** Further members, whose values the caller checks, and their name in messages. */
  readonly others?: { readonly names: readonly Other[], readonly called: string }
}

/** How messages name an object of options and its members. */
interface Place {
  readonly whole: string
  readonly owner: string
  readonly noun: 'member' | 'option'
  readonly nameOf: (member: string) => string
}

/** An object that is an option, or part of one: `keys[0]`. */
export const entryAt = (path: string): Place => ({
  whole: `"${path}"`,
  owner: `"${path}"`,
  noun: 'member',
  nameOf: (member) => `"${path}.${member}"`
})

/** The options of a function: `scoped()`. */
export const optionsOf = (call: string): Place => ({
  whole: `The options of ${call}`,
  owner: call,
  noun: 'option',
  nameOf: (member) => `"${member}" of ${call}`
})

/** What a function of the application returned: `sessions.login`. */
export const resultOf = (name: string): Place => ({
  whole: `The result of "${name}"`,
  owner: `The result of "${name}"`,
  noun: 'member',
  nameOf: (member) => `"${member}" of the result of "${name}"`
})

/** The error of a value that is not allowed. @param name the beginning of the message @param found the description of the value */
export function wrongValue (
  name: string,
  allowed: string,
  found: string,
  { page, duringRequest, finding, advice }: Errors & Notes
): InvalidConfiguration {
  const message = `${name} must be ${allowed}; given: ${found}.${advice === undefined ? '' : ` ${advice}`}`
  return new InvalidConfiguration(message, { page, duringRequest, ...(finding !== undefined && { finding }) })
}

/** Reads one value. @throws {InvalidConfiguration} */
export function readValue<Result> (name: string, value: unknown, member: Member<Result>, { page, duringRequest = false }: Errors): Result {
  const result = member.read(value)
  if (!(result instanceof Wrong)) return result
  const { allowed, advice, finding } = member
  throw wrongValue(name, allowed, result.description, {
    page,
    duringRequest,
    ...(advice !== undefined && { advice }),
    ...(finding !== undefined && { finding })
  })
}

function refuseUnknown (unknown: string, { owner, noun }: Place, shape: Shape<Members, string>): never {
  const { members, instead, others, page, duringRequest } = shape
  const names = Object.keys(members)
  const known = [...(others === undefined ? [] : [others.called]), ...names].join(', ')
  const which = names.length === 1 && others === undefined ? `Its only ${noun} is "${known}"` : `Its ${noun}s are ${known}`
  throw new InvalidConfiguration(
    `${owner} has no ${noun} ${quote(unknown)}.${instead?.(unknown) ?? suggest(unknown, [...names, ...(others?.names ?? [])])} ${which}.`,
    { page, duringRequest }
  )
}

/**
 * Reads an object of options, and the further members that its shape permits. Reads only own enumerable properties with
 * string keys, each once, because a getter may return another value later. The results have no prototype, so that members of
 * a polluted `Object.prototype` are not options. A member that is `undefined` is absent.
 * @throws {InvalidConfiguration} for anything but a plain object, an unknown member, and a value that is not allowed
 */
export function readWithOthers<Table extends Members, Other extends string> (
  place: Place,
  value: unknown,
  shape: Shape<Table, Other>
): { own: Values<Table>; others: { readonly [Name in Other]?: unknown } } {
  const { members, example, page, duringRequest, hint } = shape
  const otherNames: readonly string[] = shape.others?.names ?? []
  if (!isPlainObject(value)) {
    throw new InvalidConfiguration(
      `${place.whole} must be a plain object, such as ${example}; given: ${describeOther(value)}.${hint?.(value) ?? ''}`,
      { page, duringRequest }
    )
  }
  const names = Object.keys(value)
  const unknown = names.find((name) => !Object.hasOwn(members, name) && !otherNames.includes(name))
  if (unknown !== undefined) refuseUnknown(unknown, place, shape)
  const given: Record<string, unknown> = Object.create(null)
  const others: Record<string, unknown> = Object.create(null)
  for (const name of names) {
    const one = value[name]
    if (Object.hasOwn(members, name)) given[name] = one
    else if (one !== undefined) others[name] = one
  }
  const own: Record<string, unknown> = Object.create(null)
  for (const [name, member] of Object.entries(members)) own[name] = readValue(place.nameOf(name), given[name], member, shape)
  // The type is derived from the functions that read the members, and unknown names were refused.
  return { own: Object.freeze(own) as Values<Table>, others: Object.freeze(others) as { readonly [Name in Other]?: unknown } }
}

/** Reads an object of options. @throws {InvalidConfiguration} as {@link readWithOthers} */
export function readRecord<Table extends Members> (place: Place, value: unknown, shape: Shape<Table>): Values<Table> {
  return readWithOthers(place, value, shape).own
}
