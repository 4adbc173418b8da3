/** The warnings of `register()`: settings that are allowed, but dangerous or without effect. Each has a code. */
import { types } from 'node:util'
import type { TrustedIssuers } from './authorities/issuers.ts'
import type { OwnKeys } from './authorities/own.ts'
import { withFinding } from './documents.ts'
import type { Host } from './host/host.ts'
import type { PreparedSessions } from './sessions/prepare.ts'
import type { Resolved } from './settings/configuration.ts'

const texts = {
  W01: '"secret" is not set, so this process has generated a random secret. Tokens of this process are valid only in this process, and only until it ends. Set "secret", or SERVICE_JWT_SECRET in fastify.config (Node.js reads a file .env only with --env-file=.env), or, to verify what another service issues, "publicKey", "keys" or "issuers". With NODE_ENV=production, this is an error.',
  W02: 'A secret can be guessed from one token: it is shorter than the hash of the algorithm (RFC 7518 section 3.2), repeats a few characters, or is a well-known example. Use at least 32 random bytes for HS256, 48 for HS384, 64 for HS512.',
  W03: '"doProtection" is false, so every request passes every guard. Use it in tests and development only.',
  W04: '"verifyExp" is false, so access tokens never expire, and they cannot be revoked. Set it to true.',
  W05: '"queryStringSet" is true, so tokens appear in logs, browser histories and Referer headers (RFC 6750 section 2.3). Log requests with requestSerializer() of this package, and set a not-found handler, because the default one logs URLs.',
  W06: '"leeway" is not smaller than "expirationDelta", so tokens are accepted for at least twice their lifetime. Reduce "leeway".',
  W07: '"debug" is true in production, so refusals tell clients which check failed. Set it to false.',
  W08: '"cookieHttponly" and "cookieSplit" are both false, so scripts in a page can read the whole access token. Set one of them to true.',
  W09: '"cookieSamesite" is "none", so browsers send the cookies with requests from other sites. Guards and endpoints refuse requests from origins that "trustedOrigins" does not list. On routes that read no token, check the origin yourself, and change nothing on GET.',
  W10: '"cookieSecure" is false, so browsers also send the cookies, and the tokens in them, over plain HTTP. Set it to true. For development, most browsers accept Secure cookies on http://localhost.',
  W11: '"claimNbfDelta" is so much greater than "expirationDelta" that every token expires before it becomes active, so no token of this instance is ever accepted. Reduce "claimNbfDelta".',
  W12: 'There is a handler "addScopesToPayload", but "scopesEnabled" is false, so the handler is never called and tokens get no scopes. Set "scopesEnabled" to true, or remove the handler.',
  W13: 'There is a handler "retrieveRefreshToken", but "refreshTokenEnabled" is false, so the handler is never called, and there are neither refresh tokens nor a refresh endpoint. Set "refreshTokenEnabled" to true, or remove the handler.',
  W14: '"scopesEnabled" is true, but there is no handler "addScopesToPayload", so tokens get no scopes at login. Add the handler, or set "scopesEnabled" to false.',
  W15: 'The "verify" method of a custom claim, an extra verification or "overrideScopeValidator" is an async function. It returns a promise, which is not true, so every request is refused. Make it synchronous, or use the handler "trusted", which may be asynchronous.',
  W16: '"pathToJwks" publishes the public keys, and "claimIss" or "claimAud" is not set, so a service that trusts these keys cannot distinguish tokens for it from tokens for other services (OWASP ASVS 9.2.4). Set both.',
  W17: '"keys" contains both secrets and pairs of keys (OWASP ASVS 9.1.2). Use both only during a migration, and remove the old key as soon as its tokens have expired.',
  W18: '"audience" of an entry of "issuers" is null, so tokens that this issuer made for other services are accepted. Set it to the audience of your service.',
  W19: '"trustedOrigins" is "*", so pages of every origin can log users in and do what the cookies allow. Give a list of the origins whose pages may use the cookies.',
  W21: 'Tokens of several issuers are accepted, and there is neither a handler "retrieveUser" nor "trusted", so users of different issuers with equal ids are treated as one user. Add "retrieveUser", and look users up by the claim "iss" of the payload and the id.',
  W22: 'Another instance in this process has the same key, and a different session store or none. Each instance accepts access tokens of the other instance whose sessions have ended. Give both instances "sessions" with the same store object, or different keys. If both stores are in one database, ignore this warning. In tests, close the first application before the next starts.',
  W23: 'Sessions are kept in the memory of this process. Other processes do not know them, and all users are logged out when it ends. Set "sessions.store" to redisSessions(client), postgresSessions(pool) or a store of your own.',
  W24: '"sessions.lifetime" is a function, and neither "cookieMaxAge" nor "getCookieMaxAge" is set, so the cookies end when the browser is closed, even if the session has not ended. Set "cookieMaxAge" to the longest lifetime.',
  W25: '"sessions" has no effect, because the instance has only the keys of "issuers", whose tokens belong to no session: tokens of ended sessions are accepted until they expire. Set "keys" to the keys of the service that has the sessions, instead of "issuers", or remove "sessions".',
  W26: 'Routes have neither a guard nor an exemption, so everybody may use them. Give each of them a guard, or set "config: { tokenAuth: false }" if everybody may use it, or "config: { tokenAuth: \'basic auth\' }" if something else guards it. If "requireGuards" is true, the application does not start with such a route; false silences this warning.',
  W27: 'A route is guarded by scoped(), but the tokens of this instance have no scopes, so every request is refused, unless generateAccessToken() is called with "scopes". Set "scopesEnabled" to true, and add the handler "addScopesToPayload".',
  W28: 'A secret has characters that probably do not belong to it, such as quotation marks or a line end. They are read as a part of the secret, so a service that reads it without them refuses the tokens of this service.',
  W42: 'Another instance of this application has another key, and a cookie of the same name that browsers send to both instances, so each login destroys the login at the other instance. Give the cookies of one instance other names ("cookieAccessTokenName", "cookieRefreshTokenName"), or give each instance a "cookiePath" that does not contain the other.',
  W43: '"sessions" is set, and there is no handler "retrieveUser", so a user who was deleted or disabled stays logged in until the session expires. Add "retrieveUser", which is called at each refresh: if it finds nobody, the session ends.',
  W44: 'The endpoint of the current user sends a member of the user that is probably secret, such as the hash of a password. Return a user without it from "retrieveUser", or leave it out in toJSON() of the user.'
} as const

