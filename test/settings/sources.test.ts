/** Where the value of a setting comes from, and which source wins. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { inspect } from 'node:util'
import fastifyEnv from '@fastify/env'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import tokenAuth, { Configuration, InvalidConfiguration } from '../../lib/index.ts'
import { authenticate, bearer, build, caseOf, claims, forge, host, keysFor, login, otherSecret, refreshStore, refusal, secret, warnings } from '../helper.ts'

warnings(t, 'W03', 'W06')

const capitalized = (name: string) => name.charAt(0).toUpperCase() + name.slice(1)
const environmentKey = (name: string) => `SERVICE_JWT_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`

/** An application with a configuration of its own. */
function configured (t: Test, config: unknown): FastifyInstance {
  const app = host(t)
  app.decorate('config', config)
  return app
}

/** A configuration class with these members. */
const classWith = (members: object) => class extends Configuration {
  constructor () {
    super()
    Object.assign(this, members)
  }
}

/** One place where a setting may be given. */
interface Source { title: string, add: (parts: Parts, name: string, value: unknown) => void }
interface Parts { application: Record<string, unknown>, members: Record<string, unknown>, options: Record<string, unknown>, overrides: Record<string, unknown> }

/** The sources, weakest first; those in one row are spellings of one source. */
const sources: Source[][] = [
  [{ title: 'application configuration', add: ({ application }, name, value) => { application[environmentKey(name)] = String(value) } }],
  [
    { title: 'property of the configuration class', add: ({ members }, name, value) => { members[name] = value } },
    { title: 'set<Setting> of the configuration class as a value', add: ({ members }, name, value) => { members[`set${capitalized(name)}`] = value } },
    { title: 'set<Setting> of the configuration class as a function', add: ({ members }, name, value) => { members[`set${capitalized(name)}`] = () => value } }
  ],
  [
    { title: 'option', add: ({ options }, name, value) => { options[name] = value } },
    { title: 'option set<Setting> as a value', add: ({ options }, name, value) => { options[`set${capitalized(name)}`] = value } },
    { title: 'option set<Setting> as a function', add: ({ options }, name, value) => { options[`set${capitalized(name)}`] = () => value } }
  ],
  [{ title: 'get<Setting> of the configuration class', add: ({ members }, name, value) => { members[`get${capitalized(name)}`] = () => value } }],
  [{ title: 'option get<Setting>', add: ({ options }, name, value) => { options[`get${capitalized(name)}`] = () => value } }],
  [{ title: 'override of a guard', add: ({ overrides }, name, value) => { overrides[name] = value } }]
]

/** The value that a guarded request sees. */
async function seenBy (t: Test, name: string, { application, members, options, overrides }: Parts): Promise<unknown> {
  const app = configured(t, application)
  await app.register(tokenAuth, { secret, authenticate, doProtection: false, configurationClass: classWith(members), ...options })
  app.get('/', { preHandler: app.tokenAuth.protect(overrides) }, async (request) => ({ value: Reflect.get(request.tokenAuth.settings, name) }))
  return (await app.inject('/')).json().value
}

// Promise: specification/sources-setting-ascending
t.test('each source wins over those before it', async (t) => {
  const values: Record<string, unknown[]> = {
    leeway: [1, 2, 3, 4, 5, 6],
    claimIss: ['application', 'class', 'option', 'class getter', 'option getter', 'override'],
    cookieSet: [true, false, true, false, true, false],
    cookieMaxAge: [1, 2, 3, 4, 5, 6],
    userId: ['a', 'b', 'c', 'd', 'e', 'f'],
    onRefusal: ['throw', 'reply', 'throw', 'reply', 'throw', 'reply'],
    trustedOrigins: [['https://a.example', 'https://b.example'], '*', ['https://c.example'], [], '*', ['https://d.example']]
  }
  for (const [name, given] of Object.entries(values)) {
    const parts = (): Parts => ({ application: {}, members: {}, options: {}, overrides: {} })
    for (const [rank, spellings] of sources.entries()) {
      for (const { title, add } of spellings) {
        const all = parts()
        for (const [weaker, [source]] of sources.slice(0, rank).entries()) source?.add(all, name, given[weaker])
        add(all, name, given[rank])
        assert.deepEqual(await seenBy(t, name, all), given[rank], `${name}: ${title}`)
        const alone = parts()
        add(alone, name, given[rank])
        assert.deepEqual(await seenBy(t, name, alone), given[rank], `${name}: ${title}, alone`)
      }
    }
  }
})

