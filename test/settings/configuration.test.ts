// @slow
/** Every setting: its default, what it accepts, what it refuses and how it says so. Written from the documents, not from the schema. */
import assert from 'node:assert/strict'
import { createSecretKey } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import t, { type Test } from 'tap'
import tokenAuth, { Configuration, InvalidConfiguration } from '../../lib/index.ts'
import { handlerNames } from '../../lib/host/handlers.ts'
import { settingNames } from '../../lib/settings/schema.ts'
import { habits, suggest } from '../../lib/settings/suggest.ts'
import { algorithms, authenticate, bearer, build, caseOf, claims, forge, host, keysFor, refreshStore, refusal, secret, warnings } from '../helper.ts'

warnings(t, 'W01', 'W03', 'W04', 'W05', 'W06', 'W13', 'W14')

interface Row {
  default: unknown
  accepts: readonly unknown[]
  refuses: readonly unknown[]
  /** What the message says is allowed. */
  allowed: string
}

const row = (preset: unknown, allowed: string, accepts: readonly unknown[], refuses: readonly unknown[]): Row =>
  ({ default: preset, accepts, refuses, allowed })

const wrongTypes = [null, true, 1, NaN, 1n, Symbol('x'), {}, ['x'], () => 'x']
const flag = (preset: boolean) => row(preset, 'true or false', [true, false], [null, 'true', 'yes', '', 1, 0, {}, [], () => true])
const century = 3_153_600_000
const seconds = (preset: number, minimum: number) => row(preset, `a whole number of seconds from ${minimum} to ${century}`,
  [minimum, 60, century], [minimum - 1, -60, 1.5, NaN, Infinity, century + 1, '60', 60n, null, true, {}, [60]])
const headerName = (preset: string) => row(preset, 'a header name without spaces and separators (RFC 9110 section 5.6.2), other than "__proto__"',
  ['x-token', "A!#$%&'*+.^_`|~0", 'constructor', 'toString', '__proto', 'x__proto__', '__proto__x'], ['', '__proto__', '__PROTO__', '__Proto__', 'two words', 'a:b', 'a,b', 'tökn', 'line\n', ...wrongTypes])
const cookieName = (preset: string) => row(preset, 'a cookie name without spaces and separators (RFC 6265 section 4.1.1)',
  ['__Host-token', "A!#$%&'*+.^_`|~0"], ['', 'two words', 'a=b', 'a;b', 'a,b', '"a"', 'tökn', 'line\n', ...wrongTypes])
const queryName = (preset: string) => row(preset, 'a query parameter name of letters, digits and ". _ ~ -"',
  ['token', 'A.b_c~d-0'], ['', 'two words', 'a=b', 'a&b', 'a[]', 'a%20b', 'a#', 'tökn', ...wrongTypes])
const fieldName = (preset: string) => row(preset, 'a non-empty name of one line, other than "__proto__"',
  ['sub', 'two words', 'schlüssel', 'https://example.org/claim', 'constructor'], ['', '__proto__', 'two\nlines', ...wrongTypes])
const path = (preset: string) => row(preset, 'a path that starts with "/", without parameters or wildcards',
  ['/x', '/x/', "/x/y.z~!$&'+,;=@-_"], ['', 'x', '//', '/x//y', '/:id', '/x*', '/x?y', '/x#y', '/a b', '/ä', '/%61', '/x\\y', ...wrongTypes])
const word = (preset: string) => row(preset, 'one word of visible ASCII characters, or an empty string',
  ['', 'JWT', 'Token:'], ['two words', ' ', 'tökn', 'line\n', ...wrongTypes])
const noneOrText = row(null, 'a non-empty string or null', [null, 'api', 'https://example.org', 'two words'],
  ['', ' ', '\n', true, 1, {}, ['api'], /api/, () => 'api'])
