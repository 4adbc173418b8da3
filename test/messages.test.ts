/**
 * Every message of a wrong configuration, as a newcomer reads it: it says what was given, what is allowed, what to do and
 * where to read more. They stand here in full, so that whoever changes one reads it once more; the last test finds
 * places in lib/ whose message does not.
 */
import { createPrivateKey, createPublicKey, createSecretKey, generateKeyPairSync } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { FastifyContextConfig, FastifyInstance, FastifyReply, FastifyRequest, onResponseHookHandler, RouteShorthandOptions } from 'fastify'
import t, { type Test } from 'tap'
import ts from 'typescript'
import tokenAuth, {
  Authentication, Configuration, HandlerFailed, injectUser, InvalidConfiguration, memorySessions, postgresSessions, postgresSessionSchema, protect, redisSessions, scoped, TokenAuthError, type UserRouteHandler, View
} from '../lib/index.ts'
import { hmacKey } from '../lib/keys/material.ts'
import { remoteKeySet } from '../lib/authorities/remote-key-set.ts'
import { attack, createTestToken, type AttackedRequest, type AttackOptions, type AttackTarget } from '../lib/testing.ts'
import { authenticate, bearer, build, claims, ecPair, environment, forge, host, mistyped, otherSecret, rsaPair, secret } from './helper.ts'

const root = new URL('../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')

/** What is given, and the message. */
type Case<Given> = [Given, string]

/** The error of a registration in an application with this configuration. */
async function refused (t: Test, options: object, config: object = {}): Promise<string> {
  const app = host(t)
  app.decorate('config', config)
  app.decorate('taken', true)
  const message = await said(async () => await app.register(tokenAuth, { secret, authenticate, ...options }))
  // While it is open, it would be another instance with the same key.
  await app.close()
  return message
}

/** The errors of wrong configurations. The last one is seen by clients, so it names no page of the documents. */
const names = [
  'InvalidConfiguration', 'AuthenticateNotImplemented', 'RefreshTokenNotImplemented', 'RequiredKeysNotFound', 'InvalidClassViews',
  'InvalidCustomClaim', 'InitializationFailure'
]

/** What was read: the places in lib/ where the errors were made, as `file:line`, the pages that they name, and who names none. */
const places = new Set<string>()
const pages = new Set<string>()
const without = new Set<string>()

/** The message of an error, with its name where that is not the usual one. */
function messageOf (error: unknown): string {
  if (!(error instanceof TokenAuthError)) return String(error)
  const [, place = ''] = /^ +at .*[\\/]lib[\\/]([\w\\/-]+\.ts:\d+)/m.exec(error.stack ?? '') ?? []
  places.add(place.replaceAll('\\', '/'))
  const message = error.message.replace('node_modules/fastify-token-auth/', '')
  const [, page] = / See (docs\/.+)$/.exec(message) ?? []
  if (page !== undefined) pages.add(page)
  else if (names.includes(error.name)) without.add(error.name)
  return error instanceof InvalidConfiguration ? message : `${error.name}: ${message}`
}

/** The message of what a function throws, or of what it hides from clients. */
async function said (act: () => unknown): Promise<string> {
  try {
    await act()
    return 'nothing'
  } catch (error) {
    return messageOf(error instanceof HandlerFailed ? error.cause : error)
  }
}

type Act = (request: FastifyRequest, reply: FastifyReply, app: FastifyInstance) => unknown

