/**
 * When keys begin and cease to sign. The result depends only on the dates of the list, so all processes with the same list
 * switch keys at the same time without communication. All times are milliseconds since 1970.
 */

/** The dates of one key. */
export interface Period {
  /** Whether the key can sign: a secret or a private key. */
  readonly canSign: boolean
  /** When it begins to sign; -Infinity without `signFrom`. */
  readonly signFrom: number
}

/**
 * Finds the key that signs at a time: the one with the latest `signFrom` until then; of several, the first in the list.
 * @returns undefined if no key signs at this time
 */
export function signingAt<Key extends Period> (keys: readonly Key[], at: number): Key | undefined {
  let signing: Key | undefined
  for (const key of keys) {
    if (key.canSign && key.signFrom <= at && (signing === undefined || key.signFrom > signing.signFrom)) signing = key
  }
  return signing
}

/** Returns when a key ceases to sign. Infinity: never; -Infinity: it never signs, because it cannot, or another key signs instead. */
export function endOfSigning (key: Period, keys: readonly Period[]): number {
  if (signingAt(keys, key.signFrom) !== key) return -Infinity
  return Math.min(Infinity, ...keys.filter(({ canSign, signFrom }) => canSign && signFrom > key.signFrom).map(({ signFrom }) => signFrom))
}

/** Returns the next time after `at` at which another key begins to sign; Infinity if none does. */
export function nextSwitch (keys: readonly Period[], at: number): number {
  return Math.min(Infinity, ...keys.filter(({ canSign, signFrom }) => canSign && signFrom > at).map(({ signFrom }) => signFrom))
}

/** ISO 8601 with a time zone: without one, processes in different zones would switch keys at different times. */
const form = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/
/** The end of the year 9999: later dates have another form, and sums with them may not be valid dates. */
const latest = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

/** Reads a date. Returns undefined for anything but a date between 1970 and 9999, as a `Date` or as ISO 8601 text with a time zone. */
export function readDate (value: unknown): number | undefined {
  let time = NaN
  if (value instanceof Date) {
    time = value.getTime()
  } else if (typeof value === 'string') {
    const [, year, month, day] = form.exec(value) ?? []
    // JavaScript takes the 30th of February for the 2nd of March.
    const isDay = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day))).getUTCDate() === Number(day)
    if (isDay) time = Date.parse(value)
  }
  return time >= 0 && time <= latest ? time : undefined
}
