/**
 * All settings. The TypeBox schema defines the type, range and default; the comment above a setting is its description,
 * also in editors and in docs/settings.md. The name in the specification and the key in the application's configuration
 * follow from the name: `expirationDelta`, `expiration_delta`, `SERVICE_JWT_EXPIRATION_DELTA`.
 */
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { algorithms } from '../algorithms.ts'
import type { KeyMaterial } from '../../types/keys.ts'
import { maximumSeconds } from '../values.ts'

const flag = (value: boolean) => Type.Boolean({ default: value })
const seconds = (value: number, minimum: number) => Type.Integer({
  default: value, minimum, maximum: maximumSeconds, allowed: `a whole number of seconds from ${minimum} to ${maximumSeconds}`
})

/** The characters of header names (RFC 9110 section 5.6.2) and of cookie names (RFC 6265 section 4.1.1). */
const tokenCharacters = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
/** Not `__proto__`: Node.js keeps headers as properties of an object by their lowercase names, and loses this header. */
const headerName = (value: string) => Type.String({
  default: value,
  pattern: `^(?!__[Pp][Rr][Oo][Tt][Oo]__$)${tokenCharacters}$`,
  allowed: 'a header name without spaces and separators (RFC 9110 section 5.6.2), other than "__proto__"'
})
const cookieName = (value: string) =>
  Type.String({
    default: value,
    pattern: `^${tokenCharacters}$`,
    allowed: 'a cookie name without spaces and separators (RFC 6265 section 4.1.1)'
  })
const queryName = (value: string) =>
  Type.String({ default: value, pattern: '^[A-Za-z0-9._~-]+$', allowed: 'a query parameter name of letters, digits and ". _ ~ -"' })
const fieldName = (value: string) =>
  Type.String({ default: value, pattern: '^(?!__proto__$).+$', allowed: 'a non-empty name of one line, other than "__proto__"' })
const segment = "[A-Za-z0-9._~!$&'+,;=@-]+"
const path = (value: string) => Type.String({
  default: value, pattern: `^/(?:${segment}(?:/${segment})*/?)?$`, allowed: 'a path that starts with "/", without parameters or wildcards'
})
/** RFC 1035 section 2.3.1. */
const domainLabel = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?'

/** As {@link redirectTarget}, on this site. */
const ownPage = (value: string) => Type.String({
  default: value, pattern: '^/(?!/)[!-\\[\\]-~]*$', allowed: 'a path that starts with one "/", with a query if you like'
})
/** Prevents open redirects: browsers read `//host` and `/\host` as another host, after removing tabs and line ends. */
export const redirectTarget = Type.String({
  pattern: '^(?:/(?!/)|https?://(?=[A-Za-z0-9\\[]))[!-\\[\\]-~]*$', allowed: 'a path that starts with one "/", or an absolute http(s) URL'
})
const orNone = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()], { default: null })
const claimValue = Type.String({ minLength: 1, pattern: '\\S', allowed: 'a non-empty string' })
const key = () => Type.Unsafe<KeyMaterial>(Type.Any({ holds: 'key' }))

