/** What the stores in databases check: their options, and the results of a database. */
import { InvalidConfiguration } from '../../configuration-errors.ts'
import { describeOther, isPlainObject } from '../../values.ts'

/** Errors of options refer to this page of the documents. */
export const place = { page: 'stores.md' } as const

/**
 * Returns the only option of a store, or its default.
 * @throws {@link InvalidConfiguration} for other options
 */
export function readOption (call: string, options: unknown, name: string, byDefault: string): unknown {
  if (!isPlainObject(options)) throw new InvalidConfiguration(`The second parameter of ${call} must be a plain object, such as { ${name} }; given: ${describeOther(options)}.`, place)
  const other = Object.keys(options).find((key) => key !== name)
  if (other !== undefined) throw new InvalidConfiguration(`${call} has no option "${other}". Its only option is "${name}".`, place)
  const value = Object.hasOwn(options, name) ? options[name] : undefined
  return value === undefined ? byDefault : value
}

/** Returns a list as texts. Anything else is an error: an empty list would say that no session has ended. */
export function textsOf (list: unknown): string[] {
  if (!Array.isArray(list)) throw new TypeError('The database returned something other than a list.')
  return list.map(String)
}
