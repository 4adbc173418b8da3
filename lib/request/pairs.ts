/**
 * Reads one value from a Cookie header or a query string, with one regular expression for each name. Anyone can send these
 * texts, so each expression takes linear time, and only the value that was asked for is decoded. URLSearchParams decodes all
 * names and values, and throws and catches an exception for each malformed one: 20 ms for 15 KB of `%ff&`.
 */
import { Generations } from '../generations.ts'

/** No character of a name is a part of the syntax. */
const literal = (character: string) => `\\u{${character.codePointAt(0)!.toString(16)}}`

/** A percent-encoded byte, with hexadecimal digits in either case. */
const encodedByte = (byte: number) => `%${byte.toString(16).padStart(2, '0').replace(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`)}`

function encodedOrLiteral (character: string): string {
  const encoded = Array.from(Buffer.from(character), encodedByte).join('')
  return `(?:${literal(character)}|${encoded}${character === ' ' ? '|\\+' : ''})`
}

/** The source of a pattern, to be compiled with the flag `u`, of every spelling of a name in a query string. */
export const parameterName = (name: string): string => Array.from(name, encodedOrLiteral).join('')

/** How many patterns are kept, at least. A getter may compute another name for every request. */
const keptPatterns = 100

/** Compiles the pattern of a name when it is first asked for. @param source of a pattern that ends where the value begins */
function patternsOf (source: (name: string) => string): (name: string) => RegExp {
  const patterns = new Generations<string, RegExp>(keptPatterns)
  return (name) => {
    let pattern = patterns.get(name)
    if (pattern === undefined) {
      pattern = new RegExp(source(name), 'gu')
      patterns.set(name, pattern)
    }
    return pattern
  }
}

const patternOfCookie = patternsOf((name) => `(?:^|;)[ \\t]*${Array.from(name, literal).join('')}[ \\t]*=[ \\t]*`)
const patternOfParameter = patternsOf((name) => `(?:^|&)${parameterName(name)}(?:=|(?![^&]))`)

/** The value behind the only match. @returns undefined where there is no match, null where there are several */
function findOnly (pattern: RegExp, text: string, separator: string): string | undefined | null {
  pattern.lastIndex = 0
  if (!pattern.test(text)) return undefined
  const start = pattern.lastIndex
  let end = text.indexOf(separator, start)
  if (end === -1) end = text.length
  pattern.lastIndex = end
  return pattern.test(text) ? null : text.slice(start, end)
}

/**
 * The value of a cookie, as it stands in a Cookie header (RFC 6265 section 4.2.1) but for blanks around it.
 * @returns undefined where the cookie is missing, null where it was sent more than once; most parsers silently keep one
 */
export function readCookie (header: string, name: string): string | undefined | null {
  const value = findOnly(patternOfCookie(name), header, ';')
  if (typeof value !== 'string') return value
  // RFC 6265 section 5.2 removes spaces and tabs only; `trim()` would also remove a no-break space. Not by a regular
  // expression: one that looks for blanks before an end takes quadratic time.
  let end = value.length
  while (value[end - 1] === ' ' || value[end - 1] === '\t') end--
  return value.slice(0, end)
}

const percent = 0x25
const plus = 0x2b
const space = 0x20

/** The value of a hexadecimal digit, -1 for any other character and behind the end. */
function digitOf (code: number | undefined = 0): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const lowerCase = code | 0x20
  return lowerCase >= 0x61 && lowerCase <= 0x66 ? lowerCase - 0x57 : -1
}

/**
 * Decodes a value as the URL Standard parses application/x-www-form-urlencoded: `+` is a space, a malformed escape stands
 * for itself, invalid UTF-8 becomes U+FFFD. URLSearchParams does the same, but takes ten times as long for many `+`.
 */
function decode (value: string): string {
  if (!value.includes('%') && !value.includes('+')) return value
  const bytes = Buffer.from(value)
  // Decoded in place: the result is never longer than the input.
  let length = 0
  for (let index = 0; index < bytes.length; index++) {
    let byte = bytes[index]!
    if (byte === plus) byte = space
    if (byte === percent) {
      const high = digitOf(bytes[index + 1])
      const low = digitOf(bytes[index + 2])
      if (high !== -1 && low !== -1) {
        byte = high * 16 + low
        index += 2
      }
    }
    bytes[length++] = byte
  }
  return bytes.toString('utf8', 0, length)
}

/**
 * The decoded value of a query parameter.
 * @returns undefined where the parameter is missing, null where it was sent more than once
 */
export function readParameter (url: string, name: string): string | undefined | null {
  const start = url.indexOf('?')
  if (start === -1) return undefined
  const value = findOnly(patternOfParameter(name), url.slice(start + 1), '&')
  return typeof value === 'string' ? decode(value) : value
}