const key = row(undefined, 'a string, a Buffer or other bytes, a KeyObject, a JWK, a file: URL, { path } or { pem, passphrase }', [], [
  null, true, 1, {}, [], { path: 1 }, { path: 'x', passphrase: 1 }, { pem: 1, passphrase: 'x' }, { pem: 'x', passphrase: null }, { kty: 1 }, { n: 'x' }, () => secret
])
const quoted = (values: readonly string[]) => values.map((value) => `"${value}"`).join(', ').replace(/, (?=[^,]*$)/, ' or ')

const table: Readonly<Record<string, Row>> = {
  accessTokenName: fieldName('access_token'),
  algorithm: row('HS256', quoted(algorithms), algorithms, ['', 'none', 'hs256', 'HS1', 'eddsa', 'Ed25519', 'Ed448', 'ES256K', ...wrongTypes]),
  authMode: flag(true),
  authorizationHeader: headerName('authorization'),
  authorizationHeaderPrefix: word('Bearer'),
  authorizationHeaderRefreshPrefix: word('Refresh'),
  claimAud: noneOrText,
  claimIat: flag(false),
  claimIss: noneOrText,
  claimNbf: flag(false),
  claimNbfDelta: seconds(180, 0),
  cookieAccessTokenName: cookieName('access_token'),
  cookieDomain: row('', 'a domain name such as "example.org", or an empty string for none', ['', 'example.org', '.example.org'],
    ['a b', 'a;b', 'a/b', 'https://a', 'a\n', ...wrongTypes]),
  cookieHttponly: flag(true),
  cookieMaxAge: row(null, `a whole number of seconds from 1 to ${century} or null`, [null, 1, 3600, century],
    [0, -1, 1.5, NaN, Infinity, century + 1, '60', '', true, {}, [60]]),
  cookiePartitioned: flag(false),
  cookiePath: row('/', 'a path that starts with "/", without spaces and ";"', ['/', '/x', '/x/y-z'], ['', 'x', '/a;b', '/a b', '/ä', '/a\n', ...wrongTypes]),
  cookieRefreshTokenName: cookieName('refresh_token'),
  cookieSamesite: row('lax', '"strict", "lax" or "none"', ['strict', 'lax', 'none'], ['', 'Lax', 'NONE', ...wrongTypes]),
  cookieSecure: flag(true),
  cookieSet: flag(false),
  cookieSplit: flag(false),
  cookieSplitSignatureName: cookieName('access_token_signature'),
  cookieStrict: flag(true),
  debug: flag(false),
  doProtection: flag(true),
  expirationDelta: seconds(1800, 1),
  generateRefreshToken: row(undefined, 'a function (request, user) that returns a non-empty string', [], [null, true, 1, 'x', {}, []]),
  instanceName: row('tokenAuth', 'a JavaScript identifier of letters, digits, "_" and "$"', ['staffAuth', '$a', '_b0'], ['', '1a', 'a-b', 'a b', 'a\n', ...wrongTypes]),
  leeway: seconds(180, 0),
  loggedInUrl: row('/', 'a path that starts with one "/", with a query if you like', ['/home', '/home?tab=1#x'],
    ['', 'home', '//host', '/\\host', 'https://example.org', '/a b', '/a\n', ...wrongTypes]),
  loggedOutUrl: row(null, 'a path that starts with one "/", or an absolute http(s) URL or null', ['/bye?x=1', 'https://example.org/bye', null],
    ['', 'bye', '//host', '/\\host', 'javascript:alert(1)', ...wrongTypes.filter((value) => value !== null)]),
  loginRedirectUrl: row('/index.html', 'a path that starts with one "/", or an absolute http(s) URL',
    ['/', '/login?next=/x#y', 'https://example.org', 'http://[::1]:80/x', 'https://user@example.org/x'],
    ['', 'login', '//host', '/\\host', '\\\\host', '/\thost', 'javascript:alert(1)', 'ftp://host', 'https:', 'https://', 'https:///host',
      'https://?x', 'https://a b', '/a\n', ...wrongTypes]),
  onRefusal: row('reply', '"reply" or "throw"', ['reply', 'throw'], ['', 'Reply', 'send', ...wrongTypes]),
  pathToAuthenticate: path('/'),
  pathToRefresh: path('/refresh'),
  pathToRetrieveUser: path('/me'),
  pathToVerify: path('/verify'),
  pathToLogout: path('/logout'),
  pathToSessions: { ...path('/sessions'), allowed: `${path('').allowed} or null`, accepts: [null, '/x', '/x/y/'], refuses: path('').refuses.filter((value) => value !== null) },
  pathToJwks: { ...path('/jwks'), default: null, allowed: `${path('').allowed} or null`, accepts: [null, '/x', '/x/y/'], refuses: path('').refuses.filter((value) => value !== null) },
  claimAuthTime: flag(false),
  privateKey: key,
  publicKey: key,
  queryStringAccessTokenName: queryName('access_token'),
  queryStringRefreshTokenName: queryName('refresh_token'),
  queryStringSet: flag(false),
  queryStringStrict: flag(true),
  refreshTokenEnabled: flag(false),
  refreshTokenName: fieldName('refresh_token'),
  requireGuards: flag(false),
  scopesEnabled: flag(false),
  scopesName: fieldName('scopes'),
  secret: key,
  strictSlashes: flag(false),
  tokensInBody: flag(true),
  tokenCacheSize: row(1000, 'a whole number from 0 to 1000000', [0, 1, 1_000_000], [-1, 1.5, NaN, 1_000_001, '10', null, true, {}, [1]]),
  trustedOrigins: row([], 'a list of origins such as "https://app.example.org", or "*" for all',
    ['*', [], ['https://app.example.org'], ['http://localhost:5173', 'https://[::1]:3000', 'https://xn--bcher-kva.example', 'capacitor://localhost', 'chrome-extension://abcdefghijklmnop']],
    ['', '**', 'https://app.example.org', 'null', true, 1, null, {}, new Set(['https://app.example.org']), () => []]),
  urlPrefix: row('/auth', 'a path with a leading "/" and no trailing "/", or an empty string for none',
    ['', '/x', '/x/y.z'], ['/', '/x/', 'x', '//', '/:id', '/*', '/x?y', '/a b', '/ä', ...wrongTypes]),
  userId: fieldName('user_id'),
  verifyExp: flag(true)
}

