/** What `register()` takes, makes, refuses and warns of. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { inspect } from 'node:util'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import t from 'tap'
import * as library from '../lib/index.ts'
import required from '../lib/require.ts'
import tokenAuth, {
  Authentication, AuthenticationFailed, Configuration, initialize, Responses, View, type TokenAuthInstance, type TokenAuthOptions
} from '../lib/index.ts'
import { authenticate, bearer, build, caseOf, claims, ecPair, environment, forge, host, login, mistyped, otherSecret, refreshStore, refusal, rsaPair, secret, warnings } from './helper.ts'

const token = forge(claims())
const { stored: _stored, ...refreshHandlers } = refreshStore()

/** An instance under a name that no type declares. */
const instanceOf = (app: FastifyInstance, name: string): TokenAuthInstance => Reflect.get(app, name)

// Promise: specification/initialization-class
t.test('the plugin is the default export, a named one, and what require() gives, with every other export on it', async (t) => {
  t.equal(library.default, library.tokenAuth)
  t.equal(required, library.tokenAuth)
  for (const [name, value] of Object.entries(library)) assert.equal(Reflect.get(tokenAuth, name), value, name)
})

// Promise: specification/older-initialization-function
t.test('initialize registers the plugin', async (t) => {
  const app = host(t)
  await initialize(app, { secret, authenticate, leeway: 5 })
  t.equal(app.tokenAuth.settings.leeway, 5)
  t.equal((await login(app)).statusCode, 200)
})

t.test('a registration decorates its context and its requests, and works without encapsulation', async (t) => {
  const app = host(t)
  app.register(fp(async (inner) => { await inner.register(tokenAuth, { secret, authenticate }) }))
  app.register(async (child) => {
    child.get('/child', { onRequest: child.tokenAuth.protect() }, async (request) => request.tokenAuth.payload)
  })
  app.get('/before', async (request) => ({ id: request.tokenAuth.userId }))
  await app.ready()
  t.equal((await app.inject({ url: '/child', headers: bearer(token) })).json().user_id, 1)
  t.equal((await app.inject({ url: '/before', headers: bearer(token) })).json().id, 1)
})

t.test('what is registered in a context stays in it', async (t) => {
  const app = host(t)
  await app.register(async (child) => { await child.register(tokenAuth, { secret, authenticate }) })
  app.get('/', async (request) => ({ here: 'tokenAuth' in request }))
  t.notOk(app.hasDecorator('tokenAuth'))
  t.notOk((await app.inject({ url: '/', headers: bearer(token) })).json().here)
})

t.test('the endpoints lie under the prefix of the registration and of its context', async (t) => {
  const app = host(t)
  await app.register(async (child) => {
    await child.register(tokenAuth, { secret, authenticate, ...{ prefix: '/inner', logLevel: 'silent' } })
  }, { prefix: '/outer' })
  t.equal((await login(app, { url: '/outer/inner/auth' })).statusCode, 200)
  t.equal((await login(app, { url: '/auth' })).statusCode, 404)
})

// Promise: specification/added-8
t.test('instanceName names both decorators, so that several instances live on one context', async (t) => {
  const app = host(t)
  await app.register(tokenAuth, { secret, authenticate })
  await app.register(tokenAuth, Object.assign<TokenAuthOptions, object>({ secret: otherSecret, authenticate, urlPrefix: '/staff' }, { instanceName: 'staffAuth' }))
  app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'in')
  app.get('/staff-only', { onRequest: instanceOf(app, 'staffAuth').protect() }, async (request) => Reflect.get(request, 'staffAuth').payload)
  const staff = (await login(app, { url: '/staff' })).json().access_token
  t.equal((await app.inject({ url: '/staff-only', headers: bearer(staff) })).json().user_id, 1)
  t.equal((await app.inject({ url: '/', headers: bearer(staff) })).statusCode, 401)
  const twice = await build(t)
  t.match(await refusal(t, { authMode: false }, twice),
    { name: 'InvalidConfiguration', message: 'An instance named "tokenAuth" is already registered on this context. Choose another "instanceName" for this one, and another "urlPrefix" if both have endpoints.' })
})

