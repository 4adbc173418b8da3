/**
 * Every endpoint, one row each. To add one, write its file, its row here, and the setting of its path. The comment of a row
 * is its row in docs/reference.md and, with `@sessions`, in docs/sessions-reference.md.
 */
import { checkDistinct } from '../settings/together.ts'
import type { Registration } from '../registration.ts'
import type { Settings } from '../settings/schema.ts'
import { authenticateEndpoint } from './authenticate.ts'
import type { Endpoint, EndpointRow, PublishedKeys } from './endpoint.ts'
import { jwksEndpoint } from './jwks.ts'
import { logoutEndpoint } from './logout.ts'
import { meEndpoint } from './me.ts'
import { refreshEndpoint } from './refresh.ts'
import { sessionRefreshEndpoint } from './session-refresh.ts'
import { endSessionByFormEndpoint, endSessionEndpoint, endSessionsEndpoint, listSessionsEndpoint } from './sessions.ts'
import { verifyEndpoint } from './verify.ts'

const withAuthMode = ({ authMode }: Settings) => authMode
const withRefreshTokens = ({ authMode, refreshTokenEnabled }: Settings, hasSessions: boolean) =>
  authMode && refreshTokenEnabled && !hasSessions
const withSessions = (_settings: Settings, hasSessions: boolean) => hasSessions

/** The rows, in the order in which the routes are added and documented. */
const rows = {
  /**
   * with a JSON object for your `authenticate` handler | 200 `{access_token}`, and `{refresh_token}` with `refreshTokenEnabled` | 401 with the body `{"reasons", "exception"}` as `text/plain`; 400 without a JSON object
   * @sessions with credentials | 200 `{access_token, refresh_token}`. 401 if `authenticate` refuses. 503: no session was started. In cookie mode, the session of an earlier refresh cookie ends
   */
  authenticate: {
    name: 'authenticate',
    method: 'POST',
    path: 'pathToAuthenticate',
    exists: withAuthMode,
    hook: 'extendAuthenticate',
    access: false,
    isForOwnOrigin: true,
    bodies: 'either',
    implement: authenticateEndpoint
  },
  /** with a token | 200 `{valid: true}` | 400 `{valid: false, reason}` */
  verify: {
    name: 'verify',
    method: 'GET',
    path: 'pathToVerify',
    exists: withAuthMode,
    hook: 'extendVerify',
    access: 'says whether the token is valid',
    readsToken: 'required',
    implement: verifyEndpoint
  },
  /** with a token | 200 `{me}`; `{"me": null}` if `retrieveUser` returns nothing | 401 */
  me: { name: 'me', method: 'GET', path: 'pathToRetrieveUser', exists: withAuthMode, hook: 'extendRetrieveUser', implement: meEndpoint },
  /** with the access token, which may have expired, and `{refresh_token}`; with `refreshTokenEnabled` | 200 `{access_token}` | 401; 400 without a refresh token */
  refresh: {
    name: 'refresh',
    method: 'POST',
    path: 'pathToRefresh',
    exists: withRefreshTokens,
    hook: 'extendRefresh',
    access: 'requires an access token and a refresh token',
    readsToken: 'required',
    isForOwnOrigin: true,
    takesRefreshToken: true,
    implement: refreshEndpoint
  },
  /** @sessions with `{refresh_token}`, or the token in its cookie or query parameter | 200 `{access_token, refresh_token}`. 400 without a refresh token (401 if a strict cookie or query parameter is missing). 401 for any invalid refresh token, with the same body and unchanged cookies. 500, 503: the refresh token is still valid */
  sessionRefresh: {
    name: 'refresh',
    method: 'POST',
    path: 'pathToRefresh',
    option: 'sessions',
    exists: withSessions,
    hook: 'extendRefresh',
    access: 'requires a refresh token',
    isForOwnOrigin: true,
    takesRefreshToken: true,
    implement: sessionRefreshEndpoint
  },
  /** @sessions with a refresh token of any age, an access token, or both | 204, also for a forged refresh token or an ended session. 400 without a token, in header mode. 401 for an invalid access token without a refresh token. 503: the session has ended for this process only, and ends for all as soon as the store is available. In cookie mode, the sessions of all its cookies end, and each of these responses clears the cookies */
  logout: {
    name: 'logout',
    method: 'POST',
    path: 'pathToLogout',
    option: 'sessions',
    exists: withSessions,
    access: 'requires a token of the session',
    readsToken: 'optional',
    isForOwnOrigin: true,
    takesRefreshToken: true,
    bodies: 'either',
    implement: logoutEndpoint
  },
  /** @sessions with an access token | 200, as below. 401. 503 */
  listSessions: {
    name: 'listSessions',
    method: 'GET',
    path: 'pathToSessions',
    option: 'sessions',
    exists: withSessions,
    implement: listSessionsEndpoint
  },
  /** @sessions with an access token | 204. 404 for a session that the user does not have. 401. 503. In cookie mode, ending the current session clears the cookies */
  endSession: {
    name: 'endSession',
    method: 'DELETE',
    path: 'pathToSessions',
    below: '/:id',
    option: 'sessions',
    exists: withSessions,
    implement: endSessionEndpoint
  },
  /** @sessions with an access token | As above, for [forms](cookies.md#forms) */
  endSessionByForm: {
    name: 'endSessionByForm',
    method: 'POST',
    path: 'pathToSessions',
    below: '/:id/end',
    option: 'sessions',
    exists: withSessions,
    bodies: 'either',
    implement: endSessionByFormEndpoint
  },
  /** @sessions with an access token | 204: all sessions of the user have ended. With `?except=current`, the current one stays. 400 for another value. 401. 503 */
  endSessions: {
    name: 'endSessions',
    method: 'DELETE',
    path: 'pathToSessions',
    option: 'sessions',
    exists: withSessions,
    implement: endSessionsEndpoint
  },
  /** with [`pathToJwks`](keys.md#publish-keys), also with `authMode: false` | 200, the public keys as a JWK set | */
  jwks: {
    name: 'jwks',
    method: 'GET',
    path: 'pathToJwks',
    exists: () => true,
    access: false,
    isCacheable: true,
    implement: (_registration: Registration, keys: PublishedKeys) => jwksEndpoint(keys)
  }
} as const satisfies Readonly<Record<string, EndpointRow>>