const keys = ['secret', 'publicKey', 'privateKey']
const apart = [...keys, 'generateRefreshToken']

/** What a message says of a value: never more than its type where it may be key material. */
function shown (setting: string, value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object') return 'an object'
  if (!apart.includes(setting) && typeof value === 'string') return JSON.stringify(value)
  if (!apart.includes(setting) && (typeof value === 'number' || typeof value === 'boolean')) return String(value)
  return `a ${typeof value}`
}

/** What must be given along with a setting for it to make sense. */
function companions (setting: string, value: unknown): object {
  if (setting === 'algorithm') return keysFor(algorithms.find((name) => name === value) ?? 'HS256')
  // Only public keys can be published.
  if (setting === 'pathToJwks' && value !== null) return { secret: undefined, ...keysFor('EdDSA'), claimIss: 'x', claimAud: 'x' }
  if (setting === 'tokensInBody') return { cookieSet: true }
  if (setting !== 'refreshTokenEnabled') return {}
  const { stored, ...handlers } = refreshStore()
  return handlers
}

/** A configuration class with a member that its types would not allow. */
const withMember = (name: string, value: unknown) => class extends Configuration {
  constructor () {
    super()
    Reflect.set(this, name, value)
  }
}

// Promise: specification/claim-nbf-delta-2
// Promise: specification/expiration-delta-2
// Promise: specification/leeway-3
// Promise: specification/named-arguments
t.test('without options, every setting has the default of the specification, and none is missing', async (t) => {
  const app = await build(t)
  const defaults = Object.fromEntries(Object.entries(table).filter(([name]) => !apart.includes(name)).map(([name, { default: preset }]) => [name, preset]))
  t.strictSame({ ...app.tokenAuth.settings }, defaults, 'each setting has a row in `table` of this file')
  t.ok(Object.isFrozen(app.tokenAuth.settings), 'they are frozen')
})