t.test('settings that shape routes follow the same order, as far as they may be given', async (t) => {
  const app = configured(t, { SERVICE_JWT_URL_PREFIX: '/application', SERVICE_JWT_PATH_TO_VERIFY: '/application', SERVICE_JWT_PATH_TO_RETRIEVE_USER: '/application/me' })
  const configurationClass = classWith({ urlPrefix: '/class', setPathToVerify: '/class' })
  await app.register(tokenAuth, { secret, authenticate, configurationClass, urlPrefix: '/option' })
  t.match(app.tokenAuth.settings, { urlPrefix: '/option', pathToVerify: '/class', pathToRetrieveUser: '/application/me' })
  t.ok(app.hasRoute({ method: 'GET', url: '/option/class' }))
  t.ok(app.hasRoute({ method: 'GET', url: '/option/application/me' }))
})

t.test('@fastify/env brings settings from a .env file, in the types that the settings have', async (t) => {
  const directory = t.testdir({
    '.env': [`SERVICE_JWT_SECRET="${otherSecret}"`, 'SERVICE_JWT_EXPIRATION_DELTA=60', 'SERVICE_JWT_COOKIE_SET=true', 'SERVICE_JWT_VERIFY_EXP=1',
      'SERVICE_JWT_CLAIM_ISS=dotenv', 'SERVICE_JWT_URL_PREFIX=/login', 'PORT=3000'].join('\n')
  })
  const names = ['SERVICE_JWT_SECRET', 'SERVICE_JWT_EXPIRATION_DELTA', 'SERVICE_JWT_COOKIE_SET', 'SERVICE_JWT_VERIFY_EXP', 'SERVICE_JWT_CLAIM_ISS', 'SERVICE_JWT_URL_PREFIX', 'PORT']
  const schema = { type: 'object', properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])) }
  const app = host(t)
  // As a host writes it: one after the other, without waiting.
  app.register(fastifyEnv, { schema, env: false, dotenv: { path: join(directory, '.env') } })
  app.register(tokenAuth, { authenticate, cookieStrict: false })
  await app.ready()
  t.match(app.tokenAuth.settings, { expirationDelta: 60, cookieSet: true, verifyExp: true, claimIss: 'dotenv', urlPrefix: '/login' })
  const answer = await login(app, { url: '/login' })
  t.equal(answer.statusCode, 200)
  t.match(app.tokenAuth.verifyToken(answer.json().access_token), { iss: 'dotenv' })
  t.match(app.tokenAuth.verifyToken(forge(claims({ iss: 'dotenv' }), { key: otherSecret })), { user_id: 1 }, 'the secret is that of the file')
})