export const endpointTable: Readonly<Record<keyof typeof rows, EndpointRow>> = rows
const endpointRows: readonly EndpointRow[] = Object.values(rows)

/** Returns the path of an endpoint below `urlPrefix`; null where it has none. */
function pathOf ({ path: setting, below }: EndpointRow, settings: Settings): string | null {
  const path = settings[setting]
  return path === null || below === undefined ? path : `${path === '/' ? '' : path.replace(/\/$/, '')}${below}`
}

/** Returns the endpoints of a registration. */
export function endpointsOf (registration: Registration, keys: PublishedKeys): Endpoint[] {
  const { settings, sessions } = registration
  return endpointRows.flatMap((row) => {
    const path = pathOf(row, settings)
    return path === null || !row.exists(settings, sessions !== undefined) ? [] : [{ row, path, ...row.implement(registration, keys) }]
  })
}

/** Unless `strictSlashes` is true, an endpoint answers with and without a trailing slash. */
const withoutSlash = (path: string) => path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path

/**
 * Checks that endpoints of one method have different paths. Disabled endpoints are included, so that enabling them causes no
 * conflict.
 * @param given the options of the registration
 * @throws {InvalidConfiguration}
 */
export function checkPaths (settings: Settings, given: Readonly<Record<string, unknown>>): void {
  const taken = endpointRows.filter(({ option }) => option === undefined || given[option] !== undefined)
  for (const method of new Set(taken.map((row) => row.method))) {
    const paths = taken.filter((row) => row.method === method && row.below === undefined).flatMap(({ path: setting }) => {
      const path = settings[setting]
      return path === null ? [] : [[setting, settings.strictSlashes ? path : withoutSlash(path)]]
    })
    checkDistinct(Object.fromEntries(paths), `the ${method} endpoints need different paths`)
  }
}