for (const [name, { accepts, refuses, allowed }] of Object.entries(table)) {
  // Promise: specification/authorization-header-refresh
  // Promise: specification/invalidconfiguration-2
  t.test(`the setting ${name} accepts what is allowed, refuses the rest and says why`, async (t) => {
    for (const value of accepts) {
      const app = host(t)
      assert.equal(await refusal(t, { ...companions(name, value), [name]: value }, app), undefined, `accepts ${inspect(value)}`)
      const instance = app[name === 'instanceName' ? value as 'tokenAuth' : 'tokenAuth']
      assert.deepEqual(Reflect.get(instance.settings, name), value, caseOf(value))
    }
    for (const value of refuses) {
      const error = await refusal(t, { [name]: value })
      assert.ok(error instanceof InvalidConfiguration, `refuses ${inspect(value)}`)
      t.match(error?.message, `Option "${name}" must be ${allowed}; given: ${shown(name, value)}.`)
    }
    t.equal(await refusal(t, { [name]: undefined }), undefined, 'undefined is the same as not given')
  })
}

t.test('a long value is cut in the message', async (t) => {
  const error = await refusal(t, { algorithm: 'x'.repeat(100_000) })
  t.ok(error?.message.includes(`given: "${'x'.repeat(57)}...".`))
})

// Promise: specification/secret-2
t.test('a secret may be text, bytes, a key object or a file, and all of them sign the same', async (t) => {
  const file = join(t.testdir({ secret }), 'secret')
  const bytes = Buffer.from(secret)
  for (const given of [secret, bytes, createSecretKey(bytes), pathToFileURL(file), { path: file }]) {
    for (const name of ['secret', 'publicKey']) {
      const app = host(t)
      assert.equal(await refusal(t, { secret: undefined, [name]: given }, app), undefined, `${name} as ${inspect(given)}`)
      t.match(app.tokenAuth.verifyToken(forge(claims())), { user_id: 1 })
    }
  }
  const copied = Buffer.from(secret)
  const app = await build(t, { secret: copied })
  copied.fill(0)
  writeFileSync(file, 'changed')
  t.match(app.tokenAuth.verifyToken(forge(claims())), { user_id: 1 }, 'read once: what becomes of the buffer or the file later is of no matter')
})

// Promise: specification/registration-fails-unknown
t.test('an unknown option is refused, and the nearest name is suggested', async (t) => {
  const suggestions: Record<string, string> = {
    expiration_delta: 'expirationDelta',
    expirationdelta: 'expirationDelta',
    ExpirationDelta: 'expirationDelta',
    leway: 'leeway',
    secrets: 'secret',
    publickeys: 'publicKey',
    setLeway: 'setLeeway',
    getLeway: 'getLeeway',
    authentcate: 'authenticate',
    retrieve_user: 'retrieveUser',
    customClaim: 'customClaims',
    class_views: 'classViews',
    responseClass: 'responsesClass',
    cookieHttpOnly: 'cookieHttponly'
  }
  for (const [wrong, right] of Object.entries(suggestions)) {
    const error = await refusal(t, { [wrong]: 1 })
    assert.ok(error instanceof InvalidConfiguration, wrong)
    t.match(error?.message, `Unknown option "${wrong}". Did you mean "${right}"? Options are`)
  }
  for (const far of ['zzzzzzzzzzzzzzzz', 'constructor', 'toString', 'x'.repeat(500)]) {
    const error = await refusal(t, { [far]: undefined })
    assert.ok(error instanceof InvalidConfiguration, far)
    assert.ok(error?.message.startsWith(`Unknown option "${far}". Options are the settings`), 'nothing is suggested where nothing is near')
  }
  t.match(await refusal(t, JSON.parse('{ "__proto__": 1 }')), { message: /^Unknown option "__proto__"/ })
})

