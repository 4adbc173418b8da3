/**
 * Every message of a wrong configuration, as a newcomer reads it: it says what was given, what is allowed and what to do.
 * They stand here in full, so that whoever changes one reads it once more.
 */
import { createPrivateKey, createPublicKey, createSecretKey, generateKeyPairSync } from 'node:crypto'
import t, { type Test } from 'tap'
import tokenAuth, { Authentication, Configuration, injectUser, InvalidConfiguration, protect, scoped, type UserRouteHandler, View } from '../lib/index.ts'
import { authenticate, build, ecPair, environment, host, mistyped, rsaPair, secret } from './helper.ts'

/** What is given, and the message. */
type Case<Given> = [Given, string]

/** The error of a registration in an application with this configuration. */
async function refused (t: Test, options: object, config: object = {}): Promise<string> {
  const app = host(t)
  app.decorate('config', config)
  app.decorate('taken', true)
  return await said(async () => await app.register(tokenAuth, { secret, authenticate, ...options }))
}

/** The message of what a function throws, with its name where that is not the usual one. */
async function said (act: () => unknown): Promise<string> {
  try {
    await act()
    return 'nothing'
  } catch (error) {
    return error instanceof InvalidConfiguration ? error.message : String(error)
  }
}

/** An option: a configuration class with these members. */
const inClass = (members: object) => ({
  configurationClass: class extends Configuration {
    constructor () {
      super()
      Object.assign(this, members)
    }
  }
})

class Ping extends View { override get () { return 'pong' } }
class Silent extends View {}
class Misguarded extends Ping { override readonly guards = { post: this.instance.protect() } }
class Wrong extends Authentication { constructor () { super(); Reflect.set(this, 'retrieveUser', 'x') } }

const [setup, verify] = [() => 1, () => true]
const rsa = rsaPair()
const ec = ecPair('prime256v1')
const ed = generateKeyPairSync('ed25519')
const edPublic = ed.publicKey.export({ type: 'spki', format: 'pem' })
const rs = { secret: undefined, algorithm: 'RS256', ...rsa }
const es = { secret: undefined, algorithm: 'ES256', ...ec }
const encrypted = createPrivateKey(rsa.privateKey).export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' })
const der = createPublicKey(rsa.publicKey).export({ type: 'spki', format: 'der' })