/** What something says that is done while a request waits. */
async function during (t: Test, options: object, act: Act): Promise<string> {
  const app = await build(t, options)
  let message = ''
  app.get('/', async (request, reply) => {
    message = await said(() => act(request, reply, app))
    return reply.sent ? reply : 'done'
  })
  await app.inject({ url: '/', headers: bearer(forge(claims())) })
  await app.close()
  return message
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
class Unguarded extends Ping { override readonly guards = mistyped<View['guards']>({ get: [] }) }
class Dropped extends Ping { static guards = {} }
class Astray extends Ping { onRequest = this.instance.protect() }
class Slip extends Ping { guard = { get: this.instance.protect() } }
class Wrong extends Authentication { constructor () { super(); Reflect.set(this, 'retrieveUser', 'x') } }

const [setup, verify] = [() => 1, () => true]
const rsa = rsaPair()
const ec = ecPair('prime256v1')
const ed = generateKeyPairSync('ed25519')
const edPublic = ed.publicKey.export({ type: 'spki', format: 'pem' })
const rs = { secret: undefined, algorithm: 'RS256', ...rsa }
const es = { secret: undefined, algorithm: 'ES256', ...ec }
const encrypted = createPrivateKey(rsa.privateKey).export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' })
/** The public half of a pair with the exponent 1. */
const jwk = createPublicKey(rsa.publicKey).export({ format: 'jwk' })
const otherJwk = createPublicKey(rsaPair(2048, 1).publicKey).export({ format: 'jwk' })
const everyoneSigns = createPublicKey({ key: { ...jwk, e: 'AQ' }, format: 'jwk' })
const der = createPublicKey(rsa.publicKey).export({ type: 'spki', format: 'der' })

/** By what is wrong. */
/** An issuer of whose keys nothing is read, because every registration with it fails. */
const trusted = { issuer: 'https://issuer.example', audience: 'api', jwksUri: 'https://issuer.example/jwks' }

const registrations: Record<string, Case<object>[]> = {
  'names of options': [
    [{ expiration_delta: 60 },
      'Unknown option "expiration_delta". Did you mean "expirationDelta"? Options are the settings, "set<Setting>", "get<Setting>", the handlers, and sessions, keys, issuers, customClaims, extraVerifications, classViews, configurationClass, authenticationClass, responsesClass. See docs/settings.md'],
    [{ zzzzzzzzzz: 1 },
      'Unknown option "zzzzzzzzzz". Options are the settings, "set<Setting>", "get<Setting>", the handlers, and sessions, keys, issuers, customClaims, extraVerifications, classViews, configurationClass, authenticationClass, responsesClass. See docs/settings.md'],
    [{ leeway: 1, setLeeway: 2 },
      'Option "leeway" is given twice, as "leeway" and as "setLeeway". Remove one of them. See docs/settings.md'],
    [{ getUrlPrefix: () => '/x' },
      'Option "getUrlPrefix" is not allowed: "urlPrefix" determines the routes at registration, so it cannot be computed from a request. Use "urlPrefix" or "setUrlPrefix". See docs/settings.md'],
    [{ getLeeway: 5 },
      'Option "getLeeway" must be a function of the request; given: a number. See docs/settings.md']
  ],
  'values of settings': [
    [{ leeway: '5' },
      'Option "leeway" must be a whole number of seconds from 0 to 3153600000; given: "5". See docs/settings.md'],
    [{ leeway: -1 },
      'Option "leeway" must be a whole number of seconds from 0 to 3153600000; given: -1. See docs/settings.md'],
    [{ cookieSet: 'yes' },
      'Option "cookieSet" must be true or false; given: "yes". See docs/settings.md'],
    [{ algorithm: 'none' },
      'Option "algorithm" must be "HS256", "HS384", "HS512", "ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512" or "EdDSA"; given: "none". See docs/settings.md'],
    [{ claimIss: '' },
      'Option "claimIss" must be a non-empty string or null; given: "". See docs/settings.md'],
    [{ cookieMaxAge: 0 },
      'Option "cookieMaxAge" must be a whole number of seconds from 1 to 3153600000 or null; given: 0. See docs/settings.md'],
    [{ cookieSamesite: 'Lax' },
      'Option "cookieSamesite" must be "strict", "lax" or "none"; given: "Lax". See docs/settings.md'],
    [{ authorizationHeader: '__Proto__' },
      'Option "authorizationHeader" must be a header name without spaces and separators (RFC 9110 section 5.6.2), other than "__proto__"; given: "__Proto__". See docs/settings.md'],
    [{ cookieAccessTokenName: 'a=b' },
      'Option "cookieAccessTokenName" must be a cookie name without spaces and separators (RFC 6265 section 4.1.1); given: "a=b". See docs/settings.md'],
    [{ queryStringAccessTokenName: 'a[]' },
      'Option "queryStringAccessTokenName" must be a query parameter name of letters, digits and ". _ ~ -"; given: "a[]". See docs/settings.md'],
    [{ userId: '' },
      'Option "userId" must be a non-empty name of one line, other than "__proto__"; given: "". See docs/settings.md'],
    [{ pathToVerify: '/:id' },
      'Option "pathToVerify" must be a path that starts with "/", without parameters or wildcards; given: "/:id". See docs/settings.md'],
    [{ urlPrefix: '/auth/' },
      'Option "urlPrefix" must be a path with a leading "/" and no trailing "/", or an empty string for none; given: "/auth/". See docs/settings.md'],
    [{ loginRedirectUrl: '//evil' },
      'Option "loginRedirectUrl" must be a path that starts with one "/", or an absolute http(s) URL; given: "//evil". See docs/settings.md'],
    [{ cookiePath: 'x' },
      'Option "cookiePath" must be a path that starts with "/", without spaces and ";"; given: "x". See docs/settings.md'],
    [{ cookieDomain: 'https://a' },
      'Option "cookieDomain" must be a domain name such as "example.org", or an empty string for none; given: "https://a". See docs/settings.md'],
    [{ authorizationHeaderPrefix: 'two words' },
      'Option "authorizationHeaderPrefix" must be one word of visible ASCII characters, or an empty string; given: "two words". See docs/settings.md'],
    [{ instanceName: 'a-b' },
      'Option "instanceName" must be a JavaScript identifier of letters, digits, "_" and "$"; given: "a-b". See docs/settings.md'],
    [{ generateRefreshToken: 'x' },
      'Option "generateRefreshToken" must be a function (request, user) that returns a non-empty string; given: a string. See docs/settings.md'],
    [{ secret: null },
      'Option "secret" must be a string, a Buffer, a KeyObject, a JWK, a file: URL, { path } or { pem, passphrase }; given: null. See docs/settings.md'],
    [{ trustedOrigins: 'https://app.example.org' },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: "https://app.example.org". See docs/settings.md'],
    [{ trustedOrigins: null },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: null. See docs/settings.md'],
    [{ trustedOrigins: [`not an origin, ${'x'.repeat(60)}`] },
      `Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "not an origin, ${'x'.repeat(42)}...", which no browser sends as an origin. See docs/settings.md`],
    [{ trustedOrigins: ['https://app.example.org', 1] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 1 is a number. See docs/settings.md'],
    [{ trustedOrigins: ['*'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "*": give "*" itself, not in a list. See docs/settings.md'],
    [{ trustedOrigins: ['null'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "null", which browsers send for every sandboxed frame, whoever wrote its page. See docs/settings.md'],
    [{ trustedOrigins: ['https://*.example.org'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "https://*.example.org": patterns are not supported, so list each origin. See docs/settings.md'],
    [{ trustedOrigins: ['https://app.example.org/'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "https://app.example.org/", which no browser sends as an origin: it sends "https://app.example.org". See docs/settings.md'],
    [{ trustedOrigins: ['https://app.example.org/login'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "https://app.example.org/login", which no browser sends as an origin: it sends "https://app.example.org". See docs/settings.md'],
    [{ trustedOrigins: ['https://App.Example.org'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "https://App.Example.org", which no browser sends as an origin: it sends "https://app.example.org". See docs/settings.md'],
    [{ trustedOrigins: ['https://app.example.org:443'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "https://app.example.org:443", which no browser sends as an origin: it sends "https://app.example.org". See docs/settings.md'],
    [{ trustedOrigins: ['http://app.example.org:80'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "http://app.example.org:80", which no browser sends as an origin: it sends "http://app.example.org". See docs/settings.md'],
    [{ trustedOrigins: ['https://user@app.example.org'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "https://user@app.example.org", which no browser sends as an origin: it sends "https://app.example.org". See docs/settings.md'],
    [{ trustedOrigins: ['wss://app.example.org'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "wss://app.example.org", which no browser sends as an origin: it sends "https://app.example.org". See docs/settings.md'],
    [{ trustedOrigins: ['https://bücher.example'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "https://bücher.example", which no browser sends as an origin: it sends "https://xn--bcher-kva.example". See docs/settings.md'],
    [{ trustedOrigins: ['http://127.1'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "http://127.1", which no browser sends as an origin: it sends "http://127.0.0.1". See docs/settings.md'],
    [{ trustedOrigins: ['https://app.example.org?x'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "https://app.example.org?x", which no browser sends as an origin: it sends "https://app.example.org". See docs/settings.md'],
    [{ trustedOrigins: ['app.example.org'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "app.example.org", which no browser sends as an origin. See docs/settings.md'],
    [{ trustedOrigins: ['localhost:5173'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "localhost:5173", which no browser sends as an origin. See docs/settings.md'],
    [{ trustedOrigins: ['//app.example.org'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "//app.example.org", which no browser sends as an origin. See docs/settings.md'],
    [{ trustedOrigins: ['https://'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "https://", which no browser sends as an origin. See docs/settings.md'],
    [{ trustedOrigins: ['file://'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "file://", which no browser sends as an origin. See docs/settings.md'],
    [{ trustedOrigins: ['ftp://app.example.org'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "ftp://app.example.org", which no browser sends as an origin. See docs/settings.md'],
    [{ trustedOrigins: [''] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "", which no browser sends as an origin. See docs/settings.md'],
    [{ trustedOrigins: ['capacitor://Localhost'] },
      'Option "trustedOrigins" must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "capacitor://Localhost", which no browser sends as an origin. See docs/settings.md'],
    [{ setLeeway: async () => 5 },
      'Option "setLeeway" must return a whole number of seconds from 0 to 3153600000; returned: a promise. See docs/settings.md']
  ],
  'settings together': [
    [{ accessTokenName: 'refresh_token' },
      '"refreshTokenName" and "accessTokenName" are both "refresh_token": the fields of a response need different names. See docs/findings.md#token_auth_e10'],
    [{ cookieAccessTokenName: 'refresh_token' },
      '"cookieRefreshTokenName" and "cookieAccessTokenName" are both "refresh_token": cookies need different names. See docs/findings.md#token_auth_e10'],
    [{ queryStringAccessTokenName: 'refresh_token' },
      '"queryStringRefreshTokenName" and "queryStringAccessTokenName" are both "refresh_token": query parameters need different names. See docs/findings.md#token_auth_e10'],
    [{ userId: 'scopes' },
      '"scopesName" and "userId" are both "scopes": claims need different names. See docs/findings.md#token_auth_e10'],
    [{ userId: 'exp' },
      '"userId" must not be "exp", which is the name of a registered claim (RFC 7519 section 4.1). Choose another name. See docs/findings.md#token_auth_e10'],
    [{ claimAuthTime: true, userId: 'auth_time' },
      '"userId" must not be "auth_time" if "claimAuthTime" is true, because this claim then contains the time of the login. Choose another name. See docs/findings.md#token_auth_e10'],
    [{ pathToRefresh: '/' },
      '"pathToRefresh" and "pathToAuthenticate" are both "/": the POST endpoints need different paths. See docs/findings.md#token_auth_e10'],
    [{ pathToVerify: '/me' },
      '"pathToRetrieveUser" and "pathToVerify" are both "/me": the GET endpoints need different paths. See docs/findings.md#token_auth_e10'],
    [{ cookieSet: true, cookieSamesite: 'none', cookieSecure: false },
      '"cookieSamesite" is "none" and "cookieSecure" is false, so browsers reject the cookies. Set "cookieSecure" to true. See docs/findings.md#token_auth_e09'],
    [{ cookieSet: true, cookieAccessTokenName: '__Host-token', cookieDomain: 'example.org' },
      '"cookieAccessTokenName" is "__Host-token", but browsers accept the prefix "__Secure-" only with "cookieSecure": true, and "__Host-" only with "cookiePath": "/" and no "cookieDomain" as well. Change these settings, or choose a name without this prefix. See docs/findings.md#token_auth_e09']
  ],
  'the configuration class': [
    [inClass({ leway: 1 }),
      'Configuration class: unknown setting "leway". Did you mean "leeway"? The properties of the class must be settings, "set<Setting>" or "get<Setting>". Use #private fields for other data. See docs/settings.md'],
    [inClass({ leeway: '1' }),
      'Configuration class: "leeway" must be a whole number of seconds from 0 to 3153600000; given: "1". See docs/settings.md'],
    [inClass({ setLeeway: () => '1' }),
      'Configuration class: "setLeeway" must return a whole number of seconds from 0 to 3153600000; returned: "1". See docs/settings.md'],
    [inClass({ getAuthMode: () => true }),
      'Configuration class: "getAuthMode" is not allowed: "authMode" determines the routes at registration, so it cannot be computed from a request. Use "authMode" or "setAuthMode". See docs/settings.md'],
    [inClass({ leeway: 1, setLeeway: 1 }),
      'Configuration class: "leeway" is given twice, as "leeway" and as "setLeeway". Remove one of them. See docs/settings.md'],
    [{ configurationClass: class {} },
      'Option "configurationClass" must be a subclass of Configuration; given: configurationClass, which does not extend it. See docs/settings.md']
  ],
  'handlers, lists and classes': [
    [{ authenticate: undefined },
      'AuthenticateNotImplemented: The handler "authenticate" is missing. Provide it as an option or as a method of the authentication class, or set "authMode" to false for an instance that only verifies tokens. See docs/reference.md#handlers'],
    [{ authenticate: 'x' },
      'Option "authenticate" must be a function; given: a string. See docs/reference.md#handlers'],
    [{ refreshTokenEnabled: true },
      'RefreshTokenNotImplemented: "refreshTokenEnabled" is true, but handlers are missing: "storeRefreshToken" and "retrieveRefreshToken". Provide both handlers as options or as methods of the authentication class. See docs/reference.md#handlers'],
    [{ refreshTokenEnabled: true, storeRefreshToken: () => {} },
      'RefreshTokenNotImplemented: "refreshTokenEnabled" is true, but a handler is missing: "retrieveRefreshToken". Provide both handlers as options or as methods of the authentication class. See docs/reference.md#handlers'],
    [{ authenticationClass: {} },
      'Option "authenticationClass" must be a subclass of Authentication; given: an object. See docs/reference.md#handlers'],
    [{ authenticationClass: Wrong },
      'Authentication class: "retrieveUser" must be a function; given: a string. See docs/reference.md#handlers'],
    [{ responsesClass: 'x' },
      'Option "responsesClass" must be a subclass of Responses; given: a string. See docs/reference.md#responses'],
    [{ extraVerifications: () => true },
      'Option "extraVerifications" must be a list of functions (payload) => boolean; given: a function. See docs/reference.md#handlers'],
    [{ extraVerifications: [true] },
      'Option "extraVerifications" must be a list of functions (payload) => boolean; entry 0 is a boolean. See docs/reference.md#handlers'],
    [{ instanceName: 'taken' },
      '"instanceName" is "taken", which is already a property of Fastify or of another plugin. Choose another name. See docs/instances.md'],
    [{ customClaims: {} },
      'InvalidCustomClaim: "customClaims" must be a list of claims; given: an object. See docs/reference.md#handlers'],
    [{ customClaims: ['x'] },
      'InvalidCustomClaim: "customClaims[0]" must be a class or an object; given: a string. See docs/reference.md#handlers'],
    [{ customClaims: [() => {}] },
      'InvalidCustomClaim: "customClaims[0]" must be a class or an object; given: a function that is not a class. See docs/reference.md#handlers'],
    [{ customClaims: [{}] },
      'InvalidCustomClaim: "key" of "customClaims[0]" must be the name of the claim, a non-empty string; given: undefined. See docs/reference.md#handlers'],
    [{ customClaims: [{ key: 'a' }] },
      'InvalidCustomClaim: "setup" of the custom claim "a" must be a function; given: undefined. See docs/reference.md#handlers'],
    [{ customClaims: [{ key: 'exp', setup, verify }] },
      'InvalidCustomClaim: The "key" of a custom claim must not be "exp", which is the name of a claim of this plugin or of another custom claim. Choose another name. See docs/reference.md#handlers'],
    [{ classViews: {} },
      'InvalidClassViews: "classViews" must be a list of pairs [path, ViewClass]: a path that starts with "/", and a subclass of View; given: an object. See docs/reference.md#responses'],
    [{ classViews: ['/ping'] },
      'InvalidClassViews: "classViews" must be a list of pairs [path, ViewClass]: a path that starts with "/", and a subclass of View; entry 0 is a string. See docs/reference.md#responses'],
    [{ classViews: [['/ping', Ping, 1]] },
      'InvalidClassViews: "classViews" must be a list of pairs [path, ViewClass]: a path that starts with "/", and a subclass of View; entry 0 has 3 elements, not two. See docs/reference.md#responses'],
    [{ classViews: [['ping', Ping]] },
      'InvalidClassViews: "classViews" must be a list of pairs [path, ViewClass]: a path that starts with "/", and a subclass of View; entry 0 has the path "ping". See docs/reference.md#responses'],
    [{ classViews: [[1, Ping]] },
      'InvalidClassViews: "classViews" must be a list of pairs [path, ViewClass]: a path that starts with "/", and a subclass of View; entry 0 has a number as its path. See docs/reference.md#responses'],
    [{ classViews: [['/ping', 'x']] },
      'InvalidClassViews: "classViews" must be a list of pairs [path, ViewClass]: a path that starts with "/", and a subclass of View; entry 0 has a string as its view class. See docs/reference.md#responses'],
    [{ classViews: [['/ping', class Page {}]] },
      'InvalidClassViews: "classViews" must be a list of pairs [path, ViewClass]: a path that starts with "/", and a subclass of View; entry 0 has Page as its view class, which does not extend View. See docs/reference.md#responses'],
    [{ classViews: [['/ping', Silent]] },
      'InvalidClassViews: The view Silent has none of the methods get, post, put, patch, delete, options. Add at least one. See docs/reference.md#responses'],
    [{ classViews: [['/ping', Misguarded]] },
      'InvalidClassViews: The view Misguarded has guards for "post", but no such method. Add the method, or remove its guards. See docs/reference.md#responses'],
    [{ classViews: [['/ping', Unguarded]] },
      'InvalidClassViews: "guards" of the view Unguarded must be an object that maps methods to a guard, a non-empty list of guards, or false for everybody, as in guards = { get: this.instance.protect() }; given: an array for "get". See docs/reference.md#responses'],
    [{ classViews: [['/ping', Astray]] },
      'InvalidClassViews: The view Astray has a guard as its field "onRequest", where it does not guard. Give it in the field "guards": guards = { get: this.instance.protect() }. See docs/reference.md#responses'],
    [{ classViews: [['/ping', Slip]] },
      'InvalidClassViews: The view Slip has a member "guard", which has no meaning. Did you mean "guards"? If not, choose another name. See docs/reference.md#responses'],
    [{ classViews: [['/ping', class extends View {}]] },
      'InvalidClassViews: The view on "/ping" has none of the methods get, post, put, patch, delete, options. Add at least one. See docs/reference.md#responses'],
    [{ classViews: [['/ping', Dropped]] },
      'InvalidClassViews: "guards" of the view Dropped must be an instance field, as in guards = { get: this.instance.protect() }. A static field, an accessor or a method has no effect. See docs/reference.md#responses'],
    [{ classViews: [['/me', Ping]] },
      'InvalidClassViews: The class view "/me" has the path of a default endpoint. Choose another path, change that of the endpoint with its "pathTo..." setting, or set "authMode" to false. See docs/reference.md#responses']
  ],
  // test/sessions/settings.test.ts has every form of these.
  sessions: [
    [{ sessions: [] },
      '"sessions" must be a plain object, such as { store }; given: an array. {} keeps sessions in the memory of the process. See docs/sessions-reference.md#settings'],
    [{ sessions: { idel: 5 } },
      '"sessions" has no member "idel". Did you mean "idle"? Its members are store, secret, grace, idle, lifetime, maxPerUser, poll, refuseAfter, data. See docs/sessions-reference.md#settings'],
    [{ sessions: { poll: '5' } },
      '"sessions.poll" must be a whole number of seconds from 1 to 60; given: a string. See docs/sessions-reference.md#settings'],
    [{ sessions: { store: {} } },
      '"sessions.store" must be an object with the methods create, advance, end, list, endedSince and confirm; given: an object without the method "create". For a database client, give redisSessions(client) or postgresSessions(client). See docs/sessions-reference.md#settings'],
    [{ sessions: mistyped(memorySessions()) },
      'Option "sessions" is a store. Give it as "sessions": { store }. See docs/sessions-reference.md#settings'],
    [{ authMode: false, sessions: mistyped({}) },
      '"sessions" is given without "store", and "authMode" is false. An instance that only verifies tokens reads the ended sessions from the store of the service that issues them: give "sessions": { store } and the key of that service. Tokens of "issuers" belong to no session. See docs/sessions-reference.md#settings'],
    [{ sessions: { secret: 'short' } },
      '"sessions.secret" has 5 bytes; at least 32 are needed. Generate one with: node -p "crypto.randomBytes(32).toString(\'base64url\')" See docs/sessions-reference.md#settings'],
    [{ sessions: {}, generateRefreshToken: () => 'x' },
      '"sessions" and "generateRefreshToken" are given. With sessions, refresh tokens have a format of their own: remove "generateRefreshToken". See docs/sessions-reference.md#settings'],
    [{ sessions: {}, storeRefreshToken: () => {} },
      '"sessions" and the handler "storeRefreshToken" are given. With sessions, the store keeps what refresh tokens need: remove the handler. See docs/sessions-reference.md#settings'],
    [{ sessions: {}, refreshTokenEnabled: false },
      '"sessions" is given, and "refreshTokenEnabled" is false. Sessions have refresh tokens: remove "refreshTokenEnabled". See docs/sessions-reference.md#settings'],
    [{ sessions: {}, getLeeway: () => 5 },
      '"sessions" and "getLeeway" are given. Sessions need one value of "leeway" for all requests: give "leeway", or register an instance for each value. See docs/sessions-reference.md#settings'],
    [{ sessions: {}, verifyExp: false },
      '"sessions" is given, and "verifyExp" is false. Ended sessions are remembered until their access tokens expire: set "verifyExp" to true. See docs/sessions-reference.md#settings'],
    [{ sessions: {}, userId: 'sid' },
      '"userId" must not be "sid" with "sessions", because this claim then contains the id of the session. Choose another name. See docs/findings.md#token_auth_e10']
  ],
  secrets: [
    [{ secret: '' },
      '"secret" is empty or blank. Give a random secret of at least 32 bytes. See docs/findings.md#token_auth_e01'],
    [{ secret: rsa.publicKey },
      '"secret" is a PEM key or certificate, but HS256 signs with a secret (RFC 8725 section 2.1). Use an RS, PS, ES or EdDSA algorithm with this key, or a random secret with HS256. See docs/findings.md#token_auth_e02'],
    [{ secret: createPublicKey(rsa.publicKey) },
      '"secret" is a public key, but HS256 signs with a secret (RFC 8725 section 2.1). Use an RS, PS, ES or EdDSA algorithm with this key, or a random secret with HS256. See docs/findings.md#token_auth_e02'],
    [{ secret: der },
      '"secret" is a DER key or certificate, but HS256 signs with a secret (RFC 8725 section 2.1). Use an RS, PS, ES or EdDSA algorithm with this key, or a random secret with HS256. See docs/findings.md#token_auth_e02'],
    [{ secret: der.toString('base64') },
      '"secret" is a base64 key or certificate, but HS256 signs with a secret (RFC 8725 section 2.1). Use an RS, PS, ES or EdDSA algorithm with this key, or a random secret with HS256. See docs/findings.md#token_auth_e02'],
    [{ secret: 'ssh-ed25519 AAAA' },
      '"secret" is an ssh key, but HS256 signs with a secret (RFC 8725 section 2.1). Use an RS, PS, ES or EdDSA algorithm with this key, or a random secret with HS256. See docs/findings.md#token_auth_e02'],
    [{ secret: '{"kty":"oct"}' },
      '"secret" is a JWK, but HS256 signs with a secret (RFC 8725 section 2.1). Use an RS, PS, ES or EdDSA algorithm with this key, or a random secret with HS256. A JWK with "kty": "oct" is given as an object, not as text. See docs/findings.md#token_auth_e02'],
    [{ secret: der.toString('hex') },
      '"secret" is a hexadecimal key or certificate, but HS256 signs with a secret (RFC 8725 section 2.1). Use an RS, PS, ES or EdDSA algorithm with this key, or a random secret with HS256. See docs/findings.md#token_auth_e02'],
    [{ secret: jwk },
      '"secret" is a JWK of another type than "oct", but HS256 signs with a secret (RFC 8725 section 2.1). Use an RS, PS, ES or EdDSA algorithm with this key, or a random secret with HS256. See docs/findings.md#token_auth_e02'],
    [{ secret: { kty: 'oct', k: 'not base64url' } },
      '"secret" is a JWK whose "k" is not base64url without padding (RFC 7518 section 6.4.1). Give the secret in this form, or as text or a Buffer. See docs/findings.md#token_auth_e07'],
    [{ secret: { kty: 'oct', k: 'AAAA', use: 'enc' } },
      '"secret" is a JWK whose "use" is not "sig" (RFC 7517 section 4.2), so it must not sign or verify. Use a key that is made for signatures. See docs/findings.md#token_auth_e15'],
    [{ secret: { kty: 'oct', k: 'AAAA', key_ops: ['sign'] } },
      '"secret" is a JWK whose "key_ops" do not include "verify" (RFC 7517 section 4.3). Use a key that permits it. See docs/findings.md#token_auth_e15'],
    [{ secret: { kty: 'oct', k: 'AAAA', alg: 'HS512' } },
      '"secret" is a JWK for another "alg" than HS256 (RFC 7517 section 4.4). Set "algorithm" to that of the key, or use another key. See docs/findings.md#token_auth_e15'],
    [{ secret: { pem: 'x'.repeat(32), passphrase: 'x' } },
      '"secret" has a passphrase, but only a private key is encrypted with one. Use the form without "passphrase". See docs/findings.md#token_auth_e07'],
    [{ secret: new URL('https://example.org/key') },
      '"secret" is a URL with "https:"; only "file:" URLs are read. Keys are never fetched. See docs/findings.md#token_auth_e08'],
    [{ secret: { path: '/nonexistent/key' } },
      'The file given as "secret" cannot be read (ENOENT). Check its path and permissions. See docs/findings.md#token_auth_e08']
  ],
  keys: [
    [{ keys: 'x' },
      '"keys" must be a list of 1 to 16 keys such as [{ key }], or a function that returns one; given: a string. Give at least one key, and remove the keys whose tokens no longer count. See docs/findings.md#token_auth_e12'],
    [{ keys: [] },
      '"keys" must be a list of 1 to 16 keys such as [{ key }], or a function that returns one; given: an empty list. Give at least one key, and remove the keys whose tokens no longer count. See docs/findings.md#token_auth_e12'],
    [{ keys: Array(17).fill({ key: secret }) },
      '"keys" must be a list of 1 to 16 keys such as [{ key }], or a function that returns one; given: a list of 17. Give at least one key, and remove the keys whose tokens no longer count. See docs/findings.md#token_auth_e12'],
    [{ keys: [secret] },
      '"keys[0]" must be a plain object, such as { key, signFrom }; given: a string. See docs/keys.md'],
    [{ keys: [{ key: secret, signfrom: 1 }] },
      '"keys[0]" has no member "signfrom". Did you mean "signFrom"? Its members are key, algorithm, kid, signFrom, verifyUntil. See docs/keys.md'],
    [{ keys: [{ key: secret }, { kid: 'x' }] },
      '"keys[1].key" must be a string, a Buffer, a KeyObject, a JWK, a file: URL, { path } or { pem, passphrase }; given: undefined. See docs/keys.md'],
    [{ keys: [{ key: secret, algorithm: 'none' }] },
      '"keys[0].algorithm" must be "HS256", "HS384", "HS512", "ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512" or "EdDSA"; given: "none". See docs/keys.md'],
    [{ keys: [{ key: secret, kid: '' }] },
      '"keys[0].kid" must be text of 1 to 256 visible ASCII characters; given: an empty string. Choose another one, or leave it out for the default. See docs/findings.md#token_auth_e12'],
    [{ keys: [{ key: { ...jwk, kid: 5, alg: 'RS256' } }] },
      '"keys[0].kid" must be text of 1 to 256 visible ASCII characters; given: 5. Choose another one, or leave it out for the default. See docs/findings.md#token_auth_e12'],
    [{ keys: [{ key: { ...jwk, alg: 'RSA-OAEP' } }] },
      '"keys[0].key" is a JWK of another type than "oct", but HS256 signs with a secret (RFC 8725 section 2.1). Use an RS, PS, ES or EdDSA algorithm with this key, or a random secret with HS256. See docs/findings.md#token_auth_e02'],
    [{ keys: [{ key: secret }, { key: otherSecret, kid: 'a' }, { key: rsa.publicKey, algorithm: 'RS256', kid: 'a' }] },
      '"keys[2]" and "keys[1]" have the same "kid", so a token would not say with which of them it is signed. Remove one of them, or give another "kid". See docs/findings.md#token_auth_e12'],
    [{ keys: [{ key: secret, signFrom: '2027-01-01' }] },
      '"keys[0].signFrom" must be a Date, or ISO 8601 text with a time zone such as "2027-01-01T00:00:00Z", from 1970 to 9999; given: "2027-01-01". Check the date, and give the time zone. See docs/findings.md#token_auth_e13'],
    [{ keys: [{ key: secret, verifyUntil: new Date(NaN) }] },
      '"keys[0].verifyUntil" must be a Date, or ISO 8601 text with a time zone such as "2027-01-01T00:00:00Z", from 1970 to 9999; given: a Date that is invalid or out of range. Check the date, and give the time zone. See docs/findings.md#token_auth_e13'],
    [{ keys: [{ key: secret, signFrom: 1_800_000_000 }] },
      '"keys[0].signFrom" must be a Date, or ISO 8601 text with a time zone such as "2027-01-01T00:00:00Z", from 1970 to 9999; given: 1800000000. Check the date, and give the time zone. See docs/findings.md#token_auth_e13'],
    [{ keys: [{ key: secret, signFrom: '2999-01-01T00:00:00Z' }] },
      'No key of "keys" signs now. Give a secret or private key without "signFrom", or with one that has come. An instance that only verifies sets "authMode" to false. See docs/findings.md#token_auth_e13'],
    [{ keys: [{ key: secret, verifyUntil: '2999-01-01T00:32:59Z' }, { key: otherSecret, signFrom: '2999-01-01T00:00:00Z' }] },
      '"keys[0].verifyUntil" is 2999-01-01T00:32:59.000Z, but the key signs until 2999-01-01T00:00:00.000Z, and its tokens count for 1980 seconds ("expirationDelta" and "leeway") after that. Set it to 2999-01-01T00:33:00.000Z or later. See docs/findings.md#token_auth_e14'],
    [{ keys: [{ key: secret, verifyUntil: '2999-01-01T00:33:00Z' }, { key: otherSecret, signFrom: '2999-01-01T00:00:00Z' }] },
      'nothing'],
    [{ keys: [{ key: secret, verifyUntil: '2999-01-01T00:00:00Z' }] },
      '"keys[0].verifyUntil" is given, but no key signs after this one. Add a key with a later "signFrom", or remove "verifyUntil". See docs/findings.md#token_auth_e14'],
    [{ verifyExp: false, keys: [{ key: secret, verifyUntil: '2999-01-01T00:00:00Z' }] },
      '"keys[0].verifyUntil" is given, and "verifyExp" is false, so tokens of this key have no end. Set "verifyExp" to true, or remove "verifyUntil". See docs/findings.md#token_auth_e14'],
    [{ getLeeway: () => 5, keys: [{ key: secret, verifyUntil: '2999-01-01T00:00:00Z' }] },
      '"keys[0].verifyUntil" and "getLeeway" are given, so it is not known how long tokens live. Give "leeway", or remove "verifyUntil". See docs/findings.md#token_auth_e14'],
    [{ keys: [{ key: secret }], publicKey: secret },
      '"keys" and "publicKey" are given. "keys" has all keys of an instance: make this key an entry of it, and remove "publicKey". See docs/findings.md#token_auth_e11'],
    [{ keys: [{ key: secret }], getAlgorithm: () => 'HS256' },
      '"keys" and "getAlgorithm" are given. With "keys", all requests have the same keys and remembered tokens: remove "getAlgorithm". See docs/findings.md#token_auth_e11'],
    [{ keys: [{ key: secret }], pathToJwks: '/jwks' },
      '"pathToJwks" is given, but there is no public key that could be published: secrets are not, and keys that are computed per request are not known. Use a pair of keys, or remove "pathToJwks". See docs/findings.md#token_auth_e16'],
    [{ keys: [{ key: secret }], sessions: {} },
      '"keys" and "sessions" are given without "sessions.secret". The keys of "keys" change, and with a key that is removed all sessions would end. Give "sessions.secret". See docs/findings.md#token_auth_e24'],
    [{ keys: () => { throw new Error('down') } },
      'The function "keys" failed, so the keys are not known. Its error is the cause. Check what the function depends on. See docs/findings.md#token_auth_e19']
  ].map(([options, message]): Case<object> => [{ secret: undefined, ...Object(options) }, String(message)]),
  issuers: [
    [{ issuers: 'https://issuer.example' },
      '"issuers" must be a non-empty list of issuers such as [{ issuer, audience, jwksUri }]; given: a string. See docs/issuers.md'],
    [{ issuers: [] },
      '"issuers" must be a non-empty list of issuers such as [{ issuer, audience, jwksUri }]; given: an empty list. See docs/issuers.md'],
    [{ issuers: ['https://issuer.example'] },
      '"issuers[0]" must be a plain object, such as { issuer, audience, jwksUri }; given: a string. See docs/issuers.md'],
    [{ issuers: [{ ...trusted, jwksUrl: 'x' }] },
      '"issuers[0]" has no member "jwksUrl". Did you mean "jwksUri"? Its members are issuer, audience, jwksUri, jwks, algorithms, userId, scopesName, exactScopes, typ, audienceName, staleIfError. See docs/issuers.md'],
    [{ issuers: [{ ...trusted, issuer: '' }] },
      '"issuers[0].issuer" must be the "iss" of the issuer\'s tokens, a non-empty string; given: an empty string. See docs/issuers.md'],
    [{ issuers: [{ ...trusted, issuer: new URL('https://issuer.example') }] },
      '"issuers[0].issuer" must be the "iss" of the issuer\'s tokens, a non-empty string; given: an object. See docs/issuers.md'],
    [{ issuers: [{ ...trusted, audience: undefined }] },
      '"issuers[0].audience" must be the audience of your service, a non-empty string or a list of such strings, or null for tokens for anybody; given: undefined. Without it, tokens that the issuer made for others would be accepted: give it. See docs/findings.md#token_auth_e17'],
    [{ issuers: [{ ...trusted, audience: ['api', 5] }] },
      '"issuers[0].audience" must be the audience of your service, a non-empty string or a list of such strings, or null for tokens for anybody; given: a list whose entry 1 is 5. Without it, tokens that the issuer made for others would be accepted: give it. See docs/findings.md#token_auth_e17'],
    [{ issuers: [{ ...trusted, jwksUri: undefined }] },
      '"issuers[0]" has neither "jwksUri" nor "jwks". Give one of them: "jwksUri", the address of the issuer\'s keys, or "jwks", the keys or a function that returns them. See docs/findings.md#token_auth_e17'],
    [{ issuers: [{ ...trusted, jwks: { keys: [] } }] },
      '"issuers[0]" has "jwksUri" and "jwks". Give one of them: "jwksUri", the address of the issuer\'s keys, or "jwks", the keys or a function that returns them. See docs/findings.md#token_auth_e17'],
    [{ issuers: [{ ...trusted, jwksUri: undefined, jwks: { keys: [] } }] },
      '"issuers[0].jwks" must be a JWK set, { keys: [...] }, with a public key for one of "algorithms", or a function that returns one. Check the type and the size of its keys, "alg" and "use", and that each key has its own "kid". See docs/findings.md#token_auth_e17'],
    [{ issuers: [{ ...trusted, jwksUri: 'http://issuer.example/jwks' }] },
      '"issuers[0].jwksUri" must be an absolute URL with "https:", or with "http:" for 127.0.0.1, [::1] or localhost, without credentials and fragment; given: a string of another form. Give the address of the issuer\'s keys. See docs/findings.md#token_auth_e17'],
    [{ issuers: [{ ...trusted, jwksUri: new URL('https://issuer.example/jwks') }] },
      '"issuers[0].jwksUri" must be an absolute URL with "https:", or with "http:" for 127.0.0.1, [::1] or localhost, without credentials and fragment; given: an object. Give the address of the issuer\'s keys. See docs/findings.md#token_auth_e17'],
    [{ issuers: [{ ...trusted, algorithms: ['RS256', 'HS256'] }] },
      '"issuers[0].algorithms" must be a non-empty list of ES256, ES384, ES512, RS256, RS384, RS512, PS256, PS384, PS512, EdDSA: not of algorithms with a secret, with which everybody who verifies tokens can issue them; given: a list whose entry 1 is "HS256". Give the algorithms with which the issuer signs. See docs/findings.md#token_auth_e17'],
    [{ issuers: [{ ...trusted, algorithms: 'RS256' }] },
      '"issuers[0].algorithms" must be a non-empty list of ES256, ES384, ES512, RS256, RS384, RS512, PS256, PS384, PS512, EdDSA: not of algorithms with a secret, with which everybody who verifies tokens can issue them; given: a string. Give the algorithms with which the issuer signs. See docs/findings.md#token_auth_e17'],
    [{ issuers: [{ ...trusted, userId: 'exp' }] },
      '"issuers[0].userId" must be the name of a claim, other than that of a date or the issuer; given: "exp". Check the name. See docs/issuers.md'],
    [{ issuers: [{ ...trusted, audienceName: 'iss' }] },
      '"issuers[0].audienceName" must be the name of a claim, other than that of a date or the issuer; given: "iss". Check the name. See docs/issuers.md'],
    [{ issuers: [{ ...trusted, audienceName: 5 }] },
      '"issuers[0].audienceName" must be the name of a claim, other than that of a date or the issuer; given: 5. Check the name. See docs/issuers.md'],
    [{ issuers: [{ ...trusted, scopesName: [] }] },
      '"issuers[0].scopesName" must be the name of a claim, other than that of a date or the issuer, or a non-empty list of such names; given: an empty list. Check the name. See docs/issuers.md'],
    [{ issuers: [{ ...trusted, scopesName: ['scp', undefined] }] },
      '"issuers[0].scopesName" must be the name of a claim, other than that of a date or the issuer, or a non-empty list of such names; given: a list whose entry 1 is undefined. Check the name. See docs/issuers.md'],
    [{ issuers: [{ ...trusted, exactScopes: 'no' }] },
      '"issuers[0].exactScopes" must be true or false; given: a string. See docs/issuers.md'],
    [{ issuers: [{ ...trusted, typ: 'JWT' }] },
      '"issuers[0].typ" must be "at+jwt"; given: "JWT". Leave it out to require no type. See docs/issuers.md'],
    [{ issuers: [{ ...trusted, typ: 5 }] },
      '"issuers[0].typ" must be "at+jwt"; given: 5. Leave it out to require no type. See docs/issuers.md'],
    [{ issuers: [{ ...trusted, staleIfError: 60 }] },
      '"issuers[0].staleIfError" must be a whole number of seconds from 600 to 3153600000; given: 60. See docs/issuers.md'],
    [{ issuers: [{ ...trusted, staleIfError: '3600' }] },
      '"issuers[0].staleIfError" must be a whole number of seconds from 600 to 3153600000; given: a string. See docs/issuers.md'],
    [{ issuers: [trusted, { ...trusted, audience: 'other' }] },
      '"issuers[1]" and "issuers[0]" have the same "issuer", so a token would not say whose rules count. Remove one of them; "audience" may be a list. See docs/findings.md#token_auth_e17'],
    [{ issuers: [trusted], claimIss: 'https://issuer.example' },
      '"claimIss" is the issuer of an entry of "issuers". "claimIss" is the issuer of your own tokens, and tokens of trusted issuers are never verified with your own keys. Remove the entry, or choose another "claimIss". See docs/findings.md#token_auth_e17'],
    [{ issuers: [trusted], getSecret: () => secret },
      '"issuers" and "getSecret" are given. With "issuers", all requests have the same keys and remembered tokens: remove "getSecret". See docs/findings.md#token_auth_e11']
  ].map(([options, message]): Case<object> => [Object(options), String(message)]),
  'pairs of keys': [
    [{ ...rs, publicKey: undefined },
      'RequiredKeysNotFound: RS256 needs "publicKey" to verify tokens. Give it to register(), as text, Buffer, KeyObject, JWK, file: URL or { path }. See docs/settings.md'],
    [{ ...rs, privateKey: undefined },
      'RequiredKeysNotFound: RS256 needs "privateKey" to issue tokens. Give it to register(); an instance that only verifies sets "authMode" to false. See docs/settings.md'],
    [{ ...rs, publicKey: rsa.privateKey },
      '"publicKey" is a private key; give the public key of the pair. See docs/findings.md#token_auth_e07'],
    [{ ...rs, publicKey: createSecretKey(Buffer.from(secret)) },
      '"publicKey" is a secret key; give the public key of the pair. See docs/findings.md#token_auth_e07'],
    [{ ...rs, privateKey: rsa.publicKey },
      '"privateKey" is a public key or certificate; give the private key of the pair. See docs/findings.md#token_auth_e07'],
    [{ ...rs, privateKey: rsa.privateKey + rsa.publicKey },
      '"privateKey" is a private key together with a public key or certificate; give the private key of the pair. See docs/findings.md#token_auth_e07'],
    [{ ...rs, privateKey: createPublicKey(rsa.publicKey) },
      '"privateKey" is a public key; give the private key of the pair. See docs/findings.md#token_auth_e07'],
    [{ ...rs, privateKey: encrypted },
      '"privateKey" is encrypted; give its passphrase too, as { pem, passphrase } or { path, passphrase }. See docs/findings.md#token_auth_e07'],
    [{ ...rs, privateKey: { pem: encrypted, passphrase: 'y' } },
      '"privateKey" cannot be decrypted with its passphrase. Check the passphrase, and that the file or text is complete. See docs/findings.md#token_auth_e07'],
    [{ ...rs, publicKey: { kty: 'RSA' } },
      '"publicKey" is a JWK that cannot be read as a public key. Check its members: "kty", and those that this type needs (RFC 7518 section 6, RFC 8037 section 2). See docs/findings.md#token_auth_e07'],
    [{ ...rs, publicKey: JSON.stringify(jwk) },
      '"publicKey" is not a public key or certificate in PEM form; give one ("-----BEGIN PUBLIC KEY-----"). A JWK is given as an object, not as text: parse it, as JSON.parse() does. See docs/findings.md#token_auth_e07'],
    [{ ...rs, privateKey: { ...createPrivateKey(rsa.privateKey).export({ format: 'jwk' }), n: otherJwk.n } },
      '"privateKey" holds public and private numbers that do not belong together, so nobody would accept its signatures. Give a complete key, or make a new pair. See docs/findings.md#token_auth_e06'],
    [{ ...rs, publicKey: 'x' },
      '"publicKey" is not a public key or certificate in PEM form; give one ("-----BEGIN PUBLIC KEY-----"). If it is a secret, set "algorithm" to HS256, HS384 or HS512. See docs/findings.md#token_auth_e07'],
    [{ secret: fileURLToPath(import.meta.url) },
      '"secret" is the path of a file, but text is taken for the secret itself, which whoever knows the path could use. Give { path } or a file: URL. See docs/findings.md#token_auth_e08'],
    [{ ...rs, privateKey: 'x' },
      '"privateKey" is not a private key in PEM form; give one ("-----BEGIN PRIVATE KEY-----"). If it is a secret, set "algorithm" to HS256, HS384 or HS512. See docs/findings.md#token_auth_e07'],
    [{ ...rs, publicKey: './public.pem' },
      '"publicKey" is not a public key or certificate in PEM form; give one ("-----BEGIN PUBLIC KEY-----"). It looks like the path of a file, but text is taken for the key itself: give { path } or a file: URL. See docs/findings.md#token_auth_e07'],
    [{ ...rs, publicKey: undefined, secret: 'keys/public.txt' },
      '"secret" is not a public key or certificate in PEM form; give one ("-----BEGIN PUBLIC KEY-----"). It looks like the path of a file, but text is taken for the key itself: give { path } or a file: URL. See docs/findings.md#token_auth_e07'],
    [{ ...rs, privateKey: 'C:\\private' },
      '"privateKey" is not a private key in PEM form; give one ("-----BEGIN PRIVATE KEY-----"). It looks like the path of a file, but text is taken for the key itself: give { path } or a file: URL. See docs/findings.md#token_auth_e07'],
    [{ ...rs, privateKey: rsa.privateKey.replaceAll('\n', '\\n') },
      '"privateKey" is not a private key in PEM form; give one ("-----BEGIN PRIVATE KEY-----"). Its line ends are written as "\\n", as in many environment files: replace them by line ends, as .replaceAll("\\\\n", "\\n") does. See docs/findings.md#token_auth_e07'],
    [{ ...rs, publicKey: everyoneSigns },
      '"publicKey" is an RSA key with a public exponent below 3, with which everyone can sign. Make a new pair. See docs/findings.md#token_auth_e04'],
    [{ ...rs, publicKey: { ...jwk, e: 'AQAA' } },
      '"publicKey" is an RSA key with an even public exponent, which no private key belongs to. Make a new pair. See docs/findings.md#token_auth_e04'],
    [{ ...rs, publicKey: { ...jwk, e: jwk.n } },
      '"publicKey" is an RSA key with a public exponent of more than 64 bits, which makes every signature slow to verify. Make a new pair; the usual exponent is 65537. See docs/findings.md#token_auth_e04'],
    [{ ...rs, publicKey: { ...jwk, n: `${jwk.n}${jwk.n}${jwk.n}${jwk.n}${jwk.n}` } },
      '"publicKey" is an RSA key of 10256 bits; at most 8192 are accepted, because every signature takes longer with each. Use a smaller key. See docs/findings.md#token_auth_e04'],
    [{ ...rs, publicKey: ec.publicKey },
      '"publicKey" is a key of the type ec; RS256 needs an RSA key. See docs/findings.md#token_auth_e05'],
    [{ ...rs, ...rsaPair(1024) },
      '"publicKey" is an RSA key of 1024 bits; RS256 needs at least 2048 (RFC 7518 section 3.3). See docs/findings.md#token_auth_e04'],
    [{ ...rs, privateKey: rsaPair(2048, 1).privateKey },
      '"privateKey" and "publicKey" are not the halves of one pair, so no token signed with the one would be accepted with the other. Give both halves of one pair. See docs/findings.md#token_auth_e06'],
    [{ ...es, publicKey: rsa.publicKey },
      '"publicKey" is a key of the type rsa; ES256 needs an EC key on the curve prime256v1 (RFC 7518 section 3.4). See docs/findings.md#token_auth_e05'],
    [{ ...es, ...ecPair('secp384r1') },
      '"publicKey" is a key on the curve secp384r1; ES256 needs an EC key on the curve prime256v1 (RFC 7518 section 3.4). See docs/findings.md#token_auth_e05'],
    [{ ...es, publicKey: edPublic },
      '"publicKey" is a key of the type ed25519; ES256 needs an EC key on the curve prime256v1 (RFC 7518 section 3.4). See docs/findings.md#token_auth_e05'],
    [{ ...es, algorithm: 'EdDSA' },
      '"publicKey" is a key of the type ec; EdDSA needs an Ed25519 key (RFC 8037 section 2). See docs/findings.md#token_auth_e05'],
    [{ ...es, algorithm: 'EdDSA', publicKey: { kty: 'OKP', crv: 'Ed25519', x: Buffer.alloc(32).toString('base64url') } },
      '"publicKey" is an Ed25519 key of small order, with which everyone can sign. Make a new pair. See docs/findings.md#token_auth_e04']
  ]
}

const configurations: Case<object>[] = [
  [{ SERVICE_JWT_LEEWAY: '5s' },
    '"SERVICE_JWT_LEEWAY" of the application\'s configuration must be a whole number of seconds from 0 to 3153600000; given: "5s". See docs/settings.md'],
  [{ SERVICE_JWT_DEBUG: 'yes' },
    '"SERVICE_JWT_DEBUG" of the application\'s configuration must be true, false, 1 or 0; given: "yes". See docs/settings.md'],
  [{ SERVICE_JWT_DEBUG: null },
    '"SERVICE_JWT_DEBUG" of the application\'s configuration must be true, false, 1 or 0; given: null. See docs/settings.md'],
  [{ SERVICE_JWT_TRUSTED_ORIGINS: 'https://app.example.org, https://other.example.org/' },
    '"SERVICE_JWT_TRUSTED_ORIGINS" of the application\'s configuration must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 1 is "https://other.example.org/", which no browser sends as an origin: it sends "https://other.example.org". See docs/settings.md'],
  [{ SERVICE_JWT_TRUSTED_ORIGINS: '* https://app.example.org' },
    '"SERVICE_JWT_TRUSTED_ORIGINS" of the application\'s configuration must be a list of origins such as "https://app.example.org", or "*" for all; given: a list whose entry 0 is "*": give "*" itself, not in a list. See docs/settings.md'],
  [{ SERVICE_JWT_EXPIRATION: '60' },
    'The application\'s configuration has the unknown key "SERVICE_JWT_EXPIRATION". Did you mean "SERVICE_JWT_EXPIRATION_DELTA"? Keys with the prefix SERVICE_JWT_ are reserved for settings of this plugin. Rename or remove the key. See docs/settings.md'],
  [{ SERVICE_JWT_ZZZZZZZZZZZZZZZZZZZ: '1' },
    'The application\'s configuration has the unknown key "SERVICE_JWT_ZZZZZZZZZZZZZZZZZZZ". Keys with the prefix SERVICE_JWT_ are reserved for settings of this plugin. Rename or remove the key. See docs/settings.md']
]

const guardOptions: Case<object>[] = [
  [{ leeway: '5' },
    'Override "leeway" must be a whole number of seconds from 0 to 3153600000; given: "5". See docs/settings.md'],
  [{ leway: 5 },
    'protect() has no option "leway". Did you mean "leeway"? Its options are the settings, maxAge, redirectOnFail, redirectUrl, renew, optional. See docs/guards.md'],
  [{ urlPrefix: '/x' },
    '"urlPrefix" determines the routes at registration, so a guard cannot override it. Set it in the options of register(). See docs/guards.md'],
  [{ redirectOnFail: 'yes' },
    '"redirectOnFail" of protect() must be true or false; given: a string. See docs/guards.md'],
  [{ redirectUrl: '//evil' },
    '"redirectUrl" of protect() must be a path that starts with one "/", or an absolute http(s) URL; given: "//evil". See docs/guards.md'],
  [{ redirectUrl: 5 },
    '"redirectUrl" of protect() must be a path that starts with one "/", or an absolute http(s) URL; given: 5. See docs/guards.md'],
  [{ redirectUrl: '/login?to={to}' },
    '"redirectUrl" has "{to}", but only {next} and {reason} are replaced in it. Remove it, or write its braces as %7B and %7D. See docs/findings.md#token_auth_e58'],
  [{ maxAge: 0 },
    '"maxAge" of protect() must be a whole number of seconds from 1 to 3153600000; given: 0. See docs/guards.md'],
  [mistyped({ maxAge: '300' }),
    '"maxAge" of protect() must be a whole number of seconds from 1 to 3153600000; given: a string. See docs/guards.md'],
  [{ secret: null },
    'Override "secret" must be a string, a Buffer, a KeyObject, a JWK, a file: URL, { path } or { pem, passphrase }; given: null. See docs/settings.md']
]

const guards: Case<() => unknown>[] = [
  [() => protect(mistyped('x')),
    'The options of protect() must be a plain object, such as { leeway: 60 }; given: a string. Pass scopes as the first parameter of scoped(), several scopes as a list: scoped(["user", "admin"]). See docs/guards.md'],
  [() => protect(mistyped(5)),
    'The options of protect() must be a plain object, such as { leeway: 60 }; given: a number. See docs/guards.md'],
  [() => scoped('user', mistyped('admin')),
    'The options of scoped() must be a plain object, such as { leeway: 60 }; given: a string. Pass scopes as the first parameter of scoped(), several scopes as a list: scoped(["user", "admin"]). See docs/guards.md'],
  [() => scoped('user', mistyped({ requireall: false })),
    'scoped() has no option "requireall". Did you mean "requireAll"? Its options are the settings, maxAge, redirectOnFail, redirectUrl, renew, requireAll, requireAllActions, on, instanceName. See docs/guards.md'],
  [() => protect({ optional: mistyped<boolean>('yes') }),
    '"optional" of protect() must be true or false; given: a string. See docs/guards.md'],
  [() => scoped('user', mistyped({ optional: true })),
    'scoped() has no option "optional". Its options are the settings, maxAge, redirectOnFail, redirectUrl, renew, requireAll, requireAllActions, on, instanceName. See docs/guards.md'],
  [() => protect(mistyped({ requireAll: false })),
    'protect() has no option "requireAll". Its options are the settings, maxAge, redirectOnFail, redirectUrl, renew, optional, on, instanceName. See docs/guards.md'],
  [() => protect(mistyped({ on: 5 })),
    '"on" of protect() must be a Fastify instance; given: 5. See docs/guards.md'],
  [() => scoped(mistyped<string>(undefined)),
    'scoped() requires a scope, a non-empty list of scopes, or a function of the request; given: undefined. A scope has the form "<namespace>:<action>:...", such as "user", "user:read" or ":read", without white space or empty actions. See docs/guards.md#scopes'],
  [() => scoped(['user', 'user:read ']),
    'scoped() requires a scope, a non-empty list of scopes, or a function of the request; given: [ \'user\', \'user:read \' ]. A scope has the form "<namespace>:<action>:...", such as "user", "user:read" or ":read", without white space or empty actions. See docs/guards.md#scopes'],
  [() => scoped('user', mistyped({ requireAll: 'yes' })),
    '"requireAll" of scoped() must be true or false; given: a string. See docs/guards.md'],
  [() => injectUser(mistyped<UserRouteHandler<object>>(5)),
    'injectUser() requires a route handler (request, reply, user); given: a number. See docs/guards.md']
]

const testTokens: Case<[user: unknown, options?: object]>[] = [
  [[{ user_id: 1 }, { states: 'expired' }],
    'createTestToken() has no option "states". Did you mean "state"? Its options are state, scopes, claims, request. See docs/testing.md'],
  [[{ user_id: 1 }, { state: 'late' }],
    '"state" of createTestToken() must be "valid", "expired", "notYetActive", "wrongSignature", "otherIssuer" or "otherAudience"; given: "late". See docs/testing.md'],
  [[{ user_id: 1 }, { state: 'otherIssuer' }],
    'A token with the state "otherIssuer" would be accepted, because the instance has no "claimIss". Set "claimIss", or choose another state. See docs/testing.md']
]

const requests: [options: object, act: Act, message: string][] = [
  [{}, (request, reply) => Reflect.apply(protect, undefined, [request, reply]),
    'protect, scoped or injectUser was called with a request, because a route has this function itself as its hook or handler. Call the function, and pass its result to the route: { onRequest: app.tokenAuth.protect() }. See docs/guards.md'],
  [{}, (request, reply, app) => Reflect.apply(app.tokenAuth.protect(), undefined, [request, reply, {}]),
    'A guard was called with the parameters of another kind of hook. Use it as onRequest, preValidation or preHandler. See docs/guards.md'],
  [{}, (request, reply) => protect({ instanceName: 'staff' })(request, reply),
    'InitializationFailure: No instance named "staff" is registered for this route. Register the plugin on its context or on an outer one, or pass the context of the instance as "on".'],
  [{}, (_request, _reply, app) => app.tokenAuth.protect({ maxAge: 300 }),
    'A guard has "maxAge", but its instance issues tokens without the time of the login. Set "claimAuthTime" to true in the options of register(). See docs/guards.md'],
  [{}, (request, reply) => protect({ maxAge: 300 })(request, reply),
    'A guard has "maxAge", but its instance issues tokens without the time of the login. Set "claimAuthTime" to true in the options of register(). See docs/guards.md'],
  [{ authMode: false, scopesName: 'auth_time' }, (_request, _reply, app) => app.tokenAuth.protect({ maxAge: 300 }),
    'A guard has "maxAge", but "scopesName" is "auth_time", which is the claim with the time of the login. Choose another name. See docs/guards.md'],
  [{}, (_request, _reply, app) => app.tokenAuth.generateAccessToken({ user_id: 1 }, { authTime: 1.5 }),
    '"authTime" of generateAccessToken() must be a whole number of seconds since 1970, such as Math.floor(Date.now() / 1000); given: 1.5. See docs/reference.md#members-of-an-instance'],
  [{}, (_request, _reply, app) => app.tokenAuth.sessions.list(1),
    'sessions.list() needs the option "sessions" and "authMode": true. Give "sessions": {} to register(), or a store: { store }. See docs/sessions-reference.md#settings'],
  [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.sessions.list(mistyped(undefined)),
    'The user id that is given to sessions.list() must be a non-empty string, a safe integer or a boolean; given: undefined. See docs/sessions-reference.md#settings'],
  [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.sessions.endAll(1, mistyped('x')),
    'The options of sessions.endAll() must be a plain object, such as { except: sessionId }; given: a string. See docs/sessions-reference.md#settings'],
  [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.sessions.endAll(1, mistyped({ exept: 'x' })),
    'sessions.endAll() has no option "exept". Did you mean "except"? Its only option is "except". See docs/sessions-reference.md#settings'],
  [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.sessions.endAll(1, { except: 'x' }),
    '"except" of sessions.endAll() must be the id of a session, or null; given: a string. See docs/sessions-reference.md#settings'],
  [{ sessions: {} }, (request, _reply, app) => app.tokenAuth.generateRefreshToken(request, { user_id: 1 }),
    'generateRefreshToken() does not exist with "sessions", whose refresh tokens belong to a session. Use sessions.start(). See docs/sessions-reference.md#settings'],
  [{}, (_request, _reply, app) => app.tokenAuth.reloadKeys(),
    'reloadKeys() needs the option "keys". Give it a function that returns the keys. See docs/keys.md'],
  [{ secret: undefined, keys: [{ key: secret }] }, (_request, _reply, app) => app.tokenAuth.reloadKeys(),
    'reloadKeys() needs a function that returns the keys. Give one as "keys". See docs/keys.md'],
  [{ secret: undefined, keys: [{ key: secret }] }, (_request, _reply, app) => app.tokenAuth.protect({ algorithm: 'HS512' }),
    'A guard overrides "algorithm". With "keys", all guards of an instance have the same keys: remove the override, or register another instance. See docs/findings.md#token_auth_e11'],
  [{ authMode: false, issuers: [{ issuer: 'https://issuer.example', audience: 'api', algorithms: ['RS256'], jwks: { keys: [createPublicKey(rsa.publicKey).export({ format: 'jwk' })] } }], retrieveUser: () => null }, (_request, _reply, app) => app.tokenAuth.protect({ secret: otherSecret }),
    'A guard overrides "secret". With "issuers", all guards of an instance have the same keys: remove the override, or register another instance. See docs/findings.md#token_auth_e11'],
  [{ secret: undefined, authMode: false, algorithm: 'RS256', keys: [{ key: rsa.publicKey }] }, (_request, _reply, app) => app.tokenAuth.generateAccessToken({ user_id: 1 }),
    'RequiredKeysNotFound: No key of "keys" signs now. Give a secret or private key without "signFrom", or with one that has come. See docs/keys.md'],
  [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.protect({ verifyExp: false }),
    'A guard overrides "verifyExp" with false. With "sessions", ended sessions are remembered only while access tokens have not expired: remove the override. See docs/sessions-reference.md#settings'],
  [{ sessions: {} }, (_request, _reply, app) => app.tokenAuth.protect({ leeway: 2161 }),
    'A guard overrides "leeway" with 2161. With "sessions" it must be at most 2160 seconds, "expirationDelta" and twice "leeway" of the registration, for which ended sessions are remembered. See docs/sessions-reference.md#settings'],
  [{ sessions: {} }, (request, reply, app) => app.tokenAuth.sessions.start(request, reply, { user_id: 1 }, mistyped({ authTime: new Date() })),
    '"authTime" of sessions.start() must be a whole number of seconds since 1970, such as Math.floor(Date.now() / 1000); given: an object. See docs/sessions-reference.md#settings'],
  [{ cookieSet: true, getTrustedOrigins: () => mistyped<string[]>(['https://app.example.org/']) }, (request) => request.tokenAuth.settings.trustedOrigins,
    'getTrustedOrigins must return a list of origins such as "https://app.example.org", or "*" for all; returned: a list whose entry 0 is "https://app.example.org/", which no browser sends as an origin: it sends "https://app.example.org". See docs/settings.md'],
  [{ getSecret: async () => secret }, (request) => request.tokenAuth.payload,
    'InitializationFailure: The key, or the handler "trusted", of this instance is asynchronous. Add a guard to the route, or await request.tokenAuth.ready() first; in "trusted" itself, use the parameters.'],
  [{ trusted: ({ tokenAuth }: FastifyRequest) => tokenAuth.payload !== null }, (request) => request.tokenAuth.payload,
    'InitializationFailure: request.tokenAuth was read by a function that decides about its token, such as "trusted" or a getter. Use the parameters of the function.'],
  [{ secret: undefined, getSecret: () => 5 }, (request) => request.tokenAuth.payload,
    '"secret" must be a string, a Buffer, a KeyObject, a JWK, a file: URL, { path } or { pem, passphrase }; getSecret returned a number. See docs/settings.md'],
  [{ getLeeway: async () => 5 }, (request) => request.tokenAuth.payload,
    'getLeeway must return a whole number of seconds from 0 to 3153600000; returned: a promise. See docs/settings.md'],
  [{ getClaimIss: () => null }, (_request, _reply, app) => app.tokenAuth.generateAccessToken({ user_id: 1 }),
    'RequiredKeysNotFound: "getClaimIss" needs a request. Pass the option "request" to generateAccessToken. See docs/settings.md'],
  [{ getLeeway: () => 5 }, (_request, _reply, app) => app.tokenAuth.verifyToken(forge(claims())),
    'RequiredKeysNotFound: "getLeeway" needs a request. Call verifyToken(token, request), or read request.tokenAuth.payload. See docs/settings.md'],
  [{ trusted: () => true }, (_request, _reply, app) => app.tokenAuth.verifyToken(forge(claims())),
    'RequiredKeysNotFound: The handler "trusted" needs a request. Call verifyToken(token, request), or read request.tokenAuth.payload. See docs/reference.md#handlers'],
  [{}, (_request, _reply, app) => app.tokenAuth.generateAccessToken({ user_id: 1 }, mistyped({ scope: 'a' })),
    'generateAccessToken() has no option "scope". Did you mean "scopes"? Its options are customClaims, extendPayload, scopes, authTime, request. See docs/reference.md#members-of-an-instance'],
  [{}, (_request, _reply, app) => app.tokenAuth.generateAccessToken({ user_id: 1 }, mistyped(Promise.resolve({ scopes: null }))),
    'The options of generateAccessToken() must be a plain object, such as { scopes }; given: a promise. See docs/reference.md#members-of-an-instance'],
  [{}, (_request, _reply, app) => app.tokenAuth.generateAccessToken(mistyped(1)),
    'InvalidUserObject: generateAccessToken requires a plain object, or an object with toDict() or toJSON(), not a number.'],
  [{}, (request, _reply, app) => app.tokenAuth.generateRefreshToken(request, { user_id: 1 }),
    'RefreshTokenNotImplemented: The handler "storeRefreshToken" is missing. Provide it as an option or as a method of the authentication class. See docs/reference.md#handlers']
]

for (const [subject, cases] of Object.entries(registrations)) {
  // Promise: keys/valid-token-refused
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
    t.equal(await said(() => protect(options)), message.replace('renew, optional.', 'renew, optional, on, instanceName.'))
  }
  for (const [make, message] of guards) t.equal(await said(make), message)
})

t.test('a guard says why it cannot renew', async (t) => {
  const pages = await build(t, { sessions: {}, cookieSet: true })
  t.equal(await said(async () => (await build(t)).tokenAuth.protect({ renew: true })),
    'A guard has "renew", but its instance cannot renew tokens: "sessions" is missing. Set it in the options of register(). See docs/findings.md#token_auth_e56')
  t.equal(await said(() => pages.tokenAuth.protect({ renew: true, secret: otherSecret })),
    'A guard has "renew" and overrides "secret", which the new tokens of its instance do not follow. Remove one of them. See docs/findings.md#token_auth_e57')
})

t.test('production says that a secret is missing or short, and a name that it is taken', async (t) => {
  const [twice, second] = [await build(t), await build(t)]
  t.equal(await said(async () => await second.register(tokenAuth, { secret, authenticate, instanceName: 'partner' })),
    'The instance "partner" cannot add the route POST /auth, which already exists in this application, perhaps for another instance. Choose another "urlPrefix". See docs/instances.md')
  t.equal(await said(async () => await twice.register(tokenAuth, { secret, authMode: false })),
    'An instance named "tokenAuth" is already registered on this context. Choose another "instanceName" for this one, and another "urlPrefix" if both have endpoints. See docs/instances.md')
  t.equal(await said(async () => await host(t).register(tokenAuth, mistyped(new Map([['secret', secret]])))),
    'The options of register() must be a plain object; given: an instance of a class, or an object that inherits from another. Copy your options into a plain object: { ...options }. See docs/settings.md')
  t.equal(await said(async () => await host(t).register(tokenAuth, mistyped(Promise.resolve({ secret })))),
    'The options of register() must be a plain object; given: a promise. Await it, and pass its result. See docs/settings.md')
  t.equal(await refused(t, { tokensInBody: false }),
    '"tokensInBody" and "cookieSet" are both false, so clients would receive no tokens. Set one of them to true. See docs/settings.md')
  const misguarded = await build(t)
  misguarded.get('/reports', mistyped<RouteShorthandOptions>({ prehandler: misguarded.tokenAuth.protect() }), async () => 'reached')
  t.equal(await said(async () => await misguarded.ready()),
    'The route GET /reports has a guard as "prehandler", where it does not guard. Give it as onRequest, preValidation or preHandler. See docs/findings.md#token_auth_e22')
  const context = await build(t)
  context.addHook('onResponse', mistyped<onResponseHookHandler>(context.tokenAuth.protect()))
  context.get('/reports', async () => 'reached')
  t.equal(await said(async () => await context.ready()),
    'A context has a guard as the hook "onResponse", where it does not guard. Give it as onRequest, preValidation or preHandler. See docs/findings.md#token_auth_e22')
  t.equal(await said(() => context.tokenAuth.routes()),
    'The routes are known when the application is ready. Call "await fastify.ready()" before routes() and printRoutes(). See docs/guards.md#require-guards')
  const declared = await build(t)
  declared.get('/reports', { config: mistyped<FastifyContextConfig>({ tokenAuth: true }) }, async () => 'reached')
  t.equal(await said(async () => await declared.ready()),
    'The route GET /reports has a wrong "config.tokenAuth". It must be false, for a route that everybody may use, or a text that says what guards it, such as "basic auth"; given: true. A guard is a hook of the route: { onRequest: app.tokenAuth.protect() }. See docs/guards.md#require-guards')
  const undecided = await build(t, { requireGuards: true })
  undecided.get('/reports', async () => 'reached')
  t.equal(await said(async () => await undecided.ready()),
    '"requireGuards" is true, and these routes have no guard (in parentheses: where they were added):\n  GET,HEAD /reports (fastify)\nGive each of them a guard, or say why it needs none: "config: { tokenAuth: false }" if everybody may use it, "config: { tokenAuth: \'basic auth\' }" if something else guards it. See docs/findings.md#token_auth_e20')
  const uncalled = await build(t)
  t.equal(await said(async () => uncalled.get('/reports', { onRequest: mistyped<ReturnType<typeof protect>>(protect) }, async () => 'reached')),
    'The route GET /reports has the function protect itself as "onRequest". Call the function, and pass its result to the route: { onRequest: app.tokenAuth.protect() }. See docs/findings.md#token_auth_e22')
  const contradictory = await build(t, { requireGuards: true })
  contradictory.get('/reports', { onRequest: protect(), config: { tokenAuth: false } }, async () => 'reached')
  t.equal(await said(async () => await contradictory.ready()),
    'The route GET /reports has a guard of "tokenAuth", and "config: { tokenAuth: false }", which says that everybody may use it. The guard counts. Remove one of them. A guard that is a hook of a context guards the endpoints of the plugin in that context too: add it in a context around your own routes. See docs/guards.md#require-guards')
  const early = host(t)
  early.post('/reports', async () => 'reached')
  t.equal(await said(async () => await early.register(tokenAuth, { secret, authMode: false, requireGuards: true })),
    '"requireGuards" is true, and these routes were added before the plugin, so it does not know whether they have guards:\n└── /\n    └── reports (POST)\nRegister the plugin before routes and plugins with routes, and await its registration. See docs/findings.md#token_auth_e21')
  environment(t, 'production')
  t.equal(await refused(t, { secret: 'x'.repeat(31) }),
    '"secret" is shorter than 32 bytes, and NODE_ENV is "production": it can be guessed from one token. Give a random secret of at least 32 bytes. See docs/findings.md#token_auth_e23')
  t.equal(await refused(t, { secret: 'changeme'.repeat(4) }),
    '"secret" repeats a few characters, and NODE_ENV is "production": whoever guesses it can issue tokens. Give a random secret of at least 32 bytes. See docs/findings.md#token_auth_e23')
  t.equal(await refused(t, { sessions: { secret: 'a-string-secret-at-least-256-bits-long' } }),
    '"sessions.secret" is a secret of examples, which everybody knows, and NODE_ENV is "production": whoever guesses it can issue tokens. Give a random secret of at least 32 bytes. See docs/findings.md#token_auth_e23')
  t.equal(await refused(t, { secret: undefined }),
    '"secret" is missing, and NODE_ENV is "production". Give the option "secret", or SERVICE_JWT_SECRET in the application\'s configuration: at least 32 random bytes, the same for every process. See docs/findings.md#token_auth_e03')
})

t.test('a registration says that a store belongs to the users of another key', async (t) => {
  const store = memorySessions()
  await build(t, { sessions: { store } })
  t.equal(await refused(t, { secret: otherSecret, sessions: { store } }),
    '"sessions.store" is the store of an instance with another key, whose users are not the users of this one. Give each of them a store of its own, with another prefix or table. See docs/sessions-reference.md#settings')
})

t.test('a registration says that jose is missing', async (t) => {
  t.equal(await said(async () => await remoteKeySet('https://issuer.example', async () => ({}))),
    '"jwksUri" needs jose 6, which fetches the keys of issuers. Install it: npm install jose@6. Or give "jwks", a function that returns the keys. See docs/findings.md#token_auth_e18')
})

t.test('the stores in databases say what is wrong with their parameters', async (t) => {
  const ioredis = { status: 'ready', evalsha: async () => [], eval: async () => [] }
  const pool = { query: async () => ({ rows: [] }) }
  const cases: Array<[() => unknown, string]> = [
    [() => redisSessions(mistyped('redis://localhost')),
      'The first parameter of redisSessions() must be a client, or a cluster, of ioredis, iovalkey or node-redis; given: a string. See docs/stores.md'],
    [() => redisSessions(mistyped(pool)),
      'The first parameter of redisSessions() must be a client, or a cluster, of ioredis, iovalkey or node-redis; given: an object. See docs/stores.md'],
    [() => redisSessions(ioredis, mistyped('shop')),
      'The options of redisSessions() must be a plain object, such as { prefix }; given: a string. See docs/stores.md'],
    [() => redisSessions(ioredis, mistyped({ table: 'shop' })),
      'redisSessions() has no option "table". Its only option is "prefix". See docs/stores.md'],
    [() => redisSessions(ioredis, { prefix: '{shop}' }),
      '"prefix" of redisSessions() must be a non-empty text without braces; given: "{shop}". See docs/stores.md'],
    [() => redisSessions(ioredis, { prefix: mistyped<string>(5) }),
      '"prefix" of redisSessions() must be a non-empty text without braces; given: 5. See docs/stores.md'],
    [() => postgresSessions(mistyped(ioredis)),
      'The first parameter of postgresSessions() must be a pool or a client of pg, fastify.pg of @fastify/postgres, or what postgres.js returns; given: an object. See docs/stores.md'],
    [() => postgresSessions(pool, mistyped(new Map())),
      'The options of postgresSessions() must be a plain object, such as { table }; given: an instance of a class, or an object that inherits from another. See docs/stores.md'],
    [() => postgresSessions(pool, { table: 'a b' }),
      '"table" of postgresSessions() must be 1 to 48 letters, digits and "_", the first of them no digit; given: "a b". See docs/stores.md'],
    [() => postgresSessionSchema(mistyped<string>(5)),
      'The table that is given to postgresSessionSchema() must be 1 to 48 letters, digits and "_", the first of them no digit; given: 5. See docs/stores.md']
  ]
  for (const [act, message] of cases) t.equal(await said(act), message)
})

t.test('createTestToken says what is wrong with its options', async (t) => {
  const app = await build(t)
  for (const [[user, options], message] of testTokens) {
    t.equal(await said(async () => await createTestToken(app.tokenAuth, mistyped(user), options)), message)
  }
  t.equal(await said(async () => await createTestToken(mistyped<typeof app.tokenAuth>(app), { user_id: 1 })),
    'The first parameter of createTestToken must be an instance, such as app.tokenAuth; given: object. See docs/testing.md')
})

t.test('attack() says what is wrong with its parameters', async (t) => {
  const app: AttackTarget = { inject: async () => ({ statusCode: 401, headers: {} }) }
  const request = { method: 'GET', url: '/reports' }
  const token = forge(claims())
  const cases: [given: { app?: unknown, request?: unknown, options?: unknown }, message: string][] = [
    [{ app: 5 }, 'The first parameter of attack() must have the method "inject", as a Fastify application has; given: number.'],
    [{ options: { token, keys: secret } }, 'attack() has no option "keys". Did you mean "key"? Its options are token, key, publicKey, allowed.'],
    [{ options: { token, allowed: 'no token' } }, '"allowed" of attack() must be a list of names, which the rows of a report have; given: a string.'],
    [{ options: {} }, '"token" of attack() must be a signed JSON Web Token, as createTestToken() creates it; given: undefined.'],
    [{ options: { token: forge({}, { header: { alg: 'HS1' } }) } }, '"token" of attack() is signed with an algorithm that attack() does not know. Give a token of HS256, HS384, HS512, ES256, ES384, ES512, RS256, RS384, RS512, PS256, PS384, PS512, EdDSA.'],
    [{ request: { ...request, body: {} } }, 'The request of attack() has no member "body". Its members are method, url, headers, payload.'],
    [{ request: { method: 'GET' } }, '"url" of the request of attack() must be a path that begins with "/"; given: undefined.'],
    [{ request: { ...request, headers: { Authorization: 'Basic x' } } }, 'The request of attack() has an Authorization header without the token. Write the token where the route reads it: into a header, a cookie or the query string.'],
    [{ request: { ...request, url: `/files/${token}` } }, 'The request of attack() has the token in the path of its "url". attack() replaces a token in a header, a cookie or the query string. Let the route of the test read it from there.'],
    [{ options: { token, key: 5 } }, '"key" of attack() must be the secret of the token, as text, Buffer, KeyObject or JWK.'],
    [{ options: { token, key: otherSecret } }, '"key" of attack() is not the key of the token. Give the secret with which the test creates the token.'],
    [{}, 'The route answers 401 to the token before the attack, so the attack would prove nothing. Give attack() a request and a token that the route answers with 2xx each time, and switch off limits of requests in the test.']
  ]
  const limited: AttackTarget = { inject: async ({ headers }) => ({ statusCode: headers.authorization === `Bearer ${token}` ? 200 : 429, headers: {} }) }
  cases.push([{ app: limited }, 'The route answers 429 to a hostile request (a key in the header jwk), so a limit of requests hides what the guard answers. Switch off limits of requests in the test.'])
  for (const [given, message] of cases) {
    const parts = { app, request, options: { token }, ...given }
    t.equal(await said(async () => await attack(mistyped<AttackTarget>(parts.app), mistyped<AttackedRequest>(parts.request), mistyped<AttackOptions>(parts.options))), `${message} See docs/testing.md`)
  }
})

t.test('what only a request shows is said by the error, or by the cause of the one that hides it from clients', async (t) => {
  for (const [options, act, message] of requests) t.equal(await during(t, options, act), message)
})

t.test('a key that is none is refused by whoever reads it, too', async (t) => {
  t.equal(await said(() => hmacKey('HS256', 'secret', 5, 'verify')),
    '"secret" must be a string, a Buffer, a KeyObject, a JWK, a file: URL, { path } or { pem, passphrase }. See docs/settings.md')
})

/** Where a file of lib/ makes such errors. */
function placesIn (file: string): string[] {
  const source = ts.createSourceFile(file, read(`lib/${file}`), ts.ScriptTarget.Latest)
  const found: string[] = []
  const visit = (node: ts.Node) => {
    if (ts.isNewExpression(node) && names.includes(node.expression.getText(source))) {
      found.push(`${file.replaceAll('\\', '/')}:${source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1}`)
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

// Last: it asks what the tests above have read.
// Promise: specification/every-message-about
t.test('every message of a wrong configuration is read here, and the page that it names is there', async (t) => {
  const inCode = readdirSync(new URL('lib/', root), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts')).flatMap(placesIn)
  t.ok(inCode.length > 70)
  t.equal(new Set(inCode).size, inCode.length, 'one on a line, or they could not be told apart')
  t.strictSame(inCode.filter((place) => !places.has(place)), [])
  t.strictSame([...without], ['InitializationFailure'], 'every other one names a page')
  for (const page of pages) {
    const [path = '', anchor] = page.split('#')
    const headings = [...read(path).matchAll(/^##+ (.+)$/gm)].map(([, heading = '']) => heading.toLowerCase().replaceAll(' ', '-'))
    t.ok(anchor === undefined || headings.includes(anchor), page)
  }
})