t.test('a name from another package is refused with the options that do what it means', async (t) => {
  const meant: Record<string, string> = {
    getUser: '"retrieveUser"',
    jwtSecret: '"secret"',
    secretKey: '"secret"',
    expiresIn: '"expirationDelta"',
    expires_in: '"expirationDelta"',
    cookie: '"cookieSet" or "cookieAccessTokenName"',
    cookieName: '"cookieAccessTokenName"',
    jwt: '"secret", "algorithm" or "expirationDelta"',
    sign: '"expirationDelta", "algorithm", "claimIss" or "claimAud"',
    audience: '"claimAud"',
    issuer: '"claimIss" or "issuers"',
    roles: '"addScopesToPayload" or "scopesEnabled"',
    maxAge: '"expirationDelta"'
  }
  for (const [habit, names] of Object.entries(meant)) {
    t.match(await refusal(t, { [habit]: {} }), { message: `Unknown option "${habit}". Did you mean ${names}? Options are` })
  }
  const lists = ['sessions', 'store', 'lifetime', 'idle', 'maxPerUser', 'keys', 'issuers', 'customClaims', 'responsesClass', 'key', 'kid', 'signFrom', 'issuer', 'audience', 'jwksUri', 'algorithms', 'redirectOnFail', 'redirectUrl', 'optional']
  const known = [...settingNames, ...handlerNames, ...lists]
  for (const [habit, names] of habits) for (const name of names) assert.ok(known.includes(name), `${habit} stands for ${name}`)
})

t.test('only what is valid in the place of a name is suggested, and its other spellings first', (t) => {
  t.equal(suggest('expiresIn', ['lifetime', 'idle']), ' Did you mean "lifetime"?')
  t.equal(suggest('jwks_url', ['jwks', 'jwksUri']), ' Did you mean "jwksUri"?')
  t.equal(suggest('maxage', ['expirationDelta', 'maxAge']), ' Did you mean "maxAge"?')
  t.equal(suggest('SERVICE_JWT_ISSUER', ['SERVICE_JWT_CLAIM_ISS', 'SERVICE_JWT_SECRET']), ' Did you mean "SERVICE_JWT_CLAIM_ISS"?')
  t.equal(suggest('SERVICE_JWT_EXPIRES_IN', ['SERVICE_JWT_SECRET']), '')
  t.equal(suggest('roles', ['leeway', 'optional']), '')
  t.end()
})

// Promise: specification/registration-fails-unknown
t.test('a setting that is given twice is refused, as an option and in a configuration class', async (t) => {
  const message = 'Option "leeway" is given twice, as "leeway" and as "setLeeway". Remove one of them.'
  t.match(await refusal(t, { leeway: 1, setLeeway: 1 }), { message })
  t.match(await refusal(t, { setLeeway: () => 1, leeway: 1 }), { name: 'InvalidConfiguration', message: /as "setLeeway" and as "leeway"/ })
  class Twice extends Configuration { override leeway = 1; setLeeway = 2 }
  t.match(await refusal(t, { configurationClass: Twice }), { message: message.replace('Option', 'Configuration class:') })
  t.equal(await refusal(t, { leeway: 1, setLeeway: undefined }), undefined)
  t.equal(await refusal(t, { leeway: 1, getLeeway: () => 2 }), undefined, 'a getter goes with a value')
})

t.test('the value of a set function is checked like a value', async (t) => {
  t.match(await refusal(t, { setLeeway: '1' }), { message: 'Option "setLeeway" must be a whole number of seconds from 0 to 3153600000; given: "1".' })
  t.match(await refusal(t, { setLeeway: () => '1' }),
    { message: 'Option "setLeeway" must return a whole number of seconds from 0 to 3153600000; returned: "1".' })
  t.match(await refusal(t, { setLeeway: async () => 1 }), { name: 'InvalidConfiguration', message: /returned: a promise\. See / })
  t.match(await refusal(t, { secret: undefined, setSecret: () => 42 }), { name: 'InvalidConfiguration', message: /returned: a number\. See / })
  t.match(await refusal(t, { setLeeway: () => { throw new RangeError('no') } }), { name: 'RangeError' }, 'its own error is the caller\'s')
})

