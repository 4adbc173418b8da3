/** The changes of settings that docs/changing-settings.md describes: every setting and option that `register()` takes. */
import { createSecretKey } from 'node:crypto'
import type { Kind } from './clients.ts'
import { memorySessions, View, Responses, Authentication, Configuration } from '../../lib/index.ts'
import { otherSecret, pairFor, refreshStore, secret } from '../helper.ts'
import { trusted } from '../authorities/issuers.ts'

/**
 * Options, of which TypeScript cannot tell whether they go together. `sessions` is merged with the usual one; null: none.
 * `maxAge` and `scopedGuards`: whether the routes have guards that need these claims.
 */
export type Options = Readonly<Record<string, unknown>> & { readonly sessions?: Readonly<Record<string, unknown>> | null | undefined }

type Steps = ReadonlyArray<readonly [options: Options, seconds: number]>

export interface Change {
  /** The setting or option, or several that change at once. */
  readonly of: string | readonly string[]
  /** What changes, for the page. Empty for any change. */
  readonly said: string
  /** What both deployments have besides the usual options. */
  readonly base?: Options
  readonly from?: Options
  readonly to: Options
  /** Which clients are there; otherwise all that can be. */
  readonly kinds?: readonly Kind[]
  /** Whether the page is at http:. */
  readonly isPlain?: boolean
  /** Seconds between the login and the change. */
  readonly pause?: number
  /** What to know or to do, written by hand. */
  readonly advice?: string
  /** The deployments that lead to the new settings without a logout, and how many seconds pass after each. */
  readonly steps?: Steps
}

export const sessionSecret = 'a secret of sessions, for tests only: 0123456789'
const nextSessionSecret = 'the next secret of sessions, for tests: 0123456789'
const day = 86_400
/** When the clients log in. */
export const noon = 1_800_000_000
/** `expirationDelta` and `leeway`. */
export const life = 1980

const claim = { key: 'tenant', setup: () => 'blue', verify: (value: unknown) => value === 'blue' }
const ed = { secret: undefined, algorithm: 'EdDSA', ...pairFor('EdDSA') }
const handlers = () => {
  const { stored, ...options } = refreshStore()
  return options
}
/** One store of refresh tokens for old and new processes. */
const stored = handlers()
const none = { sessions: null }
const withHandlers = { ...none, ...stored }
const prefix = { urlPrefix: '/app/auth' }
const partitionable = { cookieSamesite: 'none' }
const scoped = { scopesEnabled: true, addScopesToPayload: () => ['read'] }
const hostNames = { cookieAccessTokenName: '__Host-access_token', cookieRefreshTokenName: '__Host-refresh_token' }
const otherNames = { cookieAccessTokenName: 'access', cookieRefreshTokenName: 'refresh' }

/** When a key begins to sign, as seconds after the logins. */
const at = (seconds: number) => new Date((noon + seconds) * 1000)
const [oldKey, nextKey] = [{ key: secret, algorithm: 'HS256' }, { key: otherSecret, algorithm: 'HS512' }]
/** The steps of docs/keys.md, with the sessions of a deployment. */
const stepsOfKeys = (sessions: Options['sessions']): Steps => [
  [{ secret: undefined, sessions, keys: [oldKey] }, 60],
  [{ secret: undefined, sessions, keys: [{ ...nextKey, signFrom: at(3600) }, oldKey] }, 3600 + life],
  [{ secret: undefined, sessions, keys: [nextKey] }, 60]
]
/** First, tokens have what a later deployment requires. */
const firstWritten = (first: Options, then: Options): Steps => [[first, life], [then, 60]]
const written = (claims: (payload: Record<string, unknown>) => object): Options => ({ extendPayload: (payload: Record<string, unknown>) => ({ ...payload, ...claims(payload) }) })
const ofSecrets = (...lists: ReadonlyArray<readonly string[]>): Steps => lists.map((list, index) => [{ sessions: { secret: list } }, index === 1 ? 20 * day : 60])

