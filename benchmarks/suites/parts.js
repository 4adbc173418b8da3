/** Measures the parts of a request separately in a tight loop, in microseconds, and how they grow with the input. */
import { createVerifier, createSigner } from 'fast-jwt'
import Fastify from 'fastify'
import { CompactSign, importPKCS8, importSPKI, jwtVerify } from 'jose'
import jsonwebtoken from 'jsonwebtoken'
import tokenAuth from '../../dist/lib/index.js'
import { extractToken } from '../../build/lib/request/extract.js'
import { LiveKeys } from '../../build/lib/keys/live-keys.js'
import { settingsSchema } from '../../build/lib/settings/schema.js'
import { TrustedIssuers } from '../../build/lib/authorities/issuers.js'
import { findersOf, listedKeys } from '../../build/lib/authorities/own.js'
import { signerOf } from '../../build/lib/token/codec.js'
import { verifierOf } from '../../build/lib/authorities/verifier.js'
import { signingKey, verifyingKey } from '../../build/lib/keys/material.js'
import { areScopesEnough, parseRequirements } from '../../build/lib/token/scopes.js'
import { answerWith } from '../helper/cores.js'
import { timeOf, timesOf } from '../helper/time.js'
import { claims, keyOptions, keysOf, manyTokens, ringKid, ringOf, threeIssuers, tokenMaker } from '../tokens.js'

const asymmetric = (algorithm) => !algorithm.startsWith('HS')
const bytesOf = (text) => new TextEncoder().encode(text)

async function sign (settings) {
  const tables = []
  for (const algorithm of ['HS256', 'ES256', 'RS256']) {
    const { signing } = keysOf(algorithm)
    const payload = { user_id: 1, exp: Math.floor(Date.now() / 1000) + 3600, ...claims }
    const ours = signerOf(algorithm, signingKey(algorithm, keyOptions({ algorithm, keys: keysOf(algorithm) })), false)
    const fastJwt = createSigner({ key: signing, algorithm, noTimestamp: true })
    const joseKey = asymmetric(algorithm) ? await importPKCS8(signing, algorithm) : bytesOf(signing)
    tables.push({
      title: `sign ${algorithm}`,
      rows: await timesOf({
        'fastify-token-auth': () => ours(payload),
        'fast-jwt': () => fastJwt(payload),
        jsonwebtoken: () => jsonwebtoken.sign(payload, signing, { algorithm, noTimestamp: true }),
        jose: () => new CompactSign(bytesOf(JSON.stringify(payload))).setProtectedHeader({ alg: algorithm, typ: 'JWT' }).sign(joseKey)
      }, settings)
    })
  }
  return tables
}

const oursOf = (algorithm, cacheSize) => verifierOf(findersOf(algorithm, verifyingKey(algorithm, keyOptions({ algorithm, keys: keysOf(algorithm) }))), cacheSize)

async function verify (settings) {
  const tables = []
  for (const algorithm of ['HS256', 'ES256', 'PS256', 'RS256']) {
    const { verifying } = keysOf(algorithm)
    const [token] = manyTokens(1, algorithm)
    const bad = `${token.slice(0, token.lastIndexOf('.') + 1)}${manyTokens(2, algorithm)[1].split('.')[2]}`
    const remembering = oursOf(algorithm, 1000)
    const cold = oursOf(algorithm, 0)
    requireRemembered(token, remembering)
    const fastJwt = createVerifier({ key: verifying, algorithms: [algorithm] })
    const joseKey = asymmetric(algorithm) ? await importSPKI(verifying, algorithm) : bytesOf(verifying)
    tables.push({
      title: `verify ${algorithm}`,
      rows: await timesOf({
        'fastify-token-auth, remembered': () => remembering(token),
        'fastify-token-auth, not remembered': () => cold(token),
        'fastify-token-auth, bad signature': () => cold(bad),
        'fast-jwt': () => fastJwt(token),
        'fast-jwt, bad signature': () => { try { return fastJwt(bad) } catch (error) { return error } },
        jsonwebtoken: () => jsonwebtoken.verify(token, verifying, { algorithms: [algorithm] }),
        jose: () => jwtVerify(token, joseKey, { algorithms: [algorithm] })
      }, settings)
    })
  }
  return tables
}

/** Returns a function that creates verifiers of a ring with these keys. @param issuers the option `issuers`; undefined for none */
async function ringVerifiers (algorithm, keys, issuers) {
  const settings = { ...defaults, algorithm }
  const resolved = { settings, getters: new Set(), keys: () => ({}) }
  const live = await LiveKeys.read(keys, resolved, () => {})
  const { finders } = listedKeys(live, issuers && await TrustedIssuers.read(issuers, resolved, () => {}))
  return (tokenCacheSize) => verifierOf(finders, tokenCacheSize)
}

/** Compares a ring of four keys with one key. */
async function ring (settings) {
  const tables = []
  for (const algorithm of ['HS256', 'ES256', 'RS256', 'EdDSA']) {
    const keys = ringOf(algorithm)
    const verifiers = await ringVerifiers(algorithm, keys)
    const besideIssuers = await ringVerifiers(algorithm, keys, threeIssuers())
    const make = tokenMaker(algorithm, { kid: ringKid })
    const token = make(1)
    const bad = `${token.slice(0, token.lastIndexOf('.') + 1)}${make(2).split('.')[2]}`
    const unknown = tokenMaker(algorithm, { kid: 'another-key-than-those-of-the-ring' })(1)
    const [one, oneCold, four, fourCold, issuers, issuersCold] = [oursOf(algorithm, 1000), oursOf(algorithm, 0), verifiers(1000), verifiers(0), besideIssuers(1000), besideIssuers(0)]
    for (const verify of [one, four, issuers]) requireRemembered(token, verify)
    tables.push({
      title: `ring of four, ${algorithm}`,
      rows: await timesOf({
        'one key, remembered': () => one(token),
        'ring, remembered': () => four(token),
        'ring and issuers, remembered': () => issuers(token),
        'one key, not remembered': () => oneCold(token),
        'ring, not remembered': () => fourCold(token),
        'ring and issuers, not remembered': () => issuersCold(token),
        'one key, bad signature': () => oneCold(bad),
        'ring, bad signature': () => fourCold(bad),
        'ring, unknown kid': () => fourCold(unknown)
      }, settings)
    })
  }
  return tables
}

