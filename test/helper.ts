/** What every test needs: an application with the plugin, keys, and tokens that say what a test wants them to say. */
import Fastify, { type FastifyInstance, type FastifyLoggerOptions, type FastifyServerOptions, type InjectOptions, type LightMyRequestResponse } from 'fastify'
import { createHmac, generateKeyPairSync, sign as signBytes, constants, type KeyObject } from 'node:crypto'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { connect } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { inspect } from 'node:util'
import root, { type Test } from 'tap'
import tokenAuth, { AuthenticationFailed, TokenAuthError, requestSerializer, type Algorithm, type TokenAuthOptions } from '../lib/index.ts'

/** Names for tests with several instances; users and claims may be any. */
declare module '../types/registry.ts' {
  interface TokenAuthInstances {
    staff: unknown
    partner: unknown
  }
}

/** Long enough for every HS algorithm. */
export const secret = 'a secret for tests only, of more than sixty-four bytes: 0123456789'
export const otherSecret = 'another secret for tests, of more than sixty-four bytes: 0123456789'

export const algorithms: readonly Algorithm[] = [
  'HS256', 'HS384', 'HS512', 'ES256', 'ES384', 'ES512', 'RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'EdDSA'
]

export const users = [
  { user_id: 1, username: 'ada', password: 'lovelace' },
  { user_id: 2, username: 'grace', password: 'hopper' }
]

/** The users as an application may send them. */
export const shownUsers = users.map(({ user_id: id, username }) => ({ user_id: id, username }))

/** The parts of all tokens, private keys and cookies that were seen: none of them may be in a log. */
const secrets = new Set<string>()