/** Both directions of a change. */
const both = (of: string, one: unknown, other: unknown, names: readonly [string, string], rest: Partial<Change> = {}): Change[] => [
  { of, said: `${names[0]} to ${names[1]}`, from: { [of]: one }, to: { [of]: other }, ...rest },
  { of, said: `${names[1]} to ${names[0]}`, from: { [of]: other }, to: { [of]: one }, ...rest }
]
const flag = (of: string, rest: Partial<Change> = {}) => both(of, false, true, ['`false`', '`true`'], rest)
/** A setting that is text, with another value. */
const other = (of: string, from: unknown, to: unknown, rest: Partial<Change> = {}): Change => ({ of, said: '', from: { [of]: from }, to: { [of]: to }, ...rest })
const ofSessions = (name: string, from: unknown, to: unknown, rest: Partial<Change> = {}): Change => ({ of: `sessions.${name}`, said: '', from: { sessions: { [name]: from } }, to: { sessions: { [name]: to } }, ...rest })

/** Settings and options that shape no token and no cookie of those who are logged in, or only from the next one on: one value of each, and another. */
const harmless: Record<string, readonly [one: unknown, other: unknown]> = {
  authorizationHeaderRefreshPrefix: ['Refresh', 'Again'],
  claimIat: [false, true],
  cookieHttponly: [true, false],
  debug: [false, true],
  instanceName: ['tokenAuth', 'staff'],
  loggedInUrl: ['/', '/home'],
  loggedOutUrl: [null, '/bye'],
  loginRedirectUrl: ['/index.html', '/login'],
  onRefusal: ['reply', 'throw'],
  pathToJwks: [null, '/jwks'],
  pathToRetrieveUser: ['/me', '/self'],
  pathToSessions: ['/sessions', null],
  pathToVerify: ['/verify', '/check'],
  requireGuards: [false, true],
  strictSlashes: [false, true],
  tokenCacheSize: [1000, 0],
  trustedOrigins: [[], ['https://www.example.org']],
  'sessions.data': [undefined, () => ({ device: 'x' })],
  'sessions.login': [undefined, () => ({ persistent: false, claims: { amr: ['pwd'] } })],
  'sessions.poll': [2, 60],
  'sessions.refuseAfter': [null, 200],
  issuers: [undefined, [trusted()]],
  authenticate: [undefined, async ({ body }: { body: { username: string } }) => ({ user_id: Number(body.username), more: 1 })],
  retrieveUser: [undefined, (_request: unknown, { user_id: id }: { user_id: number }) => ({ user_id: id, more: 1 })],
  trusted: [undefined, () => true],
  extendPayload: [undefined, (payload: object) => ({ ...payload, more: 1 })],
  addScopesToPayload: [() => ['read'], () => ['read', 'write']],
  overrideScopeValidator: [undefined, (isValid: boolean) => isValid],
  destructureScopes: [undefined, (scopes: unknown) => scopes],
  configurationClass: [undefined, class extends Configuration {}],
  authenticationClass: [undefined, class extends Authentication {}],
  responsesClass: [undefined, class extends Responses {}]
}
const harmlessOptions = (which: 0 | 1): Options => {
  const options: Record<string, unknown> = {}
  const sessions: Record<string, unknown> = {}
  for (const [name, values] of Object.entries(harmless)) {
    const [, ofSession] = /^sessions\.(.+)/.exec(name) ?? []
    if (ofSession !== undefined) sessions[ofSession] = values[which]
    // The tests have these two.
    else if (values[which] !== undefined || (name !== 'authenticate' && name !== 'retrieveUser')) options[name] = values[which]
  }
  return { ...options, sessions }
}