export type WarningCode = keyof typeof texts

/**
 * Emits a process warning, which `process.on('warning')` receives and `--no-warnings` silences.
 * @param details further sentences about the finding
 */
export function warn (code: WarningCode, instanceName: string, details = ''): void {
  process.emitWarning(withFinding(`${instanceName}: ${texts[code]}${details}`, code), {
    type: 'TokenAuthWarning',
    code: `TOKEN_AUTH_${code}`
  })
}

/** The parts of a registration that its warnings depend on. */
interface Registered {
  readonly resolved: Resolved
  readonly host: Host
  readonly own: OwnKeys
  readonly issuers: TrustedIssuers | undefined
  readonly sessions: PreparedSessions | undefined
  /** Whether its secret is the random one of this process. */
  readonly isDefaultSecret: boolean
}

/** Emits the warnings about a registration: its keys, its settings, and the functions of its application. */
export function warnOfRegistration ({ resolved: { settings, getters }, host, own, issuers, sessions, isDefaultSecret }: Registered): void {
  const { handlers, customClaims, extraVerifications } = host
  const { authMode, scopesEnabled, refreshTokenEnabled } = settings
  const setsCookies = settings.cookieSet || getters.has('cookieSet')
  // An instance without endpoints often has the settings and handlers of the service that issues its tokens.
  const areScopesFixed = authMode && !getters.has('scopesEnabled')
  const hasOwnKeys = own.fingerprints.length > 0
  const kindsOfUsers = (issuers?.size ?? 0) + (hasOwnKeys ? 1 : 0)
  const findings: Partial<Record<WarningCode, boolean>> = {
    W01: isDefaultSecret,
    W02: own.isWeak || sessions?.isWeak === true,
    W17: own.isMixed,
    W18: issuers?.hasAnyAudience === true,
    // A user id may belong to another user under another issuer.
    W21: issuers !== undefined && kindsOfUsers > 1 && handlers.retrieveUser === undefined && handlers.trusted === undefined,
    W25: issuers !== undefined && sessions !== undefined && !hasOwnKeys,
    W43: sessions !== undefined && authMode && handlers.retrieveUser === undefined,
    W03: !settings.doProtection,
    W04: !settings.verifyExp,
    W05: settings.queryStringSet,
    W06: settings.verifyExp && settings.leeway >= settings.expirationDelta,
    W07: settings.debug && process.env.NODE_ENV === 'production',
    W08: settings.cookieSet && !settings.cookieHttponly && !settings.cookieSplit,
    W09: settings.cookieSet && settings.cookieSamesite === 'none',
    W10: settings.cookieSet && !settings.cookieSecure,
    W11: settings.verifyExp && settings.claimNbf && settings.claimNbfDelta - settings.leeway >= settings.expirationDelta + settings.leeway,
    W12: areScopesFixed && !scopesEnabled && handlers.addScopesToPayload !== undefined,
    // Not for `storeRefreshToken`: `generateRefreshToken()` also calls it.
    W13: authMode && !refreshTokenEnabled && handlers.retrieveRefreshToken !== undefined,
    W14: areScopesFixed && scopesEnabled && handlers.addScopesToPayload === undefined,
    W15: [...customClaims.map(({ verify }) => verify), ...extraVerifications, handlers.overrideScopeValidator].some((check) =>
      types.isAsyncFunction(check)
    ),
    W16: settings.pathToJwks !== null && (['claimIss', 'claimAud'] as const).some((name) => settings[name] === null && !getters.has(name)),
    W19: settings.cookieSet && settings.trustedOrigins === '*',
    W23: sessions?.isMemory === true && process.env.NODE_ENV === 'production',
    W24: typeof sessions?.settings.lifetime === 'function' && setsCookies && settings.cookieMaxAge === null && !getters.has('cookieMaxAge')
  }
  for (const [code, found] of Object.entries(findings)) if (found) warn(code as WarningCode, settings.instanceName)
  const residue = own.residue ?? sessions?.residue
  if (residue !== undefined) warn('W28', settings.instanceName, ` ${residue}`)
}
