/**
 * A client for browsers, exported as `fastify-token-auth/client`: it logs in and out, sends requests, and renews the
 * tokens. For services with the option `sessions`, and the default names of endpoints and tokens.
 * @module fastify-token-auth/client
 */

// Of the globals of browsers, Node.js has only some, so the compiler does not know these.
declare const location: { readonly origin: string }
declare const navigator: { readonly locks?: { readonly request: <T>(name: string, run: () => Promise<T>) => Promise<T> } }

/**
 * Why nobody is logged in. `logout`: the user logged out, in this tab or another. `ended`: the session was ended, for
 * example on another device. `expired`: the refresh token was refused, usually because it has expired. `absent`: there
 * is no refresh token, usually because nobody logged in.
 */
export type SignedOutReason = 'absent' | 'ended' | 'expired' | 'logout'

/** Where tokens are kept in header mode. `sessionStorage` and `localStorage` fit. */
export interface TokenStorage {
  getItem: (key: string) => string | null
  setItem: (key: string, value: string) => void
  removeItem: (key: string) => void
}

/** Options of {@link createClient}. */
export interface ClientOptions {
  /** Origin of the service, such as `https://api.example.com`. URLs of requests are relative to it. Default: the origin of the page. */
  baseUrl?: string | undefined
  /**
   * `cookie` (default): the browser keeps the tokens in cookies, which scripts cannot read. The service has `cookieSet: true`,
   * and `trustedOrigins` and CORS with credentials if the page has another origin. `header`: the client keeps the tokens, and
   * sends the access token in the header `Authorization`.
   */
  mode?: 'cookie' | 'header' | undefined
  /** The setting `urlPrefix` of the service. Default: `/auth`. */
  prefix?: string | undefined
  /**
   * Where tokens are kept in header mode. Default: in memory, so that each tab has a login of its own, which ends when the page
   * is left. With `sessionStorage`, the login of a tab survives a reload. With `localStorage`, all tabs share one login, which
   * survives a restart of the browser. Every script of the origin can read both, also one that an attacker injects.
   */
  storage?: TokenStorage | undefined
  /** Called when the user was logged out, or when a request shows that nobody is logged in. Usually it opens the login page. */
  onSignedOut?: ((reason: SignedOutReason) => void) | undefined
}

/** What {@link createClient} returns. */
export interface Client {
  /**
   * Logs in with `POST {prefix}`.
   * @param credentials is sent as JSON, to the handler `authenticate`
   * @returns the response: `ok` after a login, 401 for wrong credentials
   * @throws what `fetch` throws if there is no response
   */
  login: (credentials: object) => Promise<Response>
  /**
   * Ends the session, discards the tokens, tells the other tabs, and calls `onSignedOut('logout')`. In header mode, it
   * discards the tokens also if the service cannot be reached, which it tries three times.
   * @returns whether the service has ended the session. If not, nobody has the tokens any more, but the session lasts until it expires
   * @throws in cookie mode, if the service cannot be reached or refuses: the user is still logged in
   */
  logout: () => Promise<boolean>
  /**
   * Like the global `fetch`. On a 401, it renews the tokens and repeats the request once. All requests, and all tabs if the
   * browser has Web Locks, share one renewal. Only requests to the origin of the service get a token and are repeated.
   *
   * A request with a stream as `init.body` is not repeated, because a stream can be read only once: the response is the 401,
   * and the next request has the new token.
   * @param input a URL or a request; a relative URL is relative to `baseUrl`
   * @param init as for `fetch`
   * @returns the response. A 401 means that the user must log in, or that another token would not help, such as for a login that
   * is too old. If the tokens cannot be renewed at the moment, it is the response to that, such as 503: the user is still logged in
   * @throws what `fetch` throws if there is no response, also of a renewal
   */
  fetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response>
}

/** What is kept in header mode. */
interface Tokens {
  readonly access?: string
  readonly refresh?: string
  /** Time of the login in milliseconds. */
  readonly since?: number
}

/** Three tries of this length, with two pauses, end within the default of the setting `grace`: after it, a retry would look like theft. */
const tryLimit = 6000
const tries = 3
const defaultPause = 5
const longestPause = 10

const wait = (seconds: number) => new Promise((resolve) => { setTimeout(resolve, seconds * 1000) })

function memory (): TokenStorage {
  const values = new Map<string, string>()
  return {
    getItem: (key) => values.get(key) ?? null,
    setItem: (key, value) => { values.set(key, value) },
    removeItem: (key) => { values.delete(key) }
  }
}

/**
 * Creates the client of a page. One client is enough for a page.
 * @param options where the service is, and how it expects tokens
 * @returns the client
 * @throws TypeError if `baseUrl` is not an absolute URL
 */