export const settingsSchema = Type.Object({
  /** Field of a response that holds the access token. */
  accessTokenName: fieldName('access_token'),
  /** Signing algorithm: HS, ES, RS or PS with 256, 384 or 512 (RFC 7518), or `EdDSA` with Ed25519 (RFC 8037). A token that is signed with another is refused. */
  algorithm: Type.Union(
    algorithms.map((name) => Type.Literal(name)),
    { default: 'HS256' }
  ),
  /** Whether the endpoints exist. When false, the instance only verifies tokens, and `generateAccessToken` issues them if there is a key that signs. */
  authMode: flag(true),
  /** Request header that carries the access token. */
  authorizationHeader: headerName('authorization'),
  /** Scheme word before the token in that header, compared case-insensitively. Empty: the whole header is the token. */
  authorizationHeaderPrefix: Type.String({
    default: 'Bearer',
    pattern: '^[!-~]*$',
    allowed: 'one word of visible ASCII characters, or an empty string'
  }),
  /** Has no effect: no endpoint reads a refresh token from a header. */
  authorizationHeaderRefreshPrefix: Type.String({
    default: 'Refresh',
    pattern: '^[!-~]*$',
    allowed: 'one word of visible ASCII characters, or an empty string'
  }),
  /** Audience: written as `aud`, required and compared when verifying. */
  claimAud: orNone(claimValue),
  /** Write the time of the login as `auth_time` (RFC 9470), for guards with `maxAge`. */
  claimAuthTime: flag(false),
  /** Write the issue time as `iat`. */
  claimIat: flag(false),
  /** Issuer: written as `iss`, required and compared when verifying. */
  claimIss: orNone(claimValue),
  /** Write `nbf`, and require it when verifying. */
  claimNbf: flag(false),
  /** Seconds from the issue time until a token becomes valid. */
  claimNbfDelta: seconds(180, 0),
  /** Name of the cookie that holds the access token. */
  cookieAccessTokenName: cookieName('access_token'),
  /** Domain attribute of the cookies. Empty: only the host that set them gets them back. */
  cookieDomain: Type.String({
    default: '',
    pattern: `^(?:\\.?${domainLabel}(?:\\.${domainLabel})*)?$`,
    allowed: 'a domain name such as "example.org", or an empty string for none'
  }),
  /** HttpOnly attribute of the cookies: scripts of a page cannot read them. */
  cookieHttponly: flag(true),
  /** Max-Age attribute of the cookies. None: they end when the browser is closed. */
  cookieMaxAge: orNone(
    Type.Integer({ minimum: 1, maximum: maximumSeconds, allowed: `a whole number of seconds from 1 to ${maximumSeconds}` })
  ),
  /** Partitioned attribute of the cookies (CHIPS): a page of another site that frames the application gets cookies of its own. Requires `cookieSecure`, and `cookieSamesite` to be `none`. */
  cookiePartitioned: flag(false),
  /** Path attribute of the cookies. */
  cookiePath: Type.String({ default: '/', pattern: '^/[!-:<-~]*$', allowed: 'a path that starts with "/", without spaces and ";"' }),
  /** Name of the cookie that holds the refresh token. */
  cookieRefreshTokenName: cookieName('refresh_token'),
  /** SameSite attribute of the cookies. */
  cookieSamesite: Type.Union([Type.Literal('strict'), Type.Literal('lax'), Type.Literal('none')], { default: 'lax' }),
  /** Secure attribute of the cookies. Chromium and Firefox accept them on http://localhost, Safari does not. */
  cookieSecure: flag(true),
  /** Read tokens from cookies, and set them when a token is issued. */
  cookieSet: flag(false),
  /** Split the access token into two cookies: scripts can read header and payload, but not the signature. */
  cookieSplit: flag(false),
  /** Name of the cookie that holds the signature of a split token. */
  cookieSplitSignatureName: cookieName('access_token_signature'),
  /** Whether a missing cookie is refused. When false, the query string (if on) and the header are tried next. */
  cookieStrict: flag(true),
  /** Development aid: refusals state in `detail` which check failed and where the token was found. */
  debug: flag(false),
  /** Whether guards protect. When false, every request passes every guard. */
  doProtection: flag(true),
  /** Lifetime of an access token in seconds. */
  expirationDelta: seconds(1800, 1),
  /** Creates a refresh token. */
  generateRefreshToken: Type.Any({ holds: 'callable', allowed: 'a function (request, user) that returns a non-empty string' }),
  /** Name of the decorators `fastify.<name>` and `request.<name>`. In TypeScript, declare it in `TokenAuthInstances`. */
  instanceName: Type.String({
    default: 'tokenAuth',
    pattern: '^[A-Za-z_$][A-Za-z0-9_$]*$',
    allowed: 'a JavaScript identifier of letters, digits, "_" and "$"'
  }),
  /** Tolerance for clock differences in seconds. It adds to the lifetime of every token. */
  leeway: seconds(180, 0),
  /** The page after a login by a form that has no field `next`. */
  loggedInUrl: ownPage('/'),
  /** The page after a logout by a form that has no field `next`: a path or an http(s) URL. None: that of `loginRedirectUrl`, without its query. */
  loggedOutUrl: orNone(redirectTarget),
  /** Where a guard with `redirectOnFail` sends a browser: a path or an http(s) URL. `{next}` is replaced by the requested path, `{reason}` by `absent`, `expired` or `ended`. If it is set, the endpoints also take forms, with the reason `refused`. */
  loginRedirectUrl: Type.String({ ...redirectTarget, default: '/index.html' }),
  /** Whether the plugin answers a refused request itself, or throws the error to the application's error handler. */
  onRefusal: Type.Union([Type.Literal('reply'), Type.Literal('throw')], { default: 'reply' }),
  /** Path of the endpoint that issues tokens, below `urlPrefix`. */
  pathToAuthenticate: path('/'),
  /** Path of the endpoint that publishes the public keys. None: it does not exist. */
  pathToJwks: orNone(path('/jwks')),
  /** Path of the logout, with `sessions`. */
  pathToLogout: path('/logout'),
  /** Path of the endpoint that exchanges a refresh token. */
  pathToRefresh: path('/refresh'),
  /** Path of the current-user endpoint. */
  pathToRetrieveUser: path('/me'),
  /** Path of the endpoints for the sessions of the user, with `sessions`. Null: they do not exist. */
  pathToSessions: Type.Union([path('/sessions'), Type.Null()], { default: '/sessions' }),
  /** Path of the endpoint that verifies a token. */
  pathToVerify: path('/verify'),
  /** Private key for RS, PS, ES and EdDSA algorithms. */
  privateKey: key(),
  /** Public key for RS, PS, ES and EdDSA algorithms; an alias of `secret`. */
  publicKey: key(),
  /** Query parameter that holds the access token. */
  queryStringAccessTokenName: queryName('access_token'),
  /** Query parameter that holds the refresh token. */
  queryStringRefreshTokenName: queryName('refresh_token'),
  /** Read tokens from the query string. URLs end up in logs (RFC 6750 section 2.3). */
  queryStringSet: flag(false),
  /** Whether a missing query parameter is refused. When false, the header is tried next. */
  queryStringStrict: flag(true),
  /** Issue and accept refresh tokens. */
  refreshTokenEnabled: flag(false),
  /** Field of a request or response that holds the refresh token. */
  refreshTokenName: fieldName('refresh_token'),
  /** Whether the application starts only if every route has a guard or an exemption. */
  requireGuards: flag(false),
  /** Write the scopes that `addScopesToPayload` returns into the token. */
  scopesEnabled: flag(false),
  /** Claim that holds the scopes. */
  scopesName: fieldName('scopes'),
  /** Signing secret for HS algorithms; at least as long as the hash (RFC 7518 section 3.2). */
  secret: key(),
  /** Whether endpoints respond only at the configured paths. When false, they respond with and without a trailing slash. */
  strictSlashes: flag(false),
  /** Whether the responses to login and refresh contain the tokens in the body. `false`, in cookie mode only: scripts of a page cannot read them. */
  tokensInBody: flag(true),
  /** Number of verified tokens that are remembered, so that their signature is not verified again; at most twice as many. A token takes one entry for each 2,048 characters. */
  tokenCacheSize: Type.Integer({ default: 1000, minimum: 0, maximum: 1_000_000 }),
  /** Cookie mode: origins whose pages may use the cookies, besides that of the application. */
  trustedOrigins: Type.Unsafe<readonly string[] | '*'>(
    Type.Any({ default: [], holds: 'origins', allowed: 'a list of origins such as "https://app.example.org", or "*" for all' })
  ),
  /** Prefix of all endpoints, without a trailing slash. */
  urlPrefix: Type.String({
    default: '/auth',
    pattern: `^(?:/${segment})*$`,
    allowed: 'a path with a leading "/" and no trailing "/", or an empty string for none'
  }),
  /** Key or property of a user, and claim of a token, that holds the user id. With `sub`, ids are text (RFC 7519): 42 becomes `"42"`. */
  userId: fieldName('user_id'),
  /** Write and require `exp`. When false, access tokens never expire. */
  verifyExp: flag(true)
})