export const changes: readonly Change[] = [
  { of: Object.keys(harmless), said: '', base: { ...ed, scopesEnabled: true }, from: harmlessOptions(0), to: harmlessOptions(1) },
  { of: Object.keys(harmless), said: '', base: { ...ed, scopesEnabled: true }, from: harmlessOptions(1), to: harmlessOptions(0) },
  other('accessTokenName', 'access_token', 'token'),
  other('algorithm', 'HS256', 'HS512', { steps: stepsOfKeys({}), advice: 'Four steps avoid the refresh.' }),
  { of: 'authMode', said: '`true` to `false`', to: { authMode: false }, advice: 'Guards accept access tokens until they expire. There are no endpoints to refresh, log out or log in.' },
  other('authorizationHeader', 'authorization', 'x-token'),
  other('authorizationHeaderPrefix', 'Bearer', 'JWT'),
  ...(['claimAud', 'claimIss'] as const).flatMap((of) => [
    ...both(of, null, 'a', ['none', 'text']), other(of, 'a', 'b', { said: 'text to other text' })
  ]),
  { of: 'claimAuthTime', said: '`false` to `true`, with `maxAge` on guards', to: { claimAuthTime: true }, steps: firstWritten({ claimAuthTime: true, maxAge: false }, { claimAuthTime: true }), advice: 'Add `maxAge` in a later deployment.' },
  { of: 'claimAuthTime', said: 'without `maxAge`', to: { claimAuthTime: true, maxAge: false } },
  { of: 'claimAuthTime', said: 'without `maxAge`', from: { claimAuthTime: true, maxAge: false }, to: {} },
  { of: 'claimNbf', said: '`false` to `true`', to: { claimNbf: true }, steps: firstWritten(written(() => ({ nbf: Math.floor(Date.now() / 1000) })), { claimNbf: true }), advice: 'First, write `nbf` with `extendPayload`.' },
  { of: 'claimNbf', said: '`true` to `false`', from: { claimNbf: true }, to: {} },
  other('claimNbfDelta', 180, 0, { said: 'shorter', base: { claimNbf: true } }),
  other('claimNbfDelta', 0, 180, { said: 'longer', base: { claimNbf: true } }),
  other('cookieAccessTokenName', 'access_token', '__Host-access_token'),
  ...both('cookieDomain', '', 'example.org', ['none', 'a domain']),
  other('cookieDomain', 'shop.example.org', 'example.org', { said: 'a domain to one above it' }),
  other('cookieDomain', 'example.org', 'shop.example.org', { said: 'a domain to one below it' }),
  ...both('cookieMaxAge', null, 30 * day, ['none', 'seconds'], {}),
  other('cookieMaxAge', 30 * day, day, { said: 'shorter' }),
  ...flag('cookiePartitioned', { base: partitionable }),
  { of: 'cookiePartitioned', said: '`false` to `true`, together with `cookieSamesite`', to: { cookiePartitioned: true, ...partitionable } },
  { of: 'cookiePartitioned', said: '`true` to `false`, together with `cookieSamesite`', from: { cookiePartitioned: true, ...partitionable }, to: {} },
  { of: 'cookiePartitioned', said: '`true` to `false`, together with `cookieSamesite` and new names of the cookies', from: { cookiePartitioned: true, ...partitionable }, to: otherNames },
  other('cookiePath', '/', '/app', { said: 'to a longer one', base: prefix, advice: 'Give the cookies new names in the same deployment, and all log in again.' }),
  other('cookiePath', '/app', '/', { said: 'to a shorter one', base: prefix, advice: 'Give the cookies new names in the same deployment, and all log in again.' }),
  { of: 'cookiePath', said: 'with new names of the cookies', base: prefix, from: { cookiePath: '/' }, to: { cookiePath: '/app', ...otherNames } },
  { of: 'cookiePath', said: 'with new names of the cookies', base: prefix, from: { cookiePath: '/app' }, to: { cookiePath: '/', ...otherNames } },
  other('cookieRefreshTokenName', 'refresh_token', '__Host-refresh_token', { said: 'alone' }),
  { of: 'cookieRefreshTokenName', said: 'with `cookieAccessTokenName`', to: hostNames },
  ...both('cookieSamesite', 'lax', 'strict', ['`lax`', '`strict`']),
  ...both('cookieSamesite', 'lax', 'none', ['`lax`', '`none`']),
  ...flag('cookieSecure').map((change) => ({ ...change, said: 'of pages on `https:`' })),
  { of: 'cookieSecure', said: '`false` to `true`, of pages on `http:`', from: { cookieSecure: false }, to: { cookieSecure: true }, isPlain: true, advice: 'Serve the pages over HTTPS first.' },
  { of: 'cookieSet', said: '`false` to `true`, of clients that send headers', from: { cookieSet: false }, to: { cookieSet: true }, kinds: ['header'], advice: 'Set `cookieStrict: false` as well.' },
  { of: 'cookieSet', said: '`false` to `true`, with `cookieStrict: false`', from: { cookieSet: false }, to: { cookieSet: true, cookieStrict: false }, kinds: ['header'] },
  { of: 'cookieSet', said: '`true` to `false`, with clients that send headers from then on', from: { cookieSet: true }, to: { cookieSet: false }, kinds: ['cookies'] },
  ...flag('cookieSplit'),
  other('cookieSplitSignatureName', 'access_token_signature', 'signature', { base: { cookieSplit: true } }),
  ...flag('cookieStrict', { kinds: ['cookies', 'pages'] }).map((change) => ({ ...change, said: 'of browsers' })),
  { of: 'cookieStrict', said: '`false` to `true`, of clients that send headers', base: { cookieSet: true }, from: { cookieStrict: false }, to: { cookieStrict: true }, kinds: ['header'] },
  { of: 'doProtection', said: '', to: { doProtection: false } },
  { of: 'doProtection', said: '', from: { doProtection: false }, to: {} },
  other('expirationDelta', 1800, 600, { said: 'shorter' }),
  other('expirationDelta', 600, 1800, { said: 'longer' }),
  other('generateRefreshToken', () => 'a'.repeat(43), () => 'b'.repeat(43), { base: withHandlers }),
  other('leeway', 180, 0, { said: 'without `claimNbf`' }),
  other('leeway', 180, 0, { said: 'below `claimNbfDelta`, with `claimNbf`', base: { claimNbf: true }, advice: 'New tokens are refused for the difference. Shorten `claimNbfDelta`, too.' }),
  { of: 'leeway', said: 'shorter, together with `claimNbfDelta`, with `claimNbf`', base: { claimNbf: true }, from: { leeway: 180 }, to: { leeway: 0, claimNbfDelta: 0 } },
  other('leeway', 0, 180, { said: 'without `claimNbf`' }),
  other('pathToAuthenticate', '/', '/login'),
  other('pathToLogout', '/logout', '/bye'),
  other('pathToRefresh', '/refresh', '/renew'),
  {
    of: ['privateKey', 'publicKey'],
    said: 'another pair',
    base: ed,
    to: { ...pairFor('EdDSA', 1) },
    steps: [
      [{ ...ed, publicKey: undefined, privateKey: undefined, keys: [{ key: pairFor('EdDSA').privateKey }] }, 60],
      [{ ...ed, publicKey: undefined, privateKey: undefined, keys: [{ key: pairFor('EdDSA', 1).privateKey, signFrom: at(3600) }, { key: pairFor('EdDSA').privateKey }] }, 3600 + life],
      [{ ...ed, publicKey: undefined, privateKey: undefined, keys: [{ key: pairFor('EdDSA', 1).privateKey }] }, 60]
    ],
    advice: 'Four steps avoid the refresh.'
  },
  { of: ['privateKey', 'publicKey'], said: 'another pair, without `sessions.secret`', base: { ...ed, sessions: { secret: undefined } }, to: { ...pairFor('EdDSA', 1) } },
  other('queryStringAccessTokenName', 'access_token', 'token', { base: { queryStringSet: true }, kinds: ['header'] }),
  other('queryStringRefreshTokenName', 'refresh_token', 'token', { base: { queryStringSet: true }, kinds: ['header'] }),
  ...flag('queryStringSet', { kinds: ['header'] }).map((change) => ({ ...change, said: '' })),
  ...flag('queryStringStrict', { base: { queryStringSet: true }, kinds: ['header'] }).map((change) => ({ ...change, said: '' })),
  ...flag('refreshTokenEnabled', { base: withHandlers }),
  other('refreshTokenName', 'refresh_token', 'token'),
  { of: 'scopesEnabled', said: '`false` to `true`, with `scoped` guards', base: { addScopesToPayload: scoped.addScopesToPayload }, to: { scopesEnabled: true }, steps: firstWritten({ ...scoped, scopedGuards: false }, scoped), advice: 'Add the guards in a later deployment.' },
  { of: 'scopesEnabled', said: '`true` to `false`', base: { addScopesToPayload: scoped.addScopesToPayload }, from: { scopesEnabled: true }, to: { scopesEnabled: false } },
  other('scopesName', 'scopes', 'scope', { base: scoped, steps: [[written(() => ({ scope: ['read'] })), life], [{ scopesName: 'scope', ...written(() => ({ scopes: ['read'] })) }, life], [{ scopesName: 'scope' }, 60]], advice: 'Until no process and no token has the old name, write both claims with `extendPayload`.' }),
  other('secret', secret, otherSecret, { said: 'replaced', steps: stepsOfKeys({}), advice: 'Four steps avoid the refresh.' }),
  other('secret', secret, otherSecret, { said: 'replaced, without `sessions.secret`', base: { sessions: { secret: undefined } }, steps: stepsOfKeys({ secret }), advice: 'Four steps avoid it, with which `sessions.secret` gets the value of the old `secret`.' }),
  ...flag('tokensInBody', { kinds: ['cookies', 'pages'] }).map((change) => ({ ...change, said: 'of browsers' })),
  { of: 'tokensInBody', said: '`true` to `false`, of clients that send headers', base: { cookieSet: true, cookieStrict: false }, from: { tokensInBody: true }, to: { tokensInBody: false }, kinds: ['header'] },
  other('urlPrefix', '/auth', '/login'),
  other('userId', 'user_id', 'sub'),
  ...flag('verifyExp', { base: withHandlers }).map((change) => ({ ...change, said: `${change.said}, with \`refreshTokenEnabled\`` })),

  { of: 'sessions', said: 'instead of `refreshTokenEnabled`', from: withHandlers, to: {} },
  { of: 'sessions', said: 'without refresh tokens before', from: none, to: {} },
  { of: 'sessions', said: 'removed', to: none },
  { of: 'sessions', said: 'removed, and the key replaced', from: { secret }, to: { ...none, secret: otherSecret } },
  ofSessions('store', memorySessions(), memorySessions(), { said: 'an empty one' }),
  { of: 'sessions.store', said: 'an empty one, and the key replaced', from: { secret, sessions: { store: memorySessions() } }, to: { secret: otherSecret, sessions: { store: memorySessions() } } },
  ofSessions('secret', sessionSecret, nextSessionSecret, { said: 'replaced', steps: ofSecrets([sessionSecret, nextSessionSecret], [nextSessionSecret, sessionSecret], [nextSessionSecret]), advice: 'Three steps avoid it.' }),
  ofSessions('secret', undefined, sessionSecret, { said: 'given for the first time', steps: ofSecrets([secret, sessionSecret], [sessionSecret, secret], [sessionSecret]), advice: 'Three steps avoid it, with `secret` as the old one.' }),
  ofSessions('secret', sessionSecret, undefined, { said: 'removed' }),
  ofSessions('secret', sessionSecret, createSecretKey(Buffer.from(sessionSecret)), { said: 'another form of the same' }),
  ofSessions('grace', 30, 0, { said: 'shorter' }),
  ofSessions('grace', 0, 30, { said: 'longer' }),
  ofSessions('idle', 15 * day, 3600, { said: 'shorter', pause: day, advice: 'It applies to a session from its next refresh on.' }),
  ofSessions('idle', 2 * day, 15 * day, { said: 'longer', pause: day, advice: 'It applies to a session from its next refresh on.' }),
  ofSessions('lifetime', 30 * day, 3600, { said: 'shorter', pause: day, advice: 'Sessions keep the lifetime of their login.' }),
  ofSessions('lifetime', 2 * day, 30 * day, { said: 'longer', pause: day, advice: 'Sessions keep the lifetime of their login.' }),
  ofSessions('maxPerUser', 100, 1, { said: 'fewer', kinds: ['header'], advice: 'The next login of a user ends those that are too many.' }),
  ofSessions('maxPerUser', 10, 100, { said: 'more', advice: 'The next login of a user ends those that are too many.' }),
  other('classViews', undefined, [['/profile', class extends View { override get () { return 'profile' } }]]),
  { of: 'keys', said: 'instead of `secret`, the same key', to: { secret: undefined, keys: [oldKey] } },
  { of: 'keys', said: 'the key that signs is removed', from: { secret: undefined, keys: [oldKey] }, to: { secret: undefined, keys: [nextKey] } },
  { of: 'customClaims', said: 'one more', to: { customClaims: [claim] }, steps: firstWritten(written(() => ({ tenant: 'blue' })), { customClaims: [claim] }), advice: 'First, write the claim with `extendPayload`.' },
  { of: 'customClaims', said: 'one less', from: { customClaims: [claim] }, to: {} },
  { of: 'extraVerifications', said: 'one that older tokens do not pass', to: { extraVerifications: [({ v }: { v?: number }) => v === 2], ...written(() => ({ v: 2 })) }, steps: firstWritten(written(() => ({ v: 2 })), { extraVerifications: [({ v }: { v?: number }) => v === 2], ...written(() => ({ v: 2 })) }), advice: 'First, write what it requires with `extendPayload`.' },
  { of: 'extraVerifications', said: 'one that they pass', to: { extraVerifications: [() => true] } },
  other('storeRefreshToken', stored.storeRefreshToken, stored.storeRefreshToken.bind(undefined), { base: withHandlers }),
  other('retrieveRefreshToken', stored.retrieveRefreshToken, stored.retrieveRefreshToken.bind(undefined), { base: withHandlers })
]