t.test('a nested context may have an instance of the same name, and siblings do not know each other', async (t) => {
  const app = await build(t, { leeway: 1 })
  for (const [path, leeway] of [['/a', 2], ['/b', 3]] as const) {
    await app.register(async (child) => {
      t.equal(await refusal(t, { leeway, authMode: false }, child), undefined)
      t.equal(child.tokenAuth.settings.leeway, leeway)
      child.get(path, async (request) => ({ leeway: request.tokenAuth.settings.leeway }))
    })
  }
  app.get('/', async (request) => ({ leeway: request.tokenAuth.settings.leeway }))
  for (const [url, leeway] of [['/', 1], ['/a', 2], ['/b', 3]] as const) assert.equal((await app.inject(url)).json().leeway, leeway, url)
})

t.test('a name that Fastify or another plugin has already is refused', async (t) => {
  const ofFastify = ['listen', 'register', 'log', 'prefix', 'version', 'server', 'get', 'decorate', 'ready', 'then', 'constructor', 'toString', 'hasOwnProperty']
  const ofRequests = ['id', 'params', 'raw', 'query', 'body', 'headers', 'url', 'method', 'ip', 'host', 'hostname', 'protocol', 'is404', 'socket', 'routeOptions']
  for (const instanceName of [...ofFastify, ...ofRequests, 'ofInstances', 'ofRequests', 'lazy']) {
    const app = host(t)
    app.decorate('ofInstances', null)
    app.decorateRequest('ofRequests', '')
    app.decorateRequest('lazy', { getter: () => 1 })
    const error = await refusal(t, { instanceName }, app)
    assert.equal(error?.name, 'InvalidConfiguration', instanceName)
    t.match(error?.message, `"instanceName" is "${instanceName}", which is already a property of Fastify or of another plugin. Choose another name.`)
  }
})

// Promise: specification/authenticatenotimplemented-2
t.test('the handler authenticate must be there where the endpoints are', async (t) => {
  t.match(await refusal(t, { authenticate: undefined }), { name: 'AuthenticateNotImplemented', message: /^The handler "authenticate" is missing\./ })
  t.match(await refusal(t, { authenticate: undefined, authenticationClass: Authentication }), { name: 'AuthenticateNotImplemented' })
  t.equal(await refusal(t, { authenticate: undefined, authMode: false }), undefined)
})

// Promise: specification/refresh-enabled-without
// Promise: specification/refresh-refreshtokenenabled-both
// Promise: specification/refreshtokennotimplemented-2
t.test('both refresh handlers must be there where refresh tokens are enabled', async (t) => {
  const { storeRefreshToken, retrieveRefreshToken } = refreshHandlers
  const cases: [object, string][] = [
    [{}, '"storeRefreshToken" and "retrieveRefreshToken"'], [{ retrieveRefreshToken }, '"storeRefreshToken"'], [{ storeRefreshToken }, '"retrieveRefreshToken"']
  ]
  for (const [handlers, missing] of cases) {
    const error = await refusal(t, { refreshTokenEnabled: true, ...handlers })
    assert.equal(error?.name, 'RefreshTokenNotImplemented', caseOf(handlers))
    t.match(error?.message, `missing: ${missing}.`)
  }
  t.equal(await refusal(t, refreshHandlers), undefined)
  t.equal(await refusal(t, { storeRefreshToken }), undefined, 'none is needed where they are not enabled')
  t.match(await refusal(t, { refreshTokenEnabled: true, authMode: false }), { name: 'RefreshTokenNotImplemented' }, 'also where the endpoints are off')
  t.equal(await refusal(t, { ...refreshHandlers, authMode: false }), undefined)
})