/** By what is wrong. */
const registrations: Record<string, Case<object>[]> = {
  'names of options': [
    [{ expiration_delta: 60 },
      'Unknown option "expiration_delta". Did you mean "expirationDelta"? Options are the settings, "set<Setting>", "get<Setting>", the handlers, and customClaims, extraVerifications, classViews, configurationClass, authenticationClass, responsesClass.'],
    [{ zzzzzzzzzz: 1 },
      'Unknown option "zzzzzzzzzz". Options are the settings, "set<Setting>", "get<Setting>", the handlers, and customClaims, extraVerifications, classViews, configurationClass, authenticationClass, responsesClass.'],
    [{ leeway: 1, setLeeway: 2 },
      'Option "leeway" is given twice, as "leeway" and as "setLeeway". Keep one of them.'],
    [{ getUrlPrefix: () => '/x' },
      'Option "getUrlPrefix": "urlPrefix" shapes the routes and is decided once, so it cannot be computed per request. Use "urlPrefix" or "setUrlPrefix".'],
    [{ getLeeway: 5 },
      'Option "getLeeway" must be a function of the request; given: a number.']
  ],
  'values of settings': [
    [{ leeway: '5' },
      'Option "leeway" must be a whole number of seconds from 0 to 3153600000; given: "5".'],
    [{ leeway: -1 },
      'Option "leeway" must be a whole number of seconds from 0 to 3153600000; given: -1.'],
    [{ cookieSet: 'yes' },
      'Option "cookieSet" must be true or false; given: "yes".'],
    [{ algorithm: 'none' },
      'Option "algorithm" must be "HS256", "HS384", "HS512", "ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384" or "PS512"; given: "none".'],
    [{ claimIss: '' },
      'Option "claimIss" must be a non-empty string or null; given: "".'],
    [{ cookieMaxAge: 0 },
      'Option "cookieMaxAge" must be a whole number of seconds from 1 to 3153600000 or null; given: 0.'],
    [{ cookieSamesite: 'Lax' },
      'Option "cookieSamesite" must be "strict", "lax" or "none"; given: "Lax".'],
    [{ authorizationHeader: 'two words' },
      'Option "authorizationHeader" must be a header name without spaces and separators (RFC 9110 section 5.6.2); given: "two words".'],
    [{ cookieAccessTokenName: 'a=b' },
      'Option "cookieAccessTokenName" must be a cookie name without spaces and separators (RFC 6265 section 4.1.1); given: "a=b".'],
    [{ queryStringAccessTokenName: 'a[]' },
      'Option "queryStringAccessTokenName" must be a query parameter name of letters, digits and ". _ ~ -"; given: "a[]".'],
    [{ userId: '' },
      'Option "userId" must be a non-empty name of one line, other than "__proto__"; given: "".'],
    [{ pathToVerify: '/:id' },
      'Option "pathToVerify" must be a path that starts with "/", without parameters or wildcards; given: "/:id".'],
    [{ urlPrefix: '/auth/' },
      'Option "urlPrefix" must be a path with a leading "/" and no trailing "/", or an empty string for none; given: "/auth/".'],
    [{ loginRedirectUrl: '//evil' },
      'Option "loginRedirectUrl" must be a path that starts with one "/", or an absolute http(s) URL; given: "//evil".'],
    [{ cookiePath: 'x' },
      'Option "cookiePath" must be a path that starts with "/", without spaces and ";"; given: "x".'],
    [{ cookieDomain: 'https://a' },
      'Option "cookieDomain" must be a domain name such as "example.org", or an empty string for none; given: "https://a".'],
    [{ authorizationHeaderPrefix: 'two words' },
      'Option "authorizationHeaderPrefix" must be one word of visible ASCII characters, or an empty string; given: "two words".'],
    [{ instanceName: 'a-b' },
      'Option "instanceName" must be a JavaScript identifier of letters, digits, "_" and "$"; given: "a-b".'],
    [{ generateRefreshToken: 'x' },
      'Option "generateRefreshToken" must be a function (request, user) that returns a non-empty string; given: a string.'],
    [{ secret: null },
      'Option "secret" must be a string, a Buffer, a KeyObject, a file: URL or { path }; given: null.'],
    [{ setLeeway: async () => 5 },
      'Option "setLeeway": what the function returns must be a whole number of seconds from 0 to 3153600000; given: a promise.']
  ],
  'settings together': [
    [{ accessTokenName: 'refresh_token' },
      '"refreshTokenName" and "accessTokenName" are both "refresh_token": the fields of one response need different names.'],
    [{ cookieAccessTokenName: 'refresh_token' },
      '"cookieRefreshTokenName" and "cookieAccessTokenName" are both "refresh_token": cookies need different names.'],
    [{ queryStringAccessTokenName: 'refresh_token' },
      '"queryStringRefreshTokenName" and "queryStringAccessTokenName" are both "refresh_token": query parameters need different names.'],
    [{ userId: 'scopes' },
      '"scopesName" and "userId" are both "scopes": claims need different names.'],
    [{ userId: 'exp' },
      '"userId" must not be "exp", which is a registered claim with a meaning of its own (RFC 7519 section 4.1). Choose another name.'],
    [{ pathToRefresh: '/' },
      '"pathToRefresh" and "pathToAuthenticate" are both "/": the POST endpoints need different paths.'],
    [{ pathToVerify: '/me' },
      '"pathToRetrieveUser" and "pathToVerify" are both "/me": the GET endpoints need different paths.'],
    [{ cookieSet: true, cookieSamesite: 'none', cookieSecure: false },
      '"cookieSamesite" "none" needs "cookieSecure": true, because browsers drop such a cookie otherwise.']
  ],
  'the configuration class': [
    [inClass({ leway: 1 }),
      'Configuration class: unknown setting "leway". Did you mean "leeway"? Its properties are settings, "set<Setting>" and "get<Setting>"; keep other data in #private fields.'],
    [inClass({ leeway: '1' }),
      'Configuration class: "leeway" must be a whole number of seconds from 0 to 3153600000; given: "1".'],
    [inClass({ setLeeway: () => '1' }),
      'Configuration class: "setLeeway": what the function returns must be a whole number of seconds from 0 to 3153600000; given: "1".'],
    [inClass({ getAuthMode: () => true }),
      'Configuration class: "getAuthMode": "authMode" shapes the routes and is decided once, so it cannot be computed per request. Use "authMode" or "setAuthMode".'],
    [inClass({ leeway: 1, setLeeway: 1 }),
      'Configuration class: "leeway" is given twice, as "leeway" and as "setLeeway". Keep one of them.'],
    [{ configurationClass: class {} },
      'Option "configurationClass" must be a subclass of Configuration; given: configurationClass, which does not extend it.']
  ],
  'handlers, lists and classes': [
    [{ authenticate: undefined },
      'AuthenticateNotImplemented: The handler "authenticate" is missing. Give it as an option or as a method of the authentication class, or set "authMode" to false for an instance that only verifies tokens.'],
    [{ authenticate: 'x' },
      'Option "authenticate" must be a function; given: a string.'],
    [{ refreshTokenEnabled: true },
      'RefreshTokenNotImplemented: "refreshTokenEnabled" is true, but the host gives no "storeRefreshToken" and no "retrieveRefreshToken". Give both handlers as options or as methods of the authentication class.'],
    [{ authenticationClass: {} },
      'Option "authenticationClass" must be a subclass of Authentication; given: an object.'],
    [{ authenticationClass: Wrong },
      'Authentication class: "retrieveUser" must be a function; given: a string.'],
    [{ responsesClass: 'x' },
      'Option "responsesClass" must be a subclass of Responses; given: a string.'],
    [{ extraVerifications: () => true },
      'Option "extraVerifications" must be a list of functions (payload) => boolean; given: a function.'],
    [{ extraVerifications: [true] },
      'Option "extraVerifications" must be a list of functions (payload) => boolean; entry 0 is a boolean.'],
    [{ instanceName: 'taken' },
      '"instanceName" is "taken", which is a property of Fastify or of another plugin already. Choose another name.'],
    [{ customClaims: {} },
      'InvalidCustomClaim: "customClaims" must be a list of claims; given: an object.'],
    [{ customClaims: ['x'] },
      'InvalidCustomClaim: "customClaims[0]" must be a class or an object; given: a string.'],
    [{ customClaims: [() => {}] },
      'InvalidCustomClaim: "customClaims[0]" must be a class or an object; given: a function that is no class.'],
    [{ customClaims: [{}] },
      'InvalidCustomClaim: "customClaims[0]" needs a "key": the name of the claim, a non-empty string; given: undefined.'],
    [{ customClaims: [{ key: 'a' }] },
      'InvalidCustomClaim: The custom claim "a" needs a function "setup"; given: undefined.'],
    [{ customClaims: [{ key: 'exp', setup, verify }] },
      'InvalidCustomClaim: The custom claim "exp" has the name of a claim that the library writes itself, or of another custom claim. Choose another "key".'],
    [{ classViews: {} },
      'InvalidClassViews: "classViews" must be a list of pairs [path, ViewClass]: a path that starts with "/", and a subclass of View; given: an object.'],
    [{ classViews: ['/ping'] },
      'InvalidClassViews: "classViews" must be a list of pairs [path, ViewClass]: a path that starts with "/", and a subclass of View; entry 0 is a string.'],
    [{ classViews: [['/ping', Ping, 1]] },
      'InvalidClassViews: "classViews" must be a list of pairs [path, ViewClass]: a path that starts with "/", and a subclass of View; entry 0 has 3 elements, not two.'],
    [{ classViews: [['ping', Ping]] },
      'InvalidClassViews: "classViews" must be a list of pairs [path, ViewClass]: a path that starts with "/", and a subclass of View; entry 0 has the path "ping".'],
    [{ classViews: [[1, Ping]] },
      'InvalidClassViews: "classViews" must be a list of pairs [path, ViewClass]: a path that starts with "/", and a subclass of View; entry 0 has a number as its path.'],
    [{ classViews: [['/ping', 'x']] },
      'InvalidClassViews: "classViews" must be a list of pairs [path, ViewClass]: a path that starts with "/", and a subclass of View; entry 0 has a string as its view class.'],
    [{ classViews: [['/ping', class Page {}]] },
      'InvalidClassViews: "classViews" must be a list of pairs [path, ViewClass]: a path that starts with "/", and a subclass of View; entry 0 has Page as its view class, which does not extend View.'],
    [{ classViews: [['/ping', Silent]] },
      'InvalidClassViews: The view Silent has none of the methods get, post, put, patch, delete, options.'],
    [{ classViews: [['/ping', Misguarded]] },
      'InvalidClassViews: The view Misguarded guards "post", which it does not have. Add the method, or remove its guard.'],
    [{ classViews: [['/me', Ping]] },
      'InvalidClassViews: The class view on "/me" stands on the path of a default endpoint. Choose another path, move the endpoint by its "pathTo..." setting, or set "authMode" to false.']
  ],
  secrets: [
    [{ secret: '' },
      '"secret" is empty or blank. Give a random secret of at least 32 bytes.'],
    [{ secret: rsa.publicKey },
      '"secret" is a PEM key or certificate, but HS256 signs with a secret (RFC 8725 section 2.1). Use an RS, PS or ES algorithm with this key, or a random secret with HS256.'],
    [{ secret: createPublicKey(rsa.publicKey) },
      '"secret" is a public key, but HS256 signs with a secret (RFC 8725 section 2.1). Use an RS, PS or ES algorithm with this key, or a random secret with HS256.'],
    [{ secret: der },
      '"secret" is a DER key or certificate, but HS256 signs with a secret (RFC 8725 section 2.1). Use an RS, PS or ES algorithm with this key, or a random secret with HS256.'],
    [{ secret: der.toString('base64') },
      '"secret" is a base64 key or certificate, but HS256 signs with a secret (RFC 8725 section 2.1). Use an RS, PS or ES algorithm with this key, or a random secret with HS256.'],
    [{ secret: 'ssh-ed25519 AAAA' },
      '"secret" is an ssh key, but HS256 signs with a secret (RFC 8725 section 2.1). Use an RS, PS or ES algorithm with this key, or a random secret with HS256.'],
    [{ secret: '{"kty":"oct"}' },
      '"secret" is a JWK, but HS256 signs with a secret (RFC 8725 section 2.1). Use an RS, PS or ES algorithm with this key, or a random secret with HS256.'],
    [{ secret: new URL('https://example.org/key') },
      '"secret" is a URL with "https:"; only "file:" URLs are read. Nothing is ever fetched.'],
    [{ secret: { path: '/nonexistent/key' } },
      'The file given as "secret" cannot be read (ENOENT). Check its path and permissions.']
  ],
  'pairs of keys': [
    [{ ...rs, publicKey: undefined },
      'RequiredKeysNotFound: RS256 needs "publicKey" to verify tokens. Give it to register(), as text, Buffer, KeyObject, file: URL or { path }.'],
    [{ ...rs, privateKey: undefined },
      'RequiredKeysNotFound: RS256 needs "privateKey" to issue tokens. Give it to register(); an instance that only verifies sets "authMode" to false.'],
    [{ ...rs, publicKey: rsa.privateKey },
      '"publicKey" is a private key; give the public key of the pair.'],
    [{ ...rs, publicKey: createSecretKey(Buffer.from(secret)) },
      '"publicKey" is a secret key; give the public key of the pair.'],
    [{ ...rs, privateKey: rsa.publicKey },
      '"privateKey" is a public key or certificate; give the private key of the pair.'],
    [{ ...rs, privateKey: createPublicKey(rsa.publicKey) },
      '"privateKey" is a public key; give the private key of the pair.'],
    [{ ...rs, privateKey: encrypted },
      '"privateKey" is encrypted; decrypt it, or give a KeyObject made by crypto.createPrivateKey({ key, passphrase }).'],
    [{ ...rs, publicKey: 'x' },
      '"publicKey" is not a public key or certificate in PEM form; give one ("-----BEGIN PUBLIC KEY-----").'],
    [{ ...rs, privateKey: 'x' },
      '"privateKey" is not a private key in PEM form; give one ("-----BEGIN PRIVATE KEY-----").'],
    [{ ...rs, publicKey: ec.publicKey },
      '"publicKey" is a key of the type ec; RS256 needs an RSA key.'],
    [{ ...rs, ...rsaPair(1024) },
      '"publicKey" is an RSA key of 1024 bits; RS256 needs at least 2048 (RFC 7518 section 3.3).'],
    [{ ...rs, privateKey: rsaPair(2048, 1).privateKey },
      '"privateKey" and "publicKey" are not the halves of one pair, so no token signed with the one would be accepted with the other. Give both halves of one pair.'],
    [{ ...es, publicKey: rsa.publicKey },
      '"publicKey" is a key of the type rsa; ES256 needs an EC key on the curve prime256v1 (RFC 7518 section 3.4).'],
    [{ ...es, ...ecPair('secp384r1') },
      '"publicKey" is a key on the curve secp384r1; ES256 needs an EC key on the curve prime256v1 (RFC 7518 section 3.4).'],
    [{ ...es, publicKey: edPublic },
      '"publicKey" is a key of the type ed25519; ES256 needs an EC key on the curve prime256v1 (RFC 7518 section 3.4).']
  ]
}