// Promise: specification/settings-determine-routes
t.test('a getter must be a function, and settings that shape routes take none', async (t) => {
  t.match(await refusal(t, { getLeeway: 1 }), { name: 'InvalidConfiguration', message: 'Option "getLeeway" must be a function of the request; given: a number.' })
  t.match(await refusal(t, { getLeeway: null }), { name: 'InvalidConfiguration', message: /given: null\. See / })
  const routeSettings = [
    'authMode', 'urlPrefix', 'pathToAuthenticate', 'pathToVerify', 'pathToRetrieveUser', 'pathToRefresh', 'pathToLogout', 'pathToSessions', 'pathToJwks', 'strictSlashes', 'refreshTokenEnabled', 'requireGuards', 'instanceName'
  ]
  for (const name of Object.keys(table)) {
    const getter = `get${name[0]?.toUpperCase()}${name.slice(1)}`
    for (const options of [{ [getter]: () => undefined }, { configurationClass: withMember(getter, () => undefined) }]) {
      const error = await refusal(t, options)
      if (!routeSettings.includes(name)) {
        assert.equal(error, undefined, getter)
        continue
      }
      assert.ok(error instanceof InvalidConfiguration, getter)
      t.match(error?.message, `"${getter}" is not allowed: "${name}" determines the routes`)
    }
    if (routeSettings.includes(name)) {
      const app = await build(t)
      t.throws(() => app.tokenAuth.protect({ [name]: table[name]?.default }), { name: 'InvalidConfiguration', message: new RegExp(`^"${name}" determines the routes`) })
    }
  }
})

// Promise: specification/registration-fails-unknown
t.test('settings that contradict each other are refused', async (t) => {
  const contradictions: [object, RegExp][] = [
    [{ accessTokenName: 'refresh_token' }, /^"refreshTokenName" and "accessTokenName" are both "refresh_token": the fields of a response need different names\. See /],
    [{ cookieAccessTokenName: 'refresh_token' }, /^"cookieRefreshTokenName" and "cookieAccessTokenName" are both "refresh_token": cookies need/],
    [{ cookieSplitSignatureName: 'access_token' }, /^"cookieSplitSignatureName" and "cookieAccessTokenName" are both/],
    [{ cookieSplitSignatureName: 'refresh_token' }, /^"cookieSplitSignatureName" and "cookieRefreshTokenName" are both/],
    [{ queryStringRefreshTokenName: 'access_token' }, /: query parameters need different names\. See /],
    [{ userId: 'scopes' }, /: claims need different names\. See /],
    ...['exp', 'nbf', 'iat', 'iss', 'aud'].flatMap((claim): [object, RegExp][] => [
      [{ userId: claim }, new RegExp(`^"userId" must not be "${claim}", which is the name of a registered claim`)],
      [{ scopesName: claim }, new RegExp(`^"scopesName" must not be "${claim}"`)]
    ]),
    [{ pathToRefresh: '/' }, /"pathToRefresh" and "pathToAuthenticate" are both "\/": the POST endpoints need different paths\. See /],
    [{ pathToAuthenticate: '/refresh/' }, /the POST endpoints need/],
    [{ pathToVerify: '/me' }, /"pathToRetrieveUser" and "pathToVerify" are both "\/me": the GET endpoints need/],
    [{ pathToVerify: '/me/' }, /the GET endpoints need/],
    [{ pathToLogout: '/refresh', sessions: {} }, /"pathToLogout" and "pathToRefresh" are both "\/refresh": the POST endpoints need/],
    [{ pathToSessions: '/me/', sessions: {} }, /"pathToSessions" and "pathToRetrieveUser" are both "\/me": the GET endpoints need/],
    [{ pathToJwks: '/verify' }, /"pathToJwks" and "pathToVerify" are both "\/verify": the GET endpoints need/],
    [{ pathToJwks: '/sessions', sessions: {} }, /the GET endpoints need/],
    [{ userId: 'sid', sessions: {} }, /^"userId" must not be "sid" with "sessions"/],
    [{ scopesName: 'sid', sessions: {} }, /^"scopesName" must not be "sid" with "sessions"/],
    [{ cookieSet: true, cookieSamesite: 'none', cookieSecure: false }, /^"cookieSamesite" is "none" and "cookieSecure" is false, so/]
  ]
  for (const [options, message] of contradictions) {
    const error = await refusal(t, options)
    assert.ok(error instanceof InvalidConfiguration, inspect(options))
    t.match(error?.message, message)
  }
  const harmless = [
    { pathToLogout: '/refresh', pathToSessions: '/me', userId: 'sid' }, { pathToSessions: null, sessions: {} },
    { userId: 'sub' }, { strictSlashes: true, pathToVerify: '/me/' }, { pathToVerify: '/' }, { pathToVerify: '/refresh' },
    { cookieSamesite: 'none', cookieSecure: false }, { cookieAccessTokenName: 'token', queryStringAccessTokenName: 'token', accessTokenName: 'token' }
  ]
  for (const options of harmless) assert.equal(await refusal(t, options), undefined, inspect(options))
})

