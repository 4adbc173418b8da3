/**
 * Why nobody is logged in. `logout`: the user logged out, in this tab or another. `ended`: the session was ended, for
 * example on another device. `expired`: the refresh token was refused, usually because it has expired. `absent`: there
 * is no refresh token, usually because nobody logged in. `switched`: another user has logged in, in another tab, and
 * what the page shows is not for that user.
 */
export type SignedOutReason = 'absent' | 'ended' | 'expired' | 'logout' | 'switched'

/** Storage for the tokens in header mode, such as `localStorage` or `sessionStorage`. */
export interface TokenStorage {
  getItem: (key: string) => string | null
  setItem: (key: string, value: string) => void
  removeItem: (key: string) => void
}

/** Options of `createClient`. An option with the name of a setting must have the value of that setting in the service. */
export interface ClientOptions {
  /** Origin of the service, such as `https://api.example.com`, without a path. URLs of requests are relative to it. Default: the origin of the page. */
  baseUrl?: string | undefined
  /**
   * `cookie` (default): the browser keeps the tokens in cookies, which scripts cannot read. The service has `cookieSet: true`,
   * and `trustedOrigins` and CORS with credentials if the page has another origin. `header`: the client keeps the tokens, and
   * sends the access token as `Authorization: Bearer`.
   */
  mode?: 'cookie' | 'header' | undefined
  /** The setting `urlPrefix` of the service. Default: `/auth`. */
  prefix?: string | undefined
  /** Path of the login, below `prefix`. Default: `/`. */
  pathToAuthenticate?: string | undefined
  /** Path of the current user, below `prefix`. Default: `/me`. */
  pathToRetrieveUser?: string | undefined
  /** Path that renews tokens, below `prefix`. Default: `/refresh`. */
  pathToRefresh?: string | undefined
  /** Path of the logout, below `prefix`. Default: `/logout`. */
  pathToLogout?: string | undefined
  /** In header mode: field of a response that has the access token. Default: `access_token`. */
  accessTokenName?: string | undefined
  /** In header mode: field of a request or response that has the refresh token. Default: `refresh_token`. */
  refreshTokenName?: string | undefined
  /**
   * Storage for the tokens in header mode. If it throws, the client keeps the tokens in memory. With `localStorage`, all tabs
   * share one login, which survives a restart of the browser. With `sessionStorage`, the login of a tab survives a reload; but
   * a duplicated tab gets a copy of the tokens, and when both tabs have renewed them, the second renewal looks like theft to
   * the service, which ends the session. Every script of the origin can read both storages, also one that an attacker injects.
   * Default: memory, so that each tab has its own login, which ends when the user leaves the page.
   */
  storage?: TokenStorage | undefined
  /**
   * Called when the user was logged out, when a request shows that nobody is logged in, or when another user has logged in.
   * Usually opens the login page. An error that it throws becomes an uncaught error of the page.
   */
  onSignedOut?: ((reason: SignedOutReason) => void) | undefined
}

/**
 * What `createClient` returns. The methods need no `this`, so they can be passed on as they are.
 * @template User what the handler `retrieveUser` returns, as JSON
 */
export interface Client<User = unknown> {
  /**
   * Who is logged in: `me` of the service, `null` for nobody, or `undefined` until the client has asked the service. It is the
   * same object until its content changes.
   */
  readonly user: User | null | undefined
  /**
   * Calls a function after each change of `user`. If `user` is not known, the client asks the service.
   * @param listener is called without arguments. An error that it throws becomes an uncaught error of the page
   * @returns a function that ends the subscription
   */
  subscribe: (listener: () => void) => () => void
  /**
   * Asks the service who is logged in, and renews the tokens if that is necessary.
   * @returns `user`
   * @throws Error if the response does not contain the user, or the `TypeError` or `TimeoutError` of `fetch`. `user` stays unchanged
   */
  load: () => Promise<User | null>
  /**
   * Like `load`, for use before a WebSocket or an EventSource is opened.
   * @returns in header mode, a valid access token. In cookie mode, and if nobody is logged in, `null`
   * @throws what `load` throws
   */
  token: () => Promise<string | null>
  /**
   * Logs in. In header mode, the client ends the session of an earlier login. In cookie mode, the service does so, and the
   * request waits for renewals in all tabs, because their cookies would replace those of the login. If `user` is known or has
   * subscribers, it is up to date afterwards.
   * @param credentials is sent as JSON, to the handler `authenticate`
   * @returns the response: `ok` after a login, 401 for wrong credentials
   * @throws what `fetch` throws if there is no response, or none within 30 seconds after the request was sent
   * @throws an `AbortError` in cookie mode, if `logout` is called before the request was sent
   * @throws Error in header mode, if the response to a login has no access token; in cookie mode, if the browser rejects the
   * cookies. Both end the session by the refresh token of the body, if there is one
   */
  login: (credentials: object) => Promise<Response>
  /**
   * Ends the session, discards the tokens, notifies the other tabs, and calls `onSignedOut('logout')`, unless nobody is logged in. In
   * cookie mode, the request is sent at once, or after a login of this tab that was sent before. It aborts a renewal of this tab: requests
   * that wait for that return their 401. In header mode, the tokens are discarded first, and up to three requests try to end the session.
   * @returns whether the service has confirmed that the session has ended. Otherwise, the session may last until it expires
   * @throws in cookie mode, if the service cannot be reached or does not clear the cookies: the user is still logged in
   */
  logout: () => Promise<boolean>
  /**
   * Like the global `fetch`. On a 401, it renews the tokens and repeats the request once. All requests, and all tabs if the browser has Web
   * Locks, share one renewal. Only requests to the origin of the service get a token and are repeated.
   *
   * A request with a stream as `init.body` is not repeated, because a stream can be read only once: the response is the 401, and the next
   * request has the new token.
   * @param input a URL or a request; a relative URL is relative to `baseUrl`, but that of a `Request` to the page
   * @param init as for `fetch`
   * @returns the response. A 401 means that the user must log in, or that a new token does not help, for example because the login is too
   * old. If the tokens cannot be renewed at the moment, it is the response to the renewal, such as 503: the user is still logged in
   * @throws what `fetch` throws if there is no response, also of a renewal, or if `signal` aborts
   */
  fetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response>
  /**
   * Stops listening to other tabs and calling `onSignedOut` and subscribers, so that another client can replace this one.
   * Requests in progress continue. Further calls have no effect.
   */
  close: () => void
}