// Promise: specification/private-key
// Promise: specification/requiredkeysnotfound-2
// Promise: specification/rsa-ec-algorithms
t.test('asymmetric algorithms need a public key, and a private key to issue', async (t) => {
  const pairs = { RS256: rsaPair(), PS512: rsaPair(), ES256: ecPair('prime256v1') }
  for (const [algorithm, { publicKey, privateKey }] of Object.entries(pairs)) {
    const none = { algorithm, secret: undefined }
    const refused: [object, string][] = [
      [none, 'publicKey'], [{ ...none, publicKey }, 'privateKey'], [{ ...none, privateKey }, 'publicKey'], [{ ...none, authMode: false }, 'publicKey'],
      [{ ...none, authMode: false, privateKey }, 'publicKey']
    ]
    for (const [options, missing] of refused) {
      const error = await refusal(t, options)
      assert.equal(error?.name, 'RequiredKeysNotFound', algorithm)
      t.match(error?.message, `${algorithm} needs "${missing}"`)
    }
    assert.equal(await refusal(t, { ...none, publicKey, privateKey }), undefined, algorithm)
    assert.equal(await refusal(t, { ...none, secret: publicKey, privateKey }), undefined, 'secret is an alias of publicKey')
    assert.equal(await refusal(t, { ...none, publicKey, authMode: false }), undefined, 'the public key is enough to verify')
  }
})