/** Texts as long as a digest are keys, signatures, payloads or refresh tokens, but for the ids of keys, which may be in logs. */
function hide (text: string): void {
  const withoutIds = text.replace(/\bkid["']?: ?["'][\w-]+/g, ' ')
  for (const [part] of withoutIds.matchAll(/[\w-]{40,}/g)) secrets.add(part)
}

/** What of a log is secret: the secrets and passwords of the tests, what was hidden, and everything that begins as the parts of a token do. */
export function leaksIn (log: readonly string[]): string[] {
  // What is escaped in JSON is no part of a word.
  const text = log.join('\n').replace(/\\./g, ' ')
  const phrases = [secret, otherSecret, ...users.map(({ password }) => password)].filter((phrase) => text.includes(phrase))
  return [...phrases, ...[...text.matchAll(/eyJ[\w-]{13,}|[\w-]{40,}/g)].map(([part]) => part).filter((part) => part.startsWith('eyJ') || secrets.has(part))]
}

/** Where something is done when the test ends. */
interface Ending { teardown: (end: () => unknown) => void }

/**
 * The options of an application with a log at every level, in which nothing secret may be found when the test ends.
 * A logger of the test's own gets its lines as well.
 */
export function scannedLog (t: Ending, options: FastifyServerOptions = {}): FastifyServerOptions {
  const { logger = { serializers: { req: requestSerializer() } } } = options
  if (typeof logger === 'boolean') return options
  const lines: string[] = []
  t.teardown(() => {
    const leaks = leaksIn(lines)
    if (leaks.length > 0) throw new Error(`This is secret, and it was logged: ${leaks[0]} in ${lines.find((line) => line.includes(leaks[0]!))}`)
  })
  const given: FastifyLoggerOptions = logger
  const stream = { write: (line: string) => { lines.push(line); given.stream?.write(line) } }
  return { ...options, logger: { level: 'trace', ...logger, stream } }
}

/** Hides what clients send to an application and what it answers, but for the address, which belongs into logs. */
function hideTraffic (app: FastifyInstance): void {
  const inject = app.inject.bind(app)
  const watched = async (request: string | InjectOptions) => {
    if (typeof request === 'object') hide(inspect({ ...request, url: '' }, { maxStringLength: null }))
    const answer = await inject(request)
    hide(inspect([answer.headers['set-cookie'], answer.payload], { maxStringLength: null }))
    return answer
  }
  Object.assign(app, { inject: watched })
}

export interface Pair { publicKey: string, privateKey: string }

const pem = (pair: { publicKey: KeyObject, privateKey: KeyObject }): Pair => ({
  publicKey: pair.publicKey.export({ type: 'spki', format: 'pem' }).toString(),
  privateKey: pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
})
const pairs = new Map<string, Pair>()

function remember (id: string, make: () => Pair): Pair {
  const pair = pairs.get(id) ?? make()
  pairs.set(id, pair)
  hide(pair.privateKey)
  return pair
}

export const rsaPair = (modulusLength = 2048, which = 0) =>
  remember(`rsa ${modulusLength} ${which}`, () => pem(generateKeyPairSync('rsa', { modulusLength })))
export const ecPair = (namedCurve: string, which = 0) =>
  remember(`ec ${namedCurve} ${which}`, () => pem(generateKeyPairSync('ec', { namedCurve })))
export const edPair = (which = 0) => remember(`ed25519 ${which}`, () => pem(generateKeyPairSync('ed25519')))

const curves: Partial<Record<Algorithm, string>> = { ES256: 'prime256v1', ES384: 'secp384r1', ES512: 'secp521r1' }

/** A pair for an asymmetric algorithm. The same at every call. */
export function pairFor (algorithm: Algorithm, which = 0): Pair {
  if (algorithm === 'EdDSA') return edPair(which)
  const curve = curves[algorithm]
  return curve === undefined ? rsaPair(2048, which) : ecPair(curve, which)
}

/** The key options of an algorithm: a secret, or both halves of a pair. The same at every call. */
export function keysFor (algorithm: Algorithm): { algorithm: Algorithm, secret: string } | { algorithm: Algorithm } & Pair {
  return algorithm.startsWith('HS') ? { algorithm, secret } : { algorithm, ...pairFor(algorithm) }
}

/** The name of a case, for the message of an assertion in a loop. */
export const caseOf = (...parts: unknown[]): string => parts.map((part) => typeof part === 'string' ? part : inspect(part, { depth: 1, breakLength: Infinity })).join(', ')

/** Seconds since 1970. */
export const now = () => Math.floor(Date.now() / 1000)

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** The signature of `<header>.<payload>`, made with node:crypto and nothing of ours. */
export function signature (input: string, algorithm: Algorithm, key: string): string {
  if (algorithm === 'EdDSA') return signBytes(null, Buffer.from(input), key).toString('base64url')
  const hash = `sha${algorithm.slice(2)}`
  if (algorithm.startsWith('HS')) return createHmac(hash, key).update(input).digest('base64url')
  if (algorithm.startsWith('ES')) return signBytes(hash, Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')
  const padding = algorithm.startsWith('PS') ? constants.RSA_PKCS1_PSS_PADDING : constants.RSA_PKCS1_PADDING
  const saltLength = constants.RSA_PSS_SALTLEN_DIGEST
  return signBytes(hash, Buffer.from(input), { key, padding, ...(algorithm.startsWith('PS') && { saltLength }) }).toString('base64url')
}

export interface Forgery {
  algorithm?: Algorithm
  /** The secret, or the private key. */
  key?: string
  /** Members added to the header `{ alg, typ: 'JWT' }`; undefined ones are left out. */
  header?: Record<string, unknown>
}

/** A token with any payload and header, validly signed unless told otherwise. */
export function forge (payload: unknown, { algorithm = 'HS256', key = secret, header = {} }: Forgery = {}): string {
  const input = `${encode({ alg: algorithm, typ: 'JWT', ...header })}.${encode(payload)}`
  const token = `${input}.${signature(input, algorithm, key)}`
  hide(token)
  return token
}

/** The payload of a token that the default settings accept. */
export const claims = (extra: Record<string, unknown> = {}) => ({ user_id: 1, exp: now() + 1800, ...extra })

export const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

/** What signs with the key of an algorithm. */
export function signingKey (algorithm: Algorithm): string {
  const keys = keysFor(algorithm)
  return 'secret' in keys ? keys.secret : keys.privateKey
}

/** A token that {@link verifying} accepts. */
export const valid = (algorithm: Algorithm, payload: Record<string, unknown> = claims()) => forge(payload, { algorithm, key: signingKey(algorithm) })

/** The characters of base64url. */
export const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

/** What a token says, without any verification. */
export function payloadOf (token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
}
export function headerOf (token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString())
}

/** The handler of most hosts: a user by name and password, or a refusal. */
export const authenticate: NonNullable<TokenAuthOptions['authenticate']> = async ({ body }) => {
  const { username, password } = body as { username?: unknown, password?: unknown }
  const user = users.find((candidate) => candidate.username === username && candidate.password === password)
  if (user === undefined) throw new AuthenticationFailed('User not found.')
  return user
}

/** An application that is closed when the test ends, in whose log nothing secret may be found then. */
export function host (t: Ending, options: FastifyServerOptions = {}): FastifyInstance {
  const app = Fastify(scannedLog(t, options))
  t.teardown(() => app.close())
  hideTraffic(app)
  return app
}

/** An application with the plugin registered; `secret` and `authenticate` are given unless the options say otherwise. */
export async function build (t: Test, options: Partial<TokenAuthOptions> = {}, server: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const app = host(t, server)
  await app.register(tokenAuth, together({ secret, authenticate }, options))
  return app
}

/** Options from several places, of which TypeScript cannot tell whether they go together. */
export const together = (...parts: ReadonlyArray<Partial<TokenAuthOptions>>): TokenAuthOptions => Object.assign({}, ...parts)

/** What an instance that only verifies says of a token. */
export async function verifying (t: Test, algorithm: Algorithm, options: Partial<TokenAuthOptions> = {}): Promise<(token: string) => string> {
  const keys = keysFor(algorithm)
  const key: Partial<TokenAuthOptions> = 'secret' in keys ? { secret: keys.secret } : mistyped({ secret: undefined, publicKey: keys.publicKey })
  const app = await build(t, together({ algorithm, authMode: false }, key, options))
  return (token) => {
    try {
      app.tokenAuth.verifyToken(token)
      return 'accepted'
    } catch (error) {
      return error instanceof TokenAuthError && error.statusCode === 401 ? 'refused' : `threw ${String(error)}`
    }
  }
}

/** An in-memory store of refresh tokens, as handlers. */
export function refreshStore () {
  const stored = new Map<unknown, string>()
  return {
    stored,
    refreshTokenEnabled: true,
    storeRefreshToken: async (userId: unknown, token: string) => { stored.set(userId, token) },
    retrieveRefreshToken: async (userId: unknown) => stored.get(userId)
  }
}

/** Logs in. */
export async function login (app: FastifyInstance, { username = 'ada', password = 'lovelace', url = '/auth' } = {}): Promise<LightMyRequestResponse> {
  return await app.inject({ method: 'POST', url, payload: { username, password } })
}

interface CodedWarning extends Error { code?: string }

/** The lists of codes that {@link warnings} gave, and the codes that belong on each. */
const collecting = new Map<string[], readonly string[]>()
/**
 * Applications of one key, some with sessions, are open at the same time in most test files, most tests of scopes forge the
 * tokens, and many tests of sessions need no users. Collected only where a test asks for them by name.
 */
const ambient = new Set(['TOKEN_AUTH_W22', 'TOKEN_AUTH_W27', 'TOKEN_AUTH_W43'])
const isOurs = ({ code = '' }: CodedWarning) => code.startsWith('TOKEN_AUTH_') && !ambient.has(code)
const printers = process.listeners('warning')
process.removeAllListeners('warning')
process.on('warning', (warning: CodedWarning) => {
  const { code = '' } = warning
  const takers = [...collecting].filter(([, codes]) => codes.length === 0 ? isOurs(warning) : codes.includes(code))
  for (const [list] of takers) list.push(code)
  if (takers.length > 0 || ambient.has(code)) return
  if (isOurs(warning)) root.fail(`No test expects the warning ${code}. Where it should come, expect it: warnings(t, '${code.slice(-3)}')`, { warning })
  for (const print of printers) print.call(process, warning)
})

/**
 * Expects warnings of this process until the test ends: they are collected and not printed. A warning of this package that
 * no test expects fails the test file.
 * @param expected codes: of this package, such as `W03`, or of others, such as `FSTDEP022`. Without one: all of this package
 * @returns the codes of the warnings, as they come
 */
export function warnings (t: Ending, ...expected: string[]): string[] {
  const list: string[] = []
  collecting.set(list, expected.map((code) => /^W\d\d$/.test(code) ? `TOKEN_AUTH_${code}` : code))
  t.teardown(async () => {
    // Node.js emits a warning after the code that gave rise to it.
    await turn()
    collecting.delete(list)
  })
  return list
}

/**
 * Holds the timers that are set with one delay, such as the `handlerTimeout` of a host: they expire when the test says so
 * and at no other time. All others run as they are.
 * @returns lets those expire that were not cleared
 */
export function holdTimers (t: Ending, delay: number): () => void {
  const { setTimeout: set, clearTimeout: clear } = globalThis
  const held = new Map<unknown, () => void>()
  const hold = (callback: (...given: unknown[]) => void, after?: number, ...given: unknown[]) => {
    const timer = set(callback, after, ...given)
    if (after !== delay) return timer
    clear(timer)
    held.set(timer, () => callback(...given))
    return timer
  }
  const release = (timer: NodeJS.Timeout | undefined) => {
    held.delete(timer)
    clear(timer)
  }
  Object.assign(globalThis, { setTimeout: hold, clearTimeout: release })
  t.teardown(() => { Object.assign(globalThis, { setTimeout: set, clearTimeout: clear }) })
  return () => {
    const callbacks = [...held.values()]
    held.clear()
    for (const callback of callbacks) callback()
  }
}

/** Collects rejections that nobody handles, until the test ends. tap would end the run at the first. */
export function unhandled (t: Test): unknown[] {
  const reasons: unknown[] = []
  const others = process.listeners('unhandledRejection')
  process.removeAllListeners('unhandledRejection')
  process.on('unhandledRejection', (reason) => { reasons.push(reason) })
  t.teardown(() => {
    process.removeAllListeners('unhandledRejection')
    for (const listener of others) process.on('unhandledRejection', listener)
  })
  return reasons
}

/** Sets the clock of this process until the test ends. @param at seconds since 1970 */
export function setClock (t: Test, at: number): (seconds: number) => void {
  const real = Date.now
  let current = at
  Date.now = () => current * 1000
  t.teardown(() => { Date.now = real })
  return (seconds) => { current = seconds }
}

/** Takes the place of the monotonic clock until the test ends. It returns the milliseconds that the test says have passed. */
export function setMonotonicClock (t: Test): (milliseconds: number) => void {
  // Whole, so that differences are exact.
  const start = Math.ceil(performance.now())
  let passed = 0
  // Not t.intercept(), which keeps the result of each call.
  Object.defineProperty(performance, 'now', { value: () => start + passed, configurable: true })
  t.teardown(() => Reflect.deleteProperty(performance, 'now'))
  return (milliseconds) => { passed = milliseconds }
}

/** Listens on a free port of the loopback interface. */
export async function listen (app: FastifyInstance): Promise<number> {
  await app.listen({ port: 0, host: '127.0.0.1' })
  const [address] = app.addresses()
  return typeof address === 'object' ? address.port : 0
}

/** Sends bytes as they stand and gives everything that comes back until the server closes the connection. */
export async function exchange (port: number, bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.write(bytes)
  let answer = ''
  for await (const chunk of socket) answer += String(chunk)
  hide(answer)
  return answer
}

/** A value that TypeScript would refuse, for those who write JavaScript. */
export const mistyped = <T>(value: unknown): T => value as T

/** The error with which a registration with these options, right or wrong, is refused; undefined where it is not. */
export async function refusal (t: Test, options: object, app: FastifyInstance = host(t)): Promise<Error | undefined> {
  try {
    await app.register(tokenAuth, { secret, authenticate, ...options })
    return undefined
  } catch (error) {
    return error as Error
  }
}

/** Counts how often this process opens a file, until the test ends. */
export function readsOf (t: Ending, path: string): () => number {
  const { openSync } = fs
  let reads = 0
  const replace = (open: unknown) => {
    Object.assign(fs, { openSync: open })
    syncBuiltinESMExports()
  }
  replace((...given: Parameters<typeof openSync>) => {
    if (given[0] === path) reads++
    return openSync(...given)
  })
  t.teardown(() => replace(openSync))
  return () => reads
}

/** Sets NODE_ENV until the test ends. */
export function environment (t: Test, value: string): void {
  const before = process.env.NODE_ENV
  process.env.NODE_ENV = value
  t.teardown(() => {
    if (before === undefined) delete process.env.NODE_ENV
    else process.env.NODE_ENV = before
  })
}