t.test('overrides of a guard are checked like options, when the guard is made', async (t) => {
  const app = await build(t)
  const cases: [object, RegExp][] = [
    [{ leeway: '1' }, /^Override "leeway" must be a whole number of seconds from 0 to 3153600000; given: "1"\. See /],
    [{ leway: 1 }, /^\w+\(\) has no option "leway"\. Did you mean "leeway"\?/],
    [{ setLeeway: 1 }, /^\w+\(\) has no option "setLeeway"\./],
    [{ getLeeway: () => 1 }, /^\w+\(\) has no option "getLeeway"\./],
    [{ secret: null }, /^Override "secret" must be .*; given: null\. See /],
    [{ userId: 'scopes' }, /are both "scopes"/]
  ]
  for (const [overrides, message] of cases) {
    t.throws(() => app.tokenAuth.protect(overrides), { name: 'InvalidConfiguration', message })
    t.throws(() => app.tokenAuth.scoped('x', overrides), { name: 'InvalidConfiguration', message })
    t.throws(() => app.tokenAuth.injectUser(() => null, overrides), { name: 'InvalidConfiguration', message })
  }
  t.doesNotThrow(() => app.tokenAuth.protect({ leeway: undefined, claimIss: null }), 'undefined is the same as not given')
})

// Promise: specification/configuration-2
// Promise: specification/configuration-class
t.test('a configuration class may have settings, set, get and helpers, and nothing that could be a misspelt setting', async (t) => {
  class Base extends Configuration {
    #hours = 2
    override userId = 'sub'
    hours () { return this.#hours }
    setExpirationDelta () { return this.hours() * 3600 }
  }
  class Derived extends Base {
    override get leeway () { return this.hours() }
    override claimIss = 'us'
  }
  const app = await build(t, { configurationClass: Derived })
  t.match(app.tokenAuth.settings, { userId: 'sub', expirationDelta: 7200, leeway: 2, claimIss: 'us' })
  const plain = await build(t, { configurationClass: Configuration })
  t.equal(plain.tokenAuth.settings.leeway, 180)

  const wrong: [unknown, RegExp][] = [
    [class extends Configuration { leway = 1 }, /^Configuration class: unknown setting "leway"\. Did you mean "leeway"\?/],
    [class extends Configuration { setLeway () { return 1 } }, /unknown setting "setLeway"\. Did you mean "setLeeway"\?/],
    [class extends Configuration { getLeway () { return 1 } }, /unknown setting "getLeway"\. Did you mean "getLeeway"\?/],
    [withMember('leeway', '1'), /^Configuration class: "leeway" must be a whole number/],
    [withMember('leeway', () => 1), /^Configuration class: "leeway" must be a whole number .*given: a function\. A function of the request is "getLeeway"\. See /],
    [class { leeway = 1 }, /^Option "configurationClass" must be a subclass of Configuration; given: a function, which does not extend it\. See /],
    [new Configuration(), /given: an object\. See /],
    ['Configuration', /given: a string\. See /],
    [null, /given: null\. See /]
  ]
  for (const [configurationClass, message] of wrong) {
    const error = await refusal(t, { configurationClass })
    assert.ok(error instanceof InvalidConfiguration, String(message))
    t.match(error?.message, message)
  }
})

t.test('no error and nothing that an instance shows of itself contains key material', async (t) => {
  const canary = 'canary-0123456789-0123456789-0123456789'
  const pem = `-----BEGIN PRIVATE KEY-----\n${canary}\n-----END PRIVATE KEY-----`
  const mistakes: object[] = [
    { secret: [canary] },
    { secret: { key: canary } },
    { secret: () => canary },
    { setSecret: () => ({ canary }) },
    { secret: canary, publicKey: 5 },
    { secret: canary, setSecret: canary },
    { secret: canary, leeway: -1 },
    { secret: canary, algorithm: 'RS256' },
    { algorithm: 'RS256', publicKey: pem, privateKey: pem },
    { algorithm: 'ES256', publicKey: keysFor('RS256'), privateKey: pem },
    { secret: pem },
    { secrett: canary },
    { generateRefreshToken: canary },
    { configurationClass: class extends Configuration { override secret = canary; secretKey = canary } }
  ]
  for (const options of mistakes) {
    const error = await refusal(t, options)
    assert.ok(error, 'it is a mistake')
    t.notMatch(inspect(error, { depth: null, showHidden: true }), canary)
  }
  const app = await build(t, { secret: canary, getSecret: () => canary })
  app.get('/', { preHandler: app.tokenAuth.protect({ secret: canary }) }, async ({ tokenAuth: known }) => ({
    json: JSON.stringify(known), text: inspect(known, { depth: null }), settings: JSON.stringify(known.settings)
  }))
  const response = await app.inject({ url: '/', headers: bearer(forge(claims(), { key: canary })) })
  t.equal(response.statusCode, 200)
  t.notMatch(response.body, canary)
  t.notMatch(JSON.stringify(app.tokenAuth), canary)
  t.notMatch(inspect(app.tokenAuth, { depth: null }), canary)
  for (const name of apart) assert.ok(!(name in app.tokenAuth.settings), `settings do not have ${name}`)
})

/** What a guard with these overrides says of a token that is signed with a key. */
async function isAccepted (t: Test, options: object, overrides: object, key: string): Promise<boolean> {
  const app = host(t)
  await app.register(tokenAuth, { authenticate, ...options })
  app.get('/', { onRequest: app.tokenAuth.protect(overrides) }, async () => 'in')
  return (await app.inject({ url: '/', headers: bearer(forge(claims(), { key })) })).statusCode === 200
}

// Promise: specification/public-key
// Promise: specification/publickey-alias-secret
t.test('publicKey is an alias of secret: an override under one name wins over the other', async (t) => {
  const [own, other] = ['own: Qm8vT4bZ7kLw2Rf9Hs3Jd6Yc5Pn0Ga', 'other: Zs7LxPv2kTn6WcRb48f3aQm0Uy1']
  for (const given of ['secret', 'publicKey', 'getSecret', 'getPublicKey']) {
    for (const override of ['secret', 'publicKey']) {
      const options = { [given]: given.startsWith('get') ? () => own : own }
      assert.ok(await isAccepted(t, options, { [override]: other }, other), `${given} overridden by ${override}`)
      assert.ok(!(await isAccepted(t, options, { [override]: other }, own)), `${given} does not hold where ${override} overrides it`)
    }
  }
})
