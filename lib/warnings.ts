/** What `register()` warns of: settings that are allowed, and dangerous or without effect. Each has a number, so that it can be looked up and silenced. */
import { types } from 'node:util'
import type { Host } from './host/host.ts'
import type { Resolved } from './settings/configuration.ts'

const texts = {
  W01: 'No "secret" is set, so this process made a random one: its tokens end with it, and no other process accepts them. Set "secret", or SERVICE_JWT_SECRET in fastify.config; with NODE_ENV=production this is an error.',
  W02: 'The secret is shorter than the hash of the algorithm (RFC 7518 section 3.2), so it can be guessed from one token. Use at least 32 random bytes for HS256, 48 for HS384, 64 for HS512.',
  W03: '"doProtection" is false: every request passes every guard. Leave it to tests and development.',
  W04: '"verifyExp" is false: access tokens never expire, and they cannot be revoked. Turn it on.',
  W05: '"queryStringSet" is true: tokens in URLs end up in logs, histories and Referer headers (RFC 6750 section 2.3). Log requests with requestSerializer() of this package, and set a not-found handler: that of Fastify logs URLs too.',
  W06: '"leeway" is not smaller than "expirationDelta": tokens are accepted for at least twice their lifetime. Lower "leeway".',
  W07: '"debug" is true in production: refusals tell clients which check failed. Turn it off.',
  W08: '"cookieHttponly" is false and "cookieSplit" too: a script in the page can read the whole access token. Turn one of them on.',
  W09: '"cookieSamesite" is "none": browsers send the cookies with requests that pages of other sites make. Guards and endpoints refuse those whose origin is not in "trustedOrigins". Check the origin yourself on routes that read no token, and change nothing on GET.',
  W10: '"cookieSecure" is false: browsers send the cookies, and the tokens in them, over plain HTTP too. They take Secure cookies on http://localhost, so development does not need it.',
  W11: '"claimNbfDelta" lies so far beyond "expirationDelta" that a token has expired before it becomes valid: no token of this instance is ever accepted. Lower "claimNbfDelta".',
  W12: 'There is a handler "addScopesToPayload", and "scopesEnabled" is false: it is never called, and no token gets scopes. Set "scopesEnabled" to true, or remove the handler.',
  W13: 'There is a handler "retrieveRefreshToken", and "refreshTokenEnabled" is false: it is never called, a login gives no refresh token, and there is no refresh endpoint. Set "refreshTokenEnabled" to true, or remove the handler.',
  W14: '"scopesEnabled" is true, and there is no handler "addScopesToPayload": a login gives no scopes. Give the handler, or set "scopesEnabled" to false.',
  W15: 'The "verify" of a custom claim, an extra verification or "overrideScopeValidator" is an async function: it gives a promise, which is not true, so that everything is refused. Make it synchronous; load what it needs beforehand.',
  W19: '"trustedOrigins" is "*": pages of every origin can log visitors in, and do what their cookies allow. Give a list of the origins whose pages may use the cookies.'
} as const

export type WarningCode = keyof typeof texts

/** Warns once for one registration, as Node.js does: `process.on('warning')` sees it, `--no-warnings` silences it. */
export function warn (code: WarningCode, instanceName: string): void {
  process.emitWarning(`${instanceName}: ${texts[code]}`, { type: 'TokenAuthWarning', code: `TOKEN_AUTH_${code}` })
}

/** The warnings that settings deserve, alone and with the functions of the host. */
export function warnOfSettings ({ settings, getters }: Resolved, { handlers, customClaims, extraVerifications }: Host): void {
  const { authMode, scopesEnabled, refreshTokenEnabled } = settings
  // Without endpoints, settings and handlers are often those of the service that has them.
  const areScopesFixed = authMode && !getters.has('scopesEnabled')
  const findings: Partial<Record<WarningCode, boolean>> = {
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
    // `storeRefreshToken` alone serves `generateRefreshToken`.
    W13: authMode && !refreshTokenEnabled && handlers.retrieveRefreshToken !== undefined,
    W14: areScopesFixed && scopesEnabled && handlers.addScopesToPayload === undefined,
    W15: [...customClaims.map(({ verify }) => verify), ...extraVerifications, handlers.overrideScopeValidator].some((check) => types.isAsyncFunction(check)),
    W19: settings.cookieSet && settings.trustedOrigins === '*'
  }
  for (const [code, found] of Object.entries(findings)) if (found) warn(code as WarningCode, settings.instanceName)
}