const configurations: Case<object>[] = [
  [{ SERVICE_JWT_LEEWAY: '5s' },
    '"SERVICE_JWT_LEEWAY" of the application\'s configuration must be a whole number of seconds from 0 to 3153600000; given: "5s".'],
  [{ SERVICE_JWT_DEBUG: 'yes' },
    '"SERVICE_JWT_DEBUG" of the application\'s configuration must be one of true, false, 1, 0; given: "yes".'],
  [{ SERVICE_JWT_DEBUG: null },
    '"SERVICE_JWT_DEBUG" of the application\'s configuration must be one of true, false, 1, 0; given: null.'],
  [{ SERVICE_JWT_EXPIRATION: '60' },
    'The application\'s configuration has the unknown key "SERVICE_JWT_EXPIRATION". Did you mean "SERVICE_JWT_EXPIRATION_DELTA"? Keys with the prefix SERVICE_JWT_ are settings of this plugin: rename or remove it.'],
  [{ SERVICE_JWT_ZZZZZZZZZZZZZZZZZZZ: '1' },
    'The application\'s configuration has the unknown key "SERVICE_JWT_ZZZZZZZZZZZZZZZZZZZ". Keys with the prefix SERVICE_JWT_ are settings of this plugin: rename or remove it.']
]

const guardOptions: Case<object>[] = [
  [{ leeway: '5' },
    'Override "leeway" must be a whole number of seconds from 0 to 3153600000; given: "5".'],
  [{ leway: 5 },
    'Unknown override "leway". Did you mean "leeway"? A guard takes settings as overrides, and "redirectOnFail" and "redirectUrl".'],
  [{ urlPrefix: '/x' },
    '"urlPrefix" shapes the routes of an instance and cannot be overridden by a guard. Give it to register().'],
  [{ redirectOnFail: 'yes' },
    '"redirectOnFail" must be true or false; given: a string.'],
  [{ redirectUrl: '//evil' },
    '"redirectUrl" must be a path that starts with one "/", or an absolute http(s) URL; given: "//evil".'],
  [{ redirectUrl: 5 },
    '"redirectUrl" must be a path that starts with one "/", or an absolute http(s) URL; given: 5.'],
  [{ secret: null },
    'Override "secret" must be a string, a Buffer, a KeyObject, a file: URL or { path }; given: null.']
]

