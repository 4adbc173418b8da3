/**
 * Reads one value from a Cookie header or a query string, with one regular expression for each name. Anyone can send these
 * texts, so each expression takes linear time, and only the value that was asked for is decoded. URLSearchParams decodes all
 * names and values, and throws and catches an exception for each malformed one: 20 ms for 15 KB of `%ff&`.
 */
import { BoundedMap } from '../bounded-map.ts'

/** Escapes a character for a regular expression. */
const literal = (character: string) => `\\u{${character.codePointAt(0)!.toString(16)}}`

/** A percent-encoded byte, with hexadecimal digits in either case. */
const encodedByte = (byte: number) =>
  `%${byte
    .toString(16)
    .padStart(2, '0')
    .replace(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`)}`

function encodedOrLiteral (character: string): string {
  const encoded = Array.from(Buffer.from(character), encodedByte).join('')
  return `(?:${literal(character)}|${encoded}${character === ' ' ? '|\\+' : ''})`
}

/** Returns the source of a pattern that matches every spelling of a name in a query string. It needs the flag `u`. */
export const parameterName = (name: string): string => Array.from(name, encodedOrLiteral).join('')

/** The number of patterns that are kept, at least. The number is limited because a getter may return a new name for each request. */
const keptPatterns = 100

/** Compiles the pattern of a name at its first use. @param source returns a pattern that ends where the value begins */
function patternsOf (source: (name: string) => string): (name: string) => RegExp {
  const patterns = new BoundedMap<string, RegExp>(keptPatterns)
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

/** Returns the value after the only match; undefined without a match, null with several. */
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
 * RFC 6265 section 5.2 removes spaces and tabs only; `trim()` would also remove a no-break space. A regular expression that
 * looks for spaces before the end would take quadratic time.
 */
function withoutSpacesAtEnd (value: string): string {
  let end = value.length
  while (value[end - 1] === ' ' || value[end - 1] === '\t') end--
  return value.slice(0, end)
}

/**
 * Returns the value of a cookie as in the Cookie header (RFC 6265 section 4.2.1), without spaces and tabs around it.
 * @returns undefined if the cookie is missing, null if it was sent more than once; most parsers silently keep one
 */
export function readCookie (header: string, name: string): string | undefined | null {
  const value = findOnly(patternOfCookie(name), header, ';')
  return typeof value === 'string' ? withoutSpacesAtEnd(value) : value
}

/** Returns all values of a cookie, also if it was sent more than once, in the order of the header. */
export function readCookies (header: string, name: string): string[] {
  const pattern = patternOfCookie(name)
  pattern.lastIndex = 0
  return Array.from(header.matchAll(pattern), ({ 0: { length }, index }) => {
    const end = header.indexOf(';', index + length)
    return withoutSpacesAtEnd(header.slice(index + length, end === -1 ? header.length : end))
  })
}

const percent = 0x25
const plus = 0x2b
const space = 0x20

/** Returns the value of a hexadecimal digit; -1 for any other character and after the end. */
function digitOf (code: number | undefined = 0): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const lowerCase = code | 0x20
  return lowerCase >= 0x61 && lowerCase <= 0x66 ? lowerCase - 0x57 : -1
}

/**
 * Decodes a value as the URL Standard parses application/x-www-form-urlencoded: `+` becomes a space, a malformed escape
 * stays as it is, invalid UTF-8 becomes U+FFFD. URLSearchParams does the same, but takes ten times as long for many `+`.
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
 * Returns the decoded value of a query parameter.
 * @returns undefined if the parameter is missing, null if it was sent more than once
 */
export function readParameter (url: string, name: string): string | undefined | null {
  const start = url.indexOf('?')
  if (start === -1) return undefined
  const value = findOnly(patternOfParameter(name), url.slice(start + 1), '&')
  return typeof value === 'string' ? decode(value) : value
}