// Promise: specification/booleans-integers-application
t.test('booleans and integers of the application\'s configuration may be text, and nothing else passes for them', async (t) => {
  const configure = async (config: object) => {
    const app = configured(t, config)
    return { app, error: await refusal(t, {}, app) }
  }
  const good: [string, unknown, unknown][] = [
    ...['true', '1', 'TRUE', true, 1].map((value): [string, unknown, unknown] => ['claimIat', value, true]),
    ...['false', '0', 'False', false, 0].map((value): [string, unknown, unknown] => ['cookieStrict', value, false]),
    ['leeway', '0', 0], ['leeway', '0060', 60], ['leeway', 60, 60], ['cookieMaxAge', '60', 60], ['cookieMaxAge', null, null],
    ['claimAud', '60', '60'], ['claimIss', null, null], ['tokenCacheSize', '0', 0], ['algorithm', 'HS512', 'HS512'], ['authorizationHeaderPrefix', '', '']
  ]
  for (const [name, value, expected] of good) {
    const { app, error } = await configure({ [environmentKey(name)]: value })
    assert.equal(error, undefined, `${name} ${inspect(value)}`)
    assert.equal(Reflect.get(app.tokenAuth.settings, name), expected, name)
  }
  const bad: [string, unknown, string][] = [
    ...['yes', 'on', '', ' true', '2'].map((value): [string, unknown, string] => ['claimIat', value, JSON.stringify(value)]),
    ['claimIat', 2, '2'], ['claimIat', null, 'null'], ['claimIat', ['true'], 'an array'], ['claimIat', {}, 'an object'],
    ...['', ' 60', '-1', '+1', '1.5', '1e3', '0x10', '60s', '1_000'].map((value): [string, unknown, string] => ['leeway', value, JSON.stringify(value)]),
    ['leeway', '99999999999999999999', '100000000000000000000'], ['leeway', null, 'null'], ['leeway', true, 'true'], ['leeway', ['60'], 'an array'],
    ['cookieMaxAge', '', '""'], ['claimIss', '', '""'], ['algorithm', 'none', '"none"'], ['secret', 5, 'a number'], ['generateRefreshToken', 'x', 'a string']
  ]
  for (const [name, value, shown] of bad) {
    const { error } = await configure({ [environmentKey(name)]: value })
    assert.ok(error instanceof InvalidConfiguration, `${name} ${inspect(value)}`)
    const message = error?.message ?? ''
    assert.ok(message.startsWith(`"${environmentKey(name)}" of the application's configuration must be `), message)
    assert.ok(message.includes(`; given: ${shown}. See `), message)
  }
})

// Promise: specification/application-configuration
t.test('every setting of the specification has its key in the application\'s configuration', async (t) => {
  const names = `access_token_name algorithm auth_mode authorization_header authorization_header_prefix authorization_header_refresh_prefix claim_aud
    claim_iat claim_iss claim_nbf claim_nbf_delta cookie_set cookie_domain cookie_httponly cookie_access_token_name cookie_refresh_token_name cookie_strict
    debug do_protection expiration_delta generate_refresh_token leeway login_redirect_url path_to_authenticate path_to_refresh path_to_retrieve_user
    path_to_verify private_key public_key query_string_access_token_name query_string_refresh_token_name query_string_set query_string_strict
    refresh_token_enabled refresh_token_name scopes_enabled scopes_name secret strict_slashes url_prefix user_id verify_exp`.split(/\s+/)
  t.equal(names.length, 42)
  for (const name of names) {
    const key = `SERVICE_JWT_${name.toUpperCase()}`
    const error = await refusal(t, {}, configured(t, { [key]: {} }))
    assert.ok(error?.message.startsWith(`"${key}" of the application's configuration must be `), key)
  }
})

t.test('an unknown key with the prefix is refused and the nearest suggested; other keys are none of our business', async (t) => {
  const typo = await refusal(t, {}, configured(t, { SERVICE_JWT_EXPIRATION: '60' }))
  t.ok(typo instanceof InvalidConfiguration)
  t.match(typo?.message, 'unknown key "SERVICE_JWT_EXPIRATION". Did you mean "SERVICE_JWT_EXPIRATION_DELTA"?')
  for (const key of ['SERVICE_JWT_', 'SERVICE_JWT_leeway', 'SERVICE_JWT_COOKIE_HTTP_ONLY', 'SERVICE_JWT_AUTHENTICATE']) {
    assert.ok(await refusal(t, {}, configured(t, { [key]: '60' })) instanceof InvalidConfiguration, key)
  }
  const harmless = [
    { LEEWAY: '1', JWT_LEEWAY: '1', service_jwt_leeway: '1', leeway: 1, MY_SERVICE_JWT_LEEWAY: '1' }, { SERVICE_JWT_LEEWAY: undefined, SERVICE_JWT_X: undefined },
    null, undefined, 'SERVICE_JWT_LEEWAY', 5, []
  ]
  for (const config of harmless) {
    const app = configured(t, config)
    assert.equal(await refusal(t, {}, app), undefined, inspect(config))
    assert.equal(app.tokenAuth.settings.leeway, 180, caseOf(config))
  }
})