const rules = { requireAll: true, requireAllActions: true }
/** Verifies a token twice. @throws if it is not remembered: a row about remembered tokens would measure something else */
function requireRemembered (token, verify = oursOf('HS256', 1000)) {
  const first = verify(token)
  if (!first.isRemembered || verify(token) !== first) throw new Error(`A token of ${token.length} characters is not remembered.`)
}

const manyScopes = (count) => Array.from({ length: count }, (_, index) => `resource${index}:write`)

async function scopesByCount (settings) {
  const rows = []
  for (const count of [1, 10, 100, 1000]) {
    const requirements = parseRequirements(`resource${count - 1}:write`)
    const granted = manyScopes(count)
    rows.push({ name: `${count.toLocaleString('en')} scope${count > 1 ? 's' : ''}`, ...await timeOf(() => areScopesEnough(requirements, granted, rules), settings) })
  }
  return rows
}

/** Measures whole guards, with requests that have only what guards read. The difference of the two is the cost of scopes. */
async function guards (settings) {
  const app = Fastify()
  await app.register(tokenAuth, { ...keyOptions({ algorithm: 'HS256', keys: keysOf('HS256') }), authMode: false })
  // Longer scopes would make a token of more than 2,048 characters, which is not remembered.
  const token = tokenMaker()(1, { scopes: Array.from({ length: 100 }, (_, index) => `r${index}:w`) })
  requireRemembered(token)
  const authorization = `Bearer ${token}`
  const raw = { url: '/', headers: { host: 'localhost', authorization }, rawHeaders: ['Host', 'localhost', 'Authorization', authorization] }
  const reply = {}
  let passed = 0
  const done = () => passed++
  const through = (guard) => () => guard({ raw, server: app }, reply, done)
  return timesOf({
    'protect, remembered token': through(app.tokenAuth.protect()),
    'scoped, remembered token with 100 scopes': through(app.tokenAuth.scoped('r99:w')),
    'protect, tokenCacheSize 0': through(app.tokenAuth.protect({ tokenCacheSize: 0 })),
    'scoped, tokenCacheSize 0, 100 scopes': through(app.tokenAuth.scoped('r99:w', { tokenCacheSize: 0 }))
  }, settings)
}

const defaults = Object.fromEntries(Object.entries(settingsSchema.properties).map(([name, schema]) => [name, schema.default]))
const [token] = manyTokens(1)

function carrier (headers, url = '/') {
  return { url, headers, rawHeaders: Object.entries(headers).flat() }
}

/** Returns a Cookie header with the access token between other cookies. */
function cookieHeader (count) {
  const cookies = Array.from({ length: count - 1 }, (_, index) => `preference_${index}=a-value-of-usual-length-${index}`)
  cookies.splice(count >> 1, 0, `access_token=${token}`)
  return carrier({ host: 'localhost', cookie: cookies.join('; ') })
}

const fromCookie = { ...defaults, cookieSet: true }
const extraction = (settings) => timesOf({
  header: () => extractToken(headerCarrier, defaults),
  query: () => extractToken(queryCarrier, { ...defaults, queryStringSet: true })
}, settings)
const headerCarrier = carrier({ host: 'localhost', 'user-agent': 'benchmark', accept: '*/*', authorization: `Bearer ${token}` })
const queryCarrier = carrier({ host: 'localhost' }, `/?page=1&access_token=${token}&sort=name`)

async function cookiesByCount (settings) {
  const rows = []
  for (const count of [1, 5, 20, 50]) {
    const cookies = cookieHeader(count)
    rows.push({ name: `${count} cookie${count > 1 ? 's' : ''}`, ...await timeOf(() => extractToken(cookies, fromCookie), settings) })
  }
  return rows
}

async function verifyBySize (settings) {
  const make = tokenMaker()
  const rows = []
  for (const kilobytes of [0.3, 0.5, 1, 2, 4, 8]) {
    const rest = Math.floor(kilobytes * 1000 / 4 * 3)
    const sized = make(1, { session: '', scopes: [], name: '', email: '', aud: undefined, iss: undefined, text: 'x'.repeat(Math.max(0, rest - 140)) })
    const remembering = oursOf('HS256', 1000)
    const cold = oursOf('HS256', 0)
    const name = `${sized.length.toLocaleString('en')} characters`
    rows.push({ name: `${name}, not remembered`, ...await timeOf(() => cold(sized), settings) })
    // Longer tokens are not remembered.
    if (sized.length > 2048) continue
    requireRemembered(sized, remembering)
    rows.push({ name: `${name}, remembered`, ...await timeOf(() => remembering(sized), settings) })
  }
  return rows
}

answerWith(async (settings) => [
  ...await sign(settings),
  ...await verify(settings),
  ...await ring(settings),
  { title: 'guards', rows: await guards(settings) },
  { title: 'scopes, not remembered', rows: await scopesByCount(settings) },
  { title: 'extraction', rows: [...await extraction(settings), ...await cookiesByCount(settings)] },
  { title: 'token size, HS256', rows: await verifyBySize(settings) }
])