export function createClient ({ baseUrl, mode, prefix = '/auth', storage = memory(), onSignedOut }: ClientOptions = {}): Client {
  const base = new URL(baseUrl ?? location.origin)
  const hasCookies = mode !== 'header'
  const name = `fastify-token-auth ${new URL(prefix, base).href}`
  const channel = new BroadcastChannel(name)
  /** The renewal in progress. It resolves to whether to repeat the request, or to the response of a service that cannot renew at the moment. */
  let renewal: Promise<Response | boolean> | undefined
  /** Changes with every login, renewal and logout. */
  let changes = 0

  const read = (): Tokens => hasCookies ? {} : JSON.parse(storage.getItem(name) ?? '{}')
  const mark = () => `${changes} ${read().access}`

  /** Keeps the tokens of a response. Without the option `sessions`, that to a refresh has no refresh token. */
  function keep (body: string, before: Tokens): void {
    const { access_token: access, refresh_token: refresh = before.refresh } = JSON.parse(body)
    storage.setItem(name, JSON.stringify({ ...before, access, refresh }))
  }

  function signOut (reason: SignedOutReason): void {
    changes++
    onSignedOut?.(reason)
  }

  function send (input: URL | Request, init: RequestInit = {}, token = read().access): Promise<Response> {
    if (hasCookies) return fetch(input, { ...init, credentials: 'include' })
    const headers = new Headers(init.headers ?? (input instanceof Request ? input.headers : {}))
    if (token) headers.set('authorization', `Bearer ${token}`)
    return fetch(input, { ...init, headers })
  }

  const url = (path: string) => new URL(prefix + path, base)
  const json = (body: object): RequestInit => ({ method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
  const withRefreshToken = ({ refresh }: Tokens) => hasCookies ? { method: 'POST' } : json({ refresh_token: refresh })

  /** Sends until the service is available, at most three times. */
  async function insist (path: string, init: RequestInit, left = tries - 1): Promise<Response> {
    let pause = defaultPause
    try {
      const response = await send(url(path), { ...init, signal: AbortSignal.timeout(tryLimit) })
      // What a proxy answers for a service that is down, too.
      if (response.status < 502) return response
      pause = Number(response.headers.get('retry-after')) || pause
      if (left === 0 || pause > longestPause) return response
    } catch (error) {
      if (left === 0) throw error
    }
    await wait(pause)
    return await insist(path, init, left - 1)
  }

  async function requestTokens (): Promise<Response | boolean> {
    const before = read()
    if (!hasCookies && !before.refresh) {
      signOut('absent')
      return false
    }
    // Another tab may have renewed the tokens. Messages of tabs can come later than their locks are released, so ask the service.
    // Its response also tells an ended session from an expired one, which the response to a refresh does not.
    const current = await send(url('/me'), { signal: AbortSignal.timeout(tryLimit) }).catch(() => undefined)
    // What another tab stores may be seen late, too.
    if (current?.ok || read().refresh !== before.refresh) {
      changes++
      return true
    }
    const isEnded = current?.status === 401 && (await current.text()).includes('"SessionEnded"')

    const response = await insist('/refresh', withRefreshToken(before))
    const isAbsent = hasCookies && response.status === 400
    if (!response.ok && response.status !== 401 && !isAbsent) return response
    const body = await response.text()
    // A login or logout in the meantime counts more than this renewal.
    if (read().refresh === before.refresh) {
      if (!response.ok) {
        storage.removeItem(name)
        signOut(isAbsent ? 'absent' : isEnded ? 'ended' : 'expired')
        return false
      }
      if (!hasCookies) keep(body, before)
    }
    changes++
    return true
  }

  function renew (): Promise<Response | boolean> {
    // Only secure contexts have Web Locks.
    const { locks } = navigator
    renewal ??= (locks ? locks.request(name, requestTokens) : requestTokens()).finally(() => { renewal = undefined })
    return renewal
  }

  /** Discards the tokens of header mode, before it ends their session: a page that closes meanwhile must not keep them. */
  async function leave (): Promise<boolean> {
    const tokens = read()
    storage.removeItem(name)
    changes++
    return tokens.refresh !== undefined && await insist('/logout', withRefreshToken(tokens)).then(({ ok }) => ok, () => false)
  }

  channel.onmessage = ({ data }) => {
    const { since } = read()
    // A tab that was frozen gets the message late, perhaps after another login.
    if (since && since > Number(data)) return
    if (!hasCookies) leave()
    signOut('logout')
  }

  return {
    async login (credentials) {
      const response = await send(url(''), json(credentials), '')
      if (response.ok) {
        changes++
        if (!hasCookies) keep(await response.clone().text(), { since: Date.now() })
      }
      return response
    },

    async logout () {
      let ending
      if (!hasCookies) ending = leave()
      else {
        // Once only: also a response of 503 or 401 clears the cookies.
        const { ok, status } = await send(url('/logout'), { method: 'POST' })
        if (!ok && status !== 503 && status !== 401) throw new Error(`The logout failed with the status ${status}. The user is still logged in.`)
        ending = ok
      }
      channel.postMessage(Date.now())
      const isEnded = await ending
      signOut('logout')
      return isEnded
    },

    async fetch (input, init) {
      const isRequest = input instanceof Request
      const target = new URL(isRequest ? input.url : input, base)
      // Tokens are for the service alone.
      if (target.origin !== base.origin) return await fetch(input, init)
      const again = isRequest ? input.clone() : target
      const before = mark()
      const response = await send(isRequest ? input : target, init)
      if (response.status !== 401) return response
      const isRenewed = mark() !== before || await renew()
      if (isRenewed instanceof Response) return isRenewed.clone()
      return isRenewed && !(init?.body instanceof ReadableStream) ? await send(again, init) : response
    }
  }
}