// Promise: specification/only-values-set
t.test('the application\'s configuration is read once, at registration, by every instance in its reach', async (t) => {
  let reads = 0
  const config = { get SERVICE_JWT_LEEWAY () { return String(++reads) } }
  const app = configured(t, config)
  await app.register(tokenAuth, { secret, authenticate })
  app.get('/', { preHandler: app.tokenAuth.protect() }, async (request) => ({ leeway: request.tokenAuth.settings.leeway }))
  await app.register(async (nested) => {
    await nested.register(tokenAuth, { secret, authMode: false })
    t.equal(nested.tokenAuth.settings.leeway, 2, 'a nested instance reads the configuration that it inherits')
  })
  t.equal((await app.inject({ url: '/', headers: bearer(forge(claims())) })).json().leeway, 1)
  t.equal(reads, 2)

  const changed = { SERVICE_JWT_LEEWAY: '5' }
  const other = configured(t, changed)
  await other.register(tokenAuth, { secret, authenticate })
  changed.SERVICE_JWT_LEEWAY = '6'
  t.equal(other.tokenAuth.settings.leeway, 5, 'only values set before the registration are seen')
})

t.test('keys come from every source', async (t) => {
  const { publicKey, privateKey } = { publicKey: '', privateKey: '', ...keysFor('ES256') }
  const app = configured(t, { SERVICE_JWT_ALGORITHM: 'ES256', SERVICE_JWT_PUBLIC_KEY: publicKey })
  await app.register(tokenAuth, { authenticate, configurationClass: classWith({ setPrivateKey: () => privateKey }) })
  const token = (await login(app)).json().access_token
  t.match(app.tokenAuth.verifyToken(token), { user_id: 1 })
  t.match(app.tokenAuth.verifyToken(forge(claims(), { algorithm: 'ES256', key: privateKey })), { user_id: 1 })
})

// Promise: specification/set-setting
t.test('a set function runs once, at registration, as a method of its object', async (t) => {
  let runs = 0
  class Counting extends Configuration {
    #seconds = 7
    setLeeway () {
      runs++
      return this.#seconds
    }
  }
  const app = await build(t, { configurationClass: Counting })
  app.get('/', { preHandler: app.tokenAuth.protect({ claimIat: true }) }, async (request) => ({ leeway: request.tokenAuth.settings.leeway }))
  for (let request = 0; request < 3; request++) {
    assert.equal((await app.inject({ url: '/', headers: bearer(forge(claims())) })).json().leeway, 7, caseOf(request))
  }
  t.equal(runs, 1)
})

t.test('the generator of refresh tokens comes from every source, with its object', async (t) => {
  class AsMethod extends Configuration {
    #prefix = 'method'
    override generateRefreshToken () { return this.#prefix }
  }
  class AsProperty extends Configuration { override generateRefreshToken = () => 'property' }
  class Setting extends Configuration { setGenerateRefreshToken () { return () => 'set' } }
  class Getting extends Configuration { getGenerateRefreshToken (request: object) { return () => `got for ${Reflect.get(request, 'url')}` } }
  const cases: [object, string | RegExp][] = [
    [{}, /^[\w-]{43}$/],
    [{ configurationClass: AsMethod }, 'method'],
    [{ configurationClass: AsProperty }, 'property'],
    [{ configurationClass: Setting }, 'set'],
    [{ configurationClass: Setting, generateRefreshToken: async () => 'option' }, 'option'],
    [{ configurationClass: Setting, setGenerateRefreshToken: () => () => 'set option' }, 'set option'],
    [{ configurationClass: Getting, generateRefreshToken: () => 'option' }, 'got for /auth']
  ]
  for (const [options, expected] of cases) {
    const { stored, ...handlers } = refreshStore()
    const app = await build(t, { ...handlers, ...options })
    t.match((await login(app)).json().refresh_token, expected)
    t.match(stored.get(1), expected)
  }
})

t.test('a registration leaves its options alone, and does not follow them later', async (t) => {
  const options = Object.freeze({ secret, authenticate, leeway: 5 })
  const app = host(t)
  await app.register(tokenAuth, options)
  t.equal(app.tokenAuth.settings.leeway, 5)
  const changing = { secret, authenticate, leeway: 5 }
  const other = host(t)
  await other.register(tokenAuth, changing)
  changing.leeway = 6
  t.equal(other.tokenAuth.settings.leeway, 5)
})