/** The settings that hold key material. They are never printed, and they are read and checked separately. */
export const keySettings = ['secret', 'publicKey', 'privateKey'] as const
/** The settings that determine the keys of tokens. */
export const keyUseSettings = [...keySettings, 'algorithm'] as const
/** The settings that bind a token to its service and its user. */
export const bindingSettings = ['claimIss', 'claimAud', 'userId'] as const
/** The settings that determine how long a token is valid. */
export const lifetimeSettings = ['verifyExp', 'expirationDelta', 'leeway'] as const
/** The settings that determine which cookies hold a token. */
export const cookieSettings = [
  'cookieSet', 'cookieSplit', 'cookieAccessTokenName', 'cookieRefreshTokenName', 'cookieSplitSignatureName', 'cookieDomain', 'cookiePath', 'cookiePartitioned'
] as const
/** The settings that hold the path of an endpoint. */
export type PathSetting = Extract<SettingName, `pathTo${string}`>
/** The paths of the endpoints, each of which has a row in the table of endpoints. */
export const pathSettings = Object.keys(settingsSchema.properties).filter((name): name is PathSetting => name.startsWith('pathTo'))
/** The settings that determine the routes at registration. They allow neither a getter nor an override. */
export const routeSettings = [
  'authMode',
  'urlPrefix',
  ...pathSettings,
  'strictSlashes',
  'refreshTokenEnabled',
  'requireGuards',
  'instanceName'
] as const

/** The registered claims that the plugin writes and checks (RFC 7519 section 4.1). No other claim may have their names. */
export const registeredClaimNames: readonly string[] = ['exp', 'nbf', 'iat', 'iss', 'aud']

/** The types of all settings. scripts/build/declarations.js writes them out, so that applications do not need the types of TypeBox. */
export type SettingTypes = Static<typeof settingsSchema>
export type KeySetting = typeof keySettings[number]
export type RouteSetting = typeof routeSettings[number]
/**
 * The names of the settings.
 * @useDeclaredType
 */
export type SettingName = keyof SettingTypes
/**
 * The resolved settings, without the key material and `generateRefreshToken`.
 * @interface
 */
export type Settings = Omit<SettingTypes, KeySetting | 'generateRefreshToken'>
export const settingNames = Object.keys(settingsSchema.properties) as SettingName[]

/** `leeway` -> `getLeeway`, or `setLeeway`. */
export const accessorOf = (prefix: 'get' | 'set', name: SettingName) => `${prefix}${name[0]!.toUpperCase()}${name.slice(1)}`