// Promise: specification/3-user-store
// Promise: specification/authentication-2
t.test('handlers may be methods of the authentication class: inherited, overridden, with their object; an option wins', async (t) => {
  class Directory extends Authentication {
    #names = ['ada']
    protected find (name: unknown) { return this.#names.indexOf(String(name)) }
    override async authenticate ({ body }: { body: unknown }) {
      const index = this.find(Reflect.get(Object(body), 'username'))
      if (index === -1) throw new AuthenticationFailed('Not in the directory.')
      return { user_id: `user ${index}` }
    }

    override addScopesToPayload (): string[] { return ['base'] }
    override extendPayload (payload: object) { return { ...payload, from: 'class' } }
  }
  class Special extends Directory {
    override addScopesToPayload (): string[] { return [...super.addScopesToPayload(), 'special'] }
    override retrieveUser = () => ({ user_id: 'user 0', from: 'property' })
  }
  const app = await build(t, { authenticate: undefined, authenticationClass: Special, scopesEnabled: true, extendPayload: (payload) => ({ ...payload, from: 'option' }) })
  const issued = (await login(app)).json().access_token
  t.match(app.tokenAuth.verifyToken(issued), { user_id: 'user 0', scopes: ['base', 'special'], from: 'option' })
  t.match((await app.inject({ url: '/auth/me', headers: bearer(issued) })).json(), { me: { from: 'property' } })
  t.match((await login(app, { username: 'grace' })).json(), { reasons: 'Not in the directory.' })

  class Store extends Authentication {
    #tokens = new Map<unknown, string>()
    override authenticate () { return { user_id: 1 } }
    override storeRefreshToken (userId: unknown, refreshToken: string) { this.#tokens.set(userId, refreshToken) }
    override retrieveRefreshToken (userId: unknown) { return this.#tokens.get(userId) }
  }
  const refreshing = await build(t, { authenticate: undefined, authenticationClass: Store, refreshTokenEnabled: true })
  const { access_token: accessToken, refresh_token: refreshToken } = (await login(refreshing)).json()
  const refreshed = await refreshing.inject({ method: 'POST', url: '/auth/refresh', headers: bearer(accessToken), payload: { refresh_token: refreshToken } })
  t.equal(refreshed.statusCode, 200)
})

const handlerNames = [
  'authenticate', 'storeRefreshToken', 'retrieveRefreshToken', 'retrieveUser', 'addScopesToPayload', 'overrideScopeValidator', 'destructureScopes', 'extendPayload'
]

t.test('a handler that is no function is refused', async (t) => {
  for (const name of handlerNames) {
    for (const [value, shown] of [['x', 'a string'], [null, 'null'], [{}, 'an object'], [Promise.resolve(), 'a promise']] as const) {
      const message = `"${name}" must be a function; given: ${shown}.`
      t.match(await refusal(t, { [name]: value }), { name: 'InvalidConfiguration', message: `Option ${message}` })
      const authenticationClass = class extends Authentication { constructor () { super(); Reflect.set(this, name, value) } }
      t.match(await refusal(t, { [name]: undefined, authenticationClass }), { name: 'InvalidConfiguration', message: `Authentication class: ${message}` })
    }
  }
})

// Promise: specification/authentication-class-configuration
t.test('the classes must extend those of the library, and may be those', async (t) => {
  const bases: Readonly<Record<string, new () => object>> = { configurationClass: Configuration, authenticationClass: Authentication, responsesClass: Responses }
  for (const [name, Base] of Object.entries(bases)) {
    assert.equal(await refusal(t, { [name]: Base }), undefined, name)
    assert.equal(await refusal(t, { [name]: class extends Base {} }), undefined, name)
    assert.equal(await refusal(t, { [name]: undefined }), undefined, name)
    const wrong: [unknown, string][] = [
      [null, 'null'], [new Base(), 'an object'], ['Base', 'a string'], [class Other {}, 'Other, which does not extend it'], [() => {}, 'a function, which does not extend it'], [[Base], 'an array']
    ]
    for (const [value, shown] of wrong) {
      const error = await refusal(t, { [name]: value })
      assert.equal(error?.name, 'InvalidConfiguration', caseOf(name, value))
      t.match(error?.message, `Option "${name}" must be a subclass of ${Base.name}; given: ${shown}.`)
    }
  }
})

// Promise: specification/responses-2
t.test('a responses class is made once, and its methods are used with their object', async (t) => {
  let made = 0
  class Counting extends Responses {
    #number = ++made
    override extendAuthenticate () { return { number: this.#number } }
  }
  const app = await build(t, { responsesClass: Counting })
  for (let round = 0; round < 2; round++) assert.equal((await login(app)).json().number, 1, caseOf(round))
  t.ok(app.tokenAuth.responses instanceof Counting)
})

// Promise: specification/custom-claims
// Promise: specification/custom-claims-2
// Promise: specification/invalidcustomclaim-2
t.test('custom claims are objects or classes with key, setup and verify', async (t) => {
  class Tenant {
    readonly key: string = 'tenant'
    #value = 'a'
    setup () { return this.#value }
    verify (value: unknown) { return value === this.#value }
  }
  class Region extends Tenant { override readonly key = 'region' }
  const plain = { key: 'plan', setup: () => 'free', verify: (value: unknown) => value === 'free' }
  const app = await build(t, { customClaims: [Tenant, Region, plain] })
  t.match(app.tokenAuth.verifyToken((await login(app)).json().access_token), { tenant: 'a', region: 'a', plan: 'free' })

  const [setup, verify] = [() => 1, () => true]
  const refused: [unknown, RegExp][] = [
    [null, /^"customClaims" must be a list of claims; given: null\. See /],
    [plain, /^"customClaims" must be a list of claims; given: an object\. See /],
    [[null], /^"customClaims\[0\]" must be a class or an object; given: null\. See /],
    [[plain, 'claim'], /^"customClaims\[1\]" must be a class or an object; given: a string\. See /],
    [[() => {}], /^"customClaims\[0\]" must be a class or an object; given: a function that is not a class\. See /],
    [[{ setup, verify }], /^"key" of "customClaims\[0\]" must be the name of the claim, a non-empty string; given: undefined\. See /],
    [[{ key: '', setup, verify }], /given: an empty string\. See /],
    [[{ key: 5, setup, verify }], /given: a number\. See /],
    [[{ key: 'a', verify }], /^"setup" of the custom claim "a" must be a function; given: undefined\. See /],
    [[{ key: 'a', setup, verify: true }], /^"verify" of the custom claim "a" must be a function; given: a boolean\. See /],
    [[class { static key = 'a' }], /^"key" of "customClaims\[0\]" must be/],
    ...['exp', 'nbf', 'iat', 'iss', 'aud', 'user_id', 'scopes', '__proto__'].map((key): [unknown, RegExp] => [[{ key, setup, verify }], /^The "key" of a custom claim must not be ".*", which is the name of a claim/]),
    [[plain, plain], /^The "key" of a custom claim must not be "plan", which is the name of a claim of this plugin or of another custom claim\. Choose another name\. See /]
  ]
  for (const [customClaims, message] of refused) {
    const error = await refusal(t, { customClaims })
    assert.equal(error?.name, 'InvalidCustomClaim', inspect(customClaims))
    t.match(error?.message, message)
  }
  t.match(await refusal(t, { userId: 'sub', customClaims: [{ key: 'sub', setup, verify }] }), { name: 'InvalidCustomClaim' })
  t.equal(await refusal(t, { userId: 'sub', customClaims: [{ key: 'user_id', setup, verify }] }), undefined, 'free where the setting says so')
  t.equal(await refusal(t, { customClaims: [] }), undefined)
})

// Promise: specification/extra-verifications-2
t.test('extra verifications are a list of functions', async (t) => {
  t.equal(await refusal(t, { extraVerifications: [] }), undefined)
  t.equal(await refusal(t, { extraVerifications: [() => true] }), undefined)
  const list = 'Option "extraVerifications" must be a list of functions (payload) => boolean'
  const refused: [unknown, string][] = [[null, 'given: null'], [() => true, 'given: a function'], [[() => true, true], 'entry 1 is a boolean'], ['x', 'given: a string']]
  for (const [extraVerifications, fault] of refused) {
    t.match(await refusal(t, { extraVerifications }), { name: 'InvalidConfiguration', message: `${list}; ${fault}` })
  }
})

class Ping extends View { override get () { return 'pong' } }

// Promise: specification/class-views
// Promise: specification/invalidclassviews-2
t.test('class views are pairs of a path and a view class', async (t) => {
  const app = await build(t, { classViews: [['/ping', Ping]] })
  t.equal((await app.inject('/auth/ping')).body, 'pong')
  class Unguarded extends View { override readonly guards = { post: this.instance.protect() } }
  class Guarded extends Ping { override readonly guards = { post: this.instance.protect() } }
  class Empty extends View { override readonly guards = { get: this.instance.protect() } }
  const refused: [unknown, RegExp][] = [
    [null, /given: null\. See /],
    [{ '/ping': Ping }, /given: an object\. See /],
    [['/ping', Ping], /; entry 0 is a string\. See /],
    [[null], /; entry 0 is null\. See /],
    [[['/ping', Ping], ['/pong']], /; entry 1 has 1 elements, not two\. See /],
    [[['/ping', Ping, {}]], /; entry 0 has 3 elements, not two\. See /],
    [[[5, Ping]], /; entry 0 has a number as its path\. See /],
    [[['ping', Ping]], /; entry 0 has the path "ping"\. See /],
    [[['', Ping]], /; entry 0 has the path ""\. See /],
    [[['/ping', undefined]], /; entry 0 has undefined as its view class\. See /],
    [[['/ping', app.tokenAuth]], /; entry 0 has an object as its view class\. See /],
    [[['/ping', class Other {}]], /; entry 0 has Other as its view class, which does not extend View\. See /],
    [[['/ping', () => {}]], /; entry 0 has a function as its view class, which does not extend View\. See /],
    [[['/ping', View]], /does not extend View\. See /],
    [[['/ping', class Nothing extends View {}]], /^The view Nothing has none of the methods get, post, put, patch, delete, options\. Add at least one\. See /],
    [[['/ping', Unguarded]], /^The view Unguarded has guards for "post", but no such method\. Add the method, or remove its guards\. See /],
    [[['/ping', Guarded]], /^The view Guarded has guards for "post"/],
    [[['/ping', Empty]], /^The view Empty has guards for "get"/],
    ...['/', '/verify', '/verify/', '/me', '/refresh'].map((path): [unknown, RegExp] => [[[path, Ping]], /has the path of a default endpoint/])
  ]
  for (const [classViews, message] of refused) {
    const error = await refusal(t, { classViews })
    assert.equal(error?.name, 'InvalidClassViews', String(message))
    t.match(error?.message, message)
  }
  t.equal(await refusal(t, { classViews: [['/verify', Ping]], authMode: false }), undefined, 'a path is free where the endpoints are off')
  t.equal(await refusal(t, { classViews: [] }), undefined)
})

// Promise: specification/view-2
t.test('a view has its instance, settings and responses; its guards guard single methods', async (t) => {
  class Both extends View {
    override readonly guards = { post: this.instance.protect(), put: [this.instance.protect(), this.instance.scoped('x')] }
    override get () { return { leeway: this.config.leeway, isOurs: this.instance.settings === this.config, responses: this.responses === this.instance.responses } }
    override post () { return 'posted' }
    override put () { return 'put' }
    override async options () {}
  }
  const app = await build(t, { leeway: 5, classViews: [['/both', Both]] })
  t.strictSame((await app.inject('/auth/both')).json(), { leeway: 5, isOurs: true, responses: true })
  for (const [method, headers, status] of [['POST', {}, 401], ['POST', bearer(token), 200], ['PUT', bearer(token), 403], ['OPTIONS', {}, 204]] as const) {
    assert.equal((await app.inject({ method, url: '/auth/both', headers })).statusCode, status, method)
  }
})

// Promise: specification/there-built-default
t.test('without a secret the instances of a process share a random one; production refuses to start', async (t) => {
  warnings(t, 'W01')
  const first = await build(t, { secret: undefined })
  const second = await build(t, { secret: undefined, authMode: false, authenticate: undefined })
  const issued = (await login(first)).json().access_token
  t.match(second.tokenAuth.verifyToken(issued), { user_id: 1 })
  t.throws(() => second.tokenAuth.verifyToken(token), { name: 'InvalidToken' })
  t.throws(() => second.tokenAuth.verifyToken(forge(claims(), { key: '' })), { name: 'InvalidToken' })

  environment(t, 'production')
  const error = await refusal(t, { secret: undefined })
  t.equal(error?.name, 'InvalidConfiguration')
  t.match(error?.message, /^"secret" is missing, and NODE_ENV is "production"\./)
  t.match(await refusal(t, { secret: undefined, authMode: false }), { name: 'InvalidConfiguration' })
  const { publicKey, privateKey } = ecPair('prime256v1')
  const sufficient: object[] = [
    {}, { secret: undefined, publicKey: secret }, { secret: undefined, setSecret: () => secret }, { secret: undefined, getSecret: () => secret },
    { secret: undefined, configurationClass: class extends Configuration { override secret = secret } }, { secret: undefined, algorithm: 'ES256', publicKey, privateKey }
  ]
  for (const options of sufficient) assert.equal(await refusal(t, options), undefined, inspect(options))
})

t.test('what is allowed, and dangerous or without effect, is warned of once for each registration, and nothing else is', async (t) => {
  const bytes = (count: number) => randomBytes(count)
  const cookies = { cookieSet: true }
  const addScopesToPayload = () => ['a']
  const cases: [object, string[]][] = [
    [{}, []],
    [{ secret: undefined }, ['W01']],
    [{ secret: undefined, getSecret: () => secret }, []],
    [{ secret: undefined, algorithm: 'ES256', ...ecPair('prime256v1') }, []],
    [{ secret: 'short' }, ['W02']],
    [{ secret: undefined, publicKey: 'short' }, ['W02']],
    [{ secret: bytes(31) }, ['W02']], [{ secret: bytes(32) }, []],
    [{ algorithm: 'HS384', secret: bytes(47) }, ['W02']], [{ algorithm: 'HS384', secret: bytes(48) }, []],
    [{ algorithm: 'HS512', secret: bytes(63) }, ['W02']], [{ algorithm: 'HS512', secret: bytes(64) }, []],
    [{ doProtection: false }, ['W03']],
    [{ verifyExp: false }, ['W04']], [{ verifyExp: false, expirationDelta: 1 }, ['W04']],
    [{ queryStringSet: true }, ['W05']],
    [{ leeway: 1800 }, ['W06']], [{ leeway: 1799 }, []], [{ expirationDelta: 180 }, ['W06']],
    [{ debug: true }, []],
    [{ cookieHttponly: false, cookieSecure: false, cookieSamesite: 'lax' }, []],
    [cookies, []],
    [{ ...cookies, cookieHttponly: false }, ['W08']], [{ ...cookies, cookieHttponly: false, cookieSplit: true }, []],
    [{ ...cookies, cookieSamesite: 'none' }, ['W09']], [{ cookieSamesite: 'none' }, []],
    [{ ...cookies, cookieSecure: false }, ['W10']],
    [{ claimNbf: true, claimNbfDelta: 1800 + 2 * 180 }, ['W11']], [{ claimNbf: true, claimNbfDelta: 1800 + 2 * 180 - 1 }, []],
    [{ claimNbfDelta: 5000 }, []], [{ claimNbf: true, claimNbfDelta: 5000, verifyExp: false }, ['W04']],
    [{ doProtection: false, verifyExp: false, secret: 'short' }, ['W02', 'W03', 'W04']],
    [{ addScopesToPayload }, ['W12']], [{ addScopesToPayload, scopesEnabled: true }, []], [{ addScopesToPayload, getScopesEnabled: () => true }, []],
    [{ addScopesToPayload, authMode: false }, []],
    [{ authenticationClass: class extends Authentication { override addScopesToPayload (): string[] { return ['a'] } } }, ['W12']],
    [{ ...refreshHandlers, refreshTokenEnabled: false }, ['W13']], [{ ...refreshHandlers, refreshTokenEnabled: false, authMode: false }, []],
    [{ storeRefreshToken: refreshHandlers.storeRefreshToken }, []],
    [{ customClaims: [{ key: 'a', setup: () => 1, verify: mistyped<() => boolean>(async () => true) }] }, ['W15']],
    [{ overrideScopeValidator: mistyped<() => boolean>(async () => true) }, ['W15']],
    [{ scopesEnabled: true }, ['W14']], [{ scopesEnabled: true, authMode: false }, []], [{ scopesEnabled: true, getScopesEnabled: () => false }, []],
    [{ ...refreshHandlers, refreshTokenEnabled: true, queryStringSet: false, claimNbf: true }, []]
  ]
  const codes = warnings(t)
  for (const [options, expected] of cases) {
    codes.length = 0
    const app = host(t)
    assert.equal(await refusal(t, options, app), undefined, caseOf(options))
    app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'in')
    for (let request = 0; request < 2; request++) await app.inject({ url: '/', headers: bearer(token) })
    await turn()
    assert.deepEqual(codes, expected.map((code) => `TOKEN_AUTH_${code}`), inspect(options))
  }
})

t.test('debug in production is warned of', async (t) => {
  const codes = warnings(t)
  environment(t, 'production')
  await build(t, { debug: true })
  await build(t)
  await turn()
  t.strictSame(codes, ['TOKEN_AUTH_W07'])
})

t.test('a warning names its instance, has a type and a code, and shows no secret', async (t) => {
  warnings(t, 'W02')
  const emitted: Error[] = []
  const listener = (warning: Error) => emitted.push(warning)
  process.on('warning', listener)
  t.teardown(() => process.off('warning', listener))
  await build(t, { secret: 'canary' })
  await turn()
  t.equal(emitted.length, 1)
  t.match(emitted[0], { name: 'TokenAuthWarning', code: 'TOKEN_AUTH_W02', message: /^tokenAuth: A secret can be guessed from one token: it is shorter than the hash/ })
  t.notMatch(inspect(emitted[0]), 'canary')
})

t.test('a registration that is refused leaves nothing behind', async (t) => {
  const app = host(t)
  t.ok(await refusal(t, { leeway: -1 }, app))
  t.notOk(app.hasDecorator('tokenAuth'))
})
