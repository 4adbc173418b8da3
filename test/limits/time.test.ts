/** What is read of requests, tokens and secrets takes time in proportion to its length. */
import t from 'tap'
import { asymmetricForm } from '../../lib/keys/disguised-keys.ts'
import { extractToken } from '../../lib/request/extract.ts'
import { areScopesEnough, parseRequirements } from '../../lib/token/scopes.ts'
import { rowOf } from '../../lib/testing/attack/report.ts'
import { build, claims, forge, warnings } from '../helper.ts'
import { notLinear } from './measure.ts'

// Promise: security/header-values-200
t.test('headers, cookies and query strings are searched in linear time', async (t) => {
  warnings(t, 'W05')
  const { tokenAuth: { settings } } = await build(t, { cookieSet: true, cookieStrict: false, queryStringSet: true, queryStringStrict: false })
  const works: Record<string, (size: number) => () => unknown> = {}
  for (const filling of [' ', ',', '.', ';', '=', '&', '%', '"', '\t', ' ;', 'a;', '; =', '%41', 'access_token;', 'Bearer ']) {
    const carriers: Record<string, (long: string) => { url?: string, authorization?: string, cookie?: string }> = {
      'the header': (authorization) => ({ authorization }),
      'the header after its scheme': (long) => ({ authorization: `Bearer ${long}x` }),
      'the Cookie header': (cookie) => ({ cookie }),
      'the cookie of the token': (long) => ({ cookie: `access_token=${long}` }),
      'the Cookie header before the token': (long) => ({ cookie: `${long}access_token=x` }),
      'the query string': (long) => ({ url: `/?${encodeURI(long)}&access_token=x` })
    }
    for (const [name, carrierOf] of Object.entries(carriers)) {
      works[`${name}, ${JSON.stringify(filling)}`] = (size) => {
        const { url = '/', ...headers } = carrierOf(filling.repeat(size / filling.length))
        const carrier = { url, headers, rawHeaders: Object.entries(headers).flat() }
        return () => extractToken(carrier, settings)
      }
    }
  }
  t.same(await notLinear(works, 4000), [])
})

t.test('scopes are read and compared in linear time', async (t) => {
  const required = parseRequirements('N:b')!
  const rules = { requireAll: true, requireAllActions: true }
  t.same(await notLinear({
    'a list of scopes': (size) => {
      const claim = Array.from({ length: size }, () => 'N:a')
      return () => areScopesEnough(required, claim, rules)
    },
    'a text of spaces': (size) => {
      const claim = ' '.repeat(100 * size)
      return () => areScopesEnough(required, claim, rules)
    },
    'a scope of many actions': (size) => {
      const granted = ['N', ...Array.from({ length: size }, (_, index) => `a${index}`)].join(':')
      return () => areScopesEnough(required, [granted], rules)
    }
  }, 500), [])
})

t.test('a challenge in the report of an attack is searched for tokens in linear time', async (t) => {
  const token = forge(claims())
  t.same(await notLinear(Object.fromEntries(['a', 'a.', '-', 'eyJ', 'eyJ.', '.', `${'a'.repeat(15)}.`].map((filling) => [filling, (size: number) => {
    const text = filling.repeat(size / filling.length)
    return () => rowOf({ name: 'x', wrong: '' }, { statusCode: 401, headers: { 'www-authenticate': text } }, token, new Set())
  }])), 40_000), [])
})

// Promise: security/public-key-secret
t.test('a secret is searched for keys in all encodings in linear time', async (t) => {
  // The end fails what the beginning might match.
  t.same(await notLinear(Object.fromEntries([' ', '"', '\\', '%', '0', 'x', ':', '=', '-----BEGI', 'KEY----', 'gkqhkig9w0ba', '"kty, "\'kty\\', '\0', '\\x3', '\\\\n', '+'].map((unit) => [JSON.stringify(unit), (size: number) => {
    const secret = Buffer.from(`${unit.repeat(size)}!`)
    return () => asymmetricForm(secret)
  }])), 4000), [])
})
