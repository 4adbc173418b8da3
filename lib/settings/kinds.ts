/** Kinds of option values: the description of the allowed values, and the function that reads a value. */
import { describeGiven, isFunction, isText, isWhole, maximumSeconds, memberOf, quote } from '../values.ts'

/** The description of a value that is not allowed. It discloses no secret. */
export class Wrong {
  readonly description: string
  constructor (description: string) {
    this.description = description
  }
}

/** A kind of values. */
export interface Kind<Value> {
  /** Completes the sentence "It must be ...", in messages and in the tables of the documents. */
  readonly allowed: string
  /** Returns the value, or its description if it is not allowed. Lists are copied before the check, because they may change. */
  readonly read: (value: unknown) => Value | Wrong
}

/** Returns a kind with another description of the allowed values. */
export const named = <Value>(allowed: string, { read }: Kind<Value>): Kind<Value> => ({ allowed, read })

/** Values of which only the form is checked here. Their content or result is checked when it is used; `Value` is asserted. */
export const matching = <Value>(allowed: string, isFit: (value: unknown) => boolean = () => true): Kind<Value> => ({
  allowed,
  read: (value) => isFit(value) ? value as Value : new Wrong(describeGiven(value))
})

export const func = <Value>(allowed: string): Kind<Value> => matching(allowed, isFunction)

export const flag: Kind<boolean> = matching('true or false', (value) => typeof value === 'boolean')

export const text: Kind<string> = matching('a non-empty string', (value) => isText(value) && value.trim() !== '')

const unquoted = (value: string): string => value.trim() === '' ? describeGiven(value) : 'a string of another form'

/** Strings of a certain form. @param describe describes a string of another form; quote it only if it cannot be a secret */
export const textLike = (
  allowed: string,
  isFit: (value: string) => boolean,
  describe: (value: string) => string = unquoted
): Kind<string> => ({
  allowed,
  read: (value) => (isText(value) ? (isFit(value) ? value : new Wrong(describe(value))) : new Wrong(describeGiven(value)))
})

export const whole = (minimum: number, maximum: number, unit = 'a whole number'): Kind<number> =>
  matching(`${unit} from ${minimum} to ${maximum}`, (value) => isWhole(value, minimum, maximum))

export const seconds = (minimum: number, maximum: number = maximumSeconds): Kind<number> =>
  whole(minimum, maximum, 'a whole number of seconds')

/** `a, b or c` */
export const alternatives = (words: readonly string[]): string =>
  words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`

export const oneOf = <Value extends string>(values: readonly Value[]): Kind<Value> => ({
  allowed: alternatives(values.map((value) => JSON.stringify(value))),
  read: (value) => values.find((one) => one === value) ?? new Wrong(isText(value) ? quote(value) : describeGiven(value))
})

/** Values of either kind. The second kind describes a value that is not allowed. */
export const either = <First, Second>(first: Kind<First>, second: Kind<Second>): Kind<First | Second> => ({
  allowed: `${first.allowed}, or ${second.allowed}`,
  read: (value) => {
    const result = first.read(value)
    return result instanceof Wrong ? second.read(value) : result
  }
})

export const orNull = <Value>(kind: Kind<Value>): Kind<Value | null> => ({
  allowed: `${kind.allowed}, or null`,
  read: (value) => value === null ? null : kind.read(value)
})

interface Length {
  readonly least?: number
  readonly most?: number
}

export const listOf = <Value>(
  allowed: string,
  kind: Kind<Value>,
  { least = 1, most = Infinity }: Length = {}
): Kind<readonly Value[]> => ({
    allowed,
    read: (value) => {
      if (!Array.isArray(value)) return new Wrong(describeGiven(value))
      const entries: unknown[] = Array.from(value)
      if (entries.length < least || entries.length > most) {
        return new Wrong(entries.length === 0 ? 'an empty list' : `a list of ${entries.length}`)
      }
      const results: Value[] = []
      for (const [index, entry] of entries.entries()) {
        const result = kind.read(entry)
        if (result instanceof Wrong) return new Wrong(`a list whose entry ${index} is ${result.description}`)
        results.push(result)
      }
      return results
    }
  })

/** One value, or a non-empty list of values. The result is always a list. */
export const oneOrMore = <Value>(allowed: string, kind: Kind<Value>): Kind<readonly Value[]> => ({
  allowed,
  read: (value) => {
    if (Array.isArray(value)) return listOf(allowed, kind).read(value)
    const result = kind.read(value)
    return result instanceof Wrong ? result : [result]
  }
})

/** Objects of any class with the listed methods. */
export const objectWith = <Value>(methods: readonly [string, ...string[]]): Kind<Value> => ({
  allowed:
    methods.length === 1
      ? `an object with the method ${methods[0]}`
      : `an object with the methods ${methods.slice(0, -1).join(', ')} and ${methods.at(-1)}`,
  read: (value) => {
    if (typeof value !== 'object' || value === null) return new Wrong(describeGiven(value))
    const missing = methods.find((method) => !isFunction(memberOf(value, method)))
    return missing === undefined ? (value as Value) : new Wrong(`an object without the method "${missing}"`)
  }
})

/** The latest time that a refresh token can contain. A time in milliseconds is later, so it is refused. */
const latestAuthTime = 2 ** 40 - 1

/** The time of a login, in seconds since 1970. */
export const authTime = named('a whole number of seconds since 1970, such as Math.floor(Date.now() / 1000)', whole(1, latestAuthTime))
