import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { readCookie, readParameter } from '../../lib/request/pairs.ts'
import { caseOf } from '../helper.ts'

const name = 'access_token'

/** A name with some of its characters percent-encoded, in either case of the digits. */
const spelling = (text: string) => fc.tuple(...Array.from(text, (character) => {
  const digits = character.charCodeAt(0).toString(16)
  return fc.constantFrom(character, character, character, `%${digits}`, `%${digits.toUpperCase()}`)
})).map((parts) => parts.join(''))

const noise = fc.array(fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('&', '=', '&&', '?', ';', '#', '+', '%', '%25', '%26', '%3d', '%zz', '%f', 'x', name, name.slice(1), `${name}s`, `${name}=`, `${name}%`) },
  { weight: 2, arbitrary: fc.constantFrom('%ff', '%c3%a9', '%c3', '%EF%BB%BF', '%00', '%ed%a0%80', '\u00e9', '\ud83d\ude00') },
  { weight: 1, arbitrary: fc.string() }
), { maxLength: 4 }).map((parts) => parts.join(''))
const parameter = fc.tuple(fc.oneof(spelling(name), noise), fc.constantFrom('=', '=', ''), noise).map((parts) => parts.join(''))
const queries = fc.array(parameter, { maxLength: 4, size: 'max' }).map((parameters) => parameters.join('&'))

/** What is found, where parsers give a list. */
const only = (values: readonly string[]) => values.length > 1 ? null : values[0]

// Promise: security/request-made-cost
t.test('a query parameter is what URLSearchParams finds, however it is spelled, unless it is there twice', async (t) => {
  const found = { missing: 0, single: 0, repeated: 0 }
  fc.assert(fc.property(queries, (query) => {
    // With its question mark: URLSearchParams removes one.
    const expected = only(new URLSearchParams(`?${query}`).getAll(name))
    found[expected === undefined ? 'missing' : expected === null ? 'repeated' : 'single']++
    const value = readParameter(`/path?${query}`, name)
    // A request target is ASCII (RFC 3986 section 2). URLSearchParams of Node.js garbles other characters beside a malformed escape.
    return /^[\0-\x7f]*$/.test(query) || typeof expected !== 'string' ? value === expected : typeof value === 'string'
  }), { numRuns: 20_000 })
  for (const [kind, count] of Object.entries(found)) assert.ok(count > 500, `${kind}: ${count}`)
  t.equal(readParameter('/path', name), undefined)
})

t.test('the value of a query parameter is decoded as URLSearchParams does', async () => {
  const rows: [string, string][] = [
    ['', ''], ['a.b-c_d~', 'a.b-c_d~'], ['a+b', 'a b'], ['a%2Bb', 'a+b'], ['%61', 'a'], ['%C3%A9', '\u00e9'], ['a=b', 'a=b'], ['a?b;c#d', 'a?b;c#d'],
    ['%', '%'], ['%6', '%6'], ['%zz', '%zz'], ['%61%zz', 'a%zz'], ['%ff', '\ufffd'], ['a%ffb', 'a\ufffdb'], ['%26', '&'], ['\u00e9%61', '\u00e9a']
  ]
  for (const [value, expected] of rows) {
    assert.equal(readParameter(`/?x=1&${name}=${value}&y=2`, name), expected, value)
    assert.equal(new URLSearchParams(`${name}=${value}`).get(name), expected, `${value}, by URLSearchParams`)
  }
})

t.test('a question mark belongs to a name where it is not the first of the URL', async (t) => {
  t.equal(readParameter(`/??${name}=a`, name), undefined)
  t.equal(new URL(`http://host/??${name}=a`).searchParams.get(name), null)
})

// Promise: security/cookie-whose-name
t.test('a cookie is found among others, without the spaces and tabs around it, unless it is there twice', async () => {
  const blank = fc.constantFrom('', '', ' ', '\t', ' \t ', '\u00a0', '\ufeff', '\u2028', '\v', '\f', '\n', '\r')
  const part = fc.oneof(fc.constantFrom(';', '=', '; ', 'x', '"', '%3d', ',', name, `${name}s`, `${name}=`), blank, fc.string())
  const own = fc.tuple(blank, fc.constant(name), blank, fc.constant('='), blank, part, blank)
  const pair = fc.oneof({ weight: 3, arbitrary: own }, { weight: 1, arbitrary: fc.array(part, { maxLength: 4 }) }).map((parts) => parts.join(''))
  const trimmed = (value: string) => /^[ \t]*(.*?)[ \t]*$/s.exec(value)?.[1]
  const found = { missing: 0, single: 0, repeated: 0 }
  fc.assert(fc.property(fc.array(pair, { maxLength: 4, size: 'max' }).map((pairs) => pairs.join(';')), (header) => {
    const values = header.split(';').flatMap((pair) => {
      const [before = '', ...after] = pair.split('=')
      return after.length > 0 && trimmed(before) === name ? [String(trimmed(after.join('=')))] : []
    })
    const expected = only(values)
    found[expected === undefined ? 'missing' : expected === null ? 'repeated' : 'single']++
    return readCookie(header, name) === expected
  }), { numRuns: 20_000 })
  for (const [kind, count] of Object.entries(found)) assert.ok(count > 500, `${kind}: ${count}`)
})

t.test('every character that the name of a cookie or parameter may have stands for itself', async () => {
  const cookieNames = ['$', '^', '.', '*', '+', '|', '!#%&\'-`~', '__Host-a.b', '^$.*+|']
  for (const own of cookieNames) {
    assert.equal(readCookie(`x=1; ${own}=a; y=2`, own), 'a', own)
    assert.equal(readCookie('x=1; xx=a; a=2', own), undefined, own)
  }
  for (const own of ['.', 'a.b', '-', '~a', '0']) {
    assert.equal(readParameter(`/?x=1&${own}=a`, own), 'a', own)
    assert.equal(readParameter('/?x=1&axb=a&b=', own), undefined, own)
  }
})

t.test('names that change with every request are all found, and not all of their patterns kept', async () => {
  for (let round = 0; round < 2; round++) {
    for (let index = 0; index < 500; index++) {
      assert.equal(readCookie(`a${index}=${index}; a=1`, `a${index}`), `${index}`, caseOf(round, index))
      assert.equal(readParameter(`/?a${index}=${index}&a=1`, `a${index}`), `${index}`, caseOf(round, index))
    }
  }
})