const guards: Case<() => unknown>[] = [
  [() => protect(mistyped('x')),
    'The options of a guard must be an object of overrides; given: a string.'],
  [() => protect(mistyped({ on: 5 })),
    '"on" of a free-standing guard must be a Fastify instance; given: a number.'],
  [() => scoped(mistyped(undefined)),
    'scoped() needs a scope, a non-empty list of scopes, or a function of the request; given: undefined. A scope is "<namespace>:<action>:...", such as "user", "user:read" or ":read": no white space, no empty action.'],
  [() => scoped(['user', 'user:read ']),
    'scoped() needs a scope, a non-empty list of scopes, or a function of the request; given: [ \'user\', \'user:read \' ]. A scope is "<namespace>:<action>:...", such as "user", "user:read" or ":read": no white space, no empty action.'],
  [() => scoped('user', mistyped({ requireAll: 'yes' })),
    '"requireAll" of scoped() must be true or false; given: a string.'],
  [() => injectUser(mistyped<UserRouteHandler<object>>(5)),
    'injectUser() needs a route handler (request, reply, user); given: a number.']
]

for (const [subject, cases] of Object.entries(registrations)) {
  t.test(`registration says what is wrong with ${subject}`, async (t) => {
    for (const [options, message] of cases) t.equal(await refused(t, options), message)
  })
}

t.test('registration says what is wrong with the application\'s configuration', async (t) => {
  for (const [config, message] of configurations) t.equal(await refused(t, {}, config), message)
})

t.test('a guard says what is wrong with its options when it is made', async (t) => {
  const app = await build(t)
  for (const [options, message] of guardOptions) {
    t.equal(await said(() => app.tokenAuth.protect(options)), message)
    t.equal(await said(() => protect(options)), message)
  }
  for (const [make, message] of guards) t.equal(await said(make), message)
})

t.test('production says that a secret is missing, and a name that it is taken', async (t) => {
  const twice = await build(t)
  t.equal(await said(async () => await twice.register(tokenAuth, { secret, authMode: false })),
    'An instance named "tokenAuth" is registered on this context already. Give this one another "instanceName", and another "urlPrefix" where both have endpoints.')
  environment(t, 'production')
  t.equal(await refused(t, { secret: undefined }),
    '"secret" is missing, and NODE_ENV is "production". Give the option "secret", or SERVICE_JWT_SECRET in the application\'s configuration: at least 32 random bytes, the same for every process.')
})
