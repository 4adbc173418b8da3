/** `fastify-token-auth inspect`: prints the content of a token. */
import { done, failed, type Outcome } from './outcome.ts'

type Json = Readonly<Record<string, unknown>>

function parse (segment: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(segment, 'base64url').toString())
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined
  } catch {
    return undefined
  }
}

/** Characters that terminals may take for commands, or that hide text or change its direction. JSON escapes line breaks of values. */
const unprintable = /(?!\n)[\p{Cc}\p{Cf}\u2028\u2029]/gu
const escaped = (character: string) => character.split('').map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
const print = (value: Json) => JSON.stringify(value, null, 2).replace(unprintable, escaped)

/** Beyond this depth, the indentation alone takes megabytes, and JSON.stringify() exhausts the stack. */
const maxLevels = 100
const isDeep = (value: unknown, levels = maxLevels): boolean =>
  typeof value === 'object' && value !== null && (levels === 0 || Object.values(value).some((inner) => isDeep(inner, levels - 1)))

const units = [['year', 31_557_600], ['day', 86_400], ['hour', 3600], ['minute', 60], ['second', 1]] as const
const words = new Intl.RelativeTimeFormat('en')

/** @param time seconds since 1970 @param now the same */
function timeInWords (time: unknown, now: number): string {
  const date = new Date(typeof time === 'number' ? time * 1000 : NaN)
  if (typeof time !== 'number' || Number.isNaN(date.getTime())) return 'no time: it must be a number of seconds since 1970'
  const rest = time - now
  const [unit, seconds] = units.find(([, size]) => Math.abs(rest) >= size) ?? []
  return `${date.toISOString().replace(/\.000Z$/, 'Z')}, ${unit === undefined ? 'now' : words.format(Math.trunc(rest / seconds), unit)}`
}

/** The claims that are times, in the order of a token's life. */
const timeClaims = ['auth_time', 'iat', 'nbf', 'exp']

/** @param text a token, which may have its scheme before it */
export function inspect (text: string): Outcome {
  const segments = text
    .trim()
    .replace(/^Bearer +/i, '')
    .split('.')
  const [header, payload] = segments.map(parse)
  if (segments.length !== 3) {
    return failed(`This is no signed JSON Web Token: it has ${segments.length} instead of 3 parts with dots between them.`)
  }
  if (header === undefined || payload === undefined) {
    return failed(`This is no JSON Web Token: its ${header === undefined ? 'header' : 'payload'} is no JSON object in base64url.`)
  }
  if (isDeep(header) || isDeep(payload)) {
    return failed(`This token cannot be printed: its ${isDeep(header) ? 'header' : 'payload'} has more than ${maxLevels} levels.`)
  }
  const now = Date.now() / 1000
  const times = timeClaims
    .filter((claim) => Object.hasOwn(payload, claim))
    .map((claim) => `${claim.padEnd(9)}  ${timeInWords(payload[claim], now)}\n`)
  return done(
    [
      `Header\n${print(header)}\n`,
      `Payload\n${print(payload)}\n`,
      ...(times.length === 0 ? [] : [`Times\n${times.join('')}`]),
      'The signature was not verified.\n'
    ].join('\n')
  )
}
