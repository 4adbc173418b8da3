/**
 * A client for browsers, exported as `fastify-token-auth/client`: it logs in and out, sends requests, and renews the
 * tokens. `docs/client.md` describes it.
 * @module fastify-token-auth/client
 */
import type { Client, ClientOptions, SignedOutReason, TokenStorage } from '../types/client.ts'

export type { Client, ClientOptions, SignedOutReason, TokenStorage } from '../types/client.ts'

// Globals of browsers that the types of Node.js lack or declare differently.
declare const BroadcastChannel: new (name: string) => {
  onmessage: ((message: { readonly data: Notice }) => void) | null
  readonly postMessage: (notice: Notice) => void
  /** Only in Node.js, where a channel would keep the process alive. */
  readonly unref?: () => void
}
interface BrowserEvent {
  readonly persisted?: boolean
  readonly key?: string | null
  readonly oldValue?: string | null
  readonly newValue?: string | null
}
declare const globalThis: {
  readonly location?: { readonly origin: string }
  readonly addEventListener?: (
    type: 'pageshow' | 'storage',
    listener: (event: BrowserEvent) => void,
    options: { readonly signal: AbortSignal }
  ) => void
  readonly navigator?: {
    readonly locks?: {
      readonly request: <Result>(name: string, options: { readonly signal: AbortSignal }, run: () => Result) => Promise<Awaited<Result>>
    }
  }
}

/** The tokens that are stored in header mode. */
interface Tokens {
  readonly access?: string
  readonly refresh?: string
  /** The time of the login in milliseconds, which identifies the login. */
  readonly since?: number
}

/** A URL or a request. */
type Target = (URL | Request) & { readonly headers?: Headers, readonly signal?: AbortSignal }

/** A response, and its body. */
type Answer = readonly [response: Response, body: string]

/**
 * A message between tabs: why nobody is logged in, and which login has ended, because in header mode, tabs may have different
 * logins. `logout` has a time, for tabs that keep their tokens in memory. `login`, in cookie mode: a user has logged in.
 */
type Notice = readonly [what: SignedOutReason | 'login', login: number, time?: number]

// All times are in milliseconds.
/** The time limit of an attempt, and the latest start of the last one. A later attempt also works if an earlier response was lost. */
const tryLimit = 20_000
const lastMoment = 30_000
const maximumTries = 3
const defaultPause = 5000
const loginLimit = 30_000
const logoutLimit = 6000
/** A tab that renews needs no more than 50 seconds, unless the browser has frozen it. */
const turnLimit = 60_000

/** Returns a signal that aborts with `signal` or after `limit`. Browsers before 2024 have no `AbortSignal.any`: only `limit` applies. */
const within = (limit: number, signal: AbortSignal) => AbortSignal.any?.([AbortSignal.timeout(limit), signal]) ?? AbortSignal.timeout(limit)

/** Waits for a result, and rejects if the signal aborts. The awaited operation continues. */
const unlessAborted = <Result>(result: Promise<Result>, signal: AbortSignal | null | undefined) =>
  new Promise<Result>((resolve, reject) => {
    const abort = () => reject(signal?.reason)
    signal?.addEventListener('abort', abort)
    result.then(resolve, reject).finally(() => signal?.removeEventListener('abort', abort))
  })

/** Calls a function of the page. An error that it throws becomes an uncaught error of the page, and does not affect the client. */
function notify<Given> (callback: ((given: Given) => void) | undefined, given: Given): void {
  try {
    callback?.(given)
  } catch (error) {
    setTimeout(() => { throw error })
  }
}

/** Parses a JSON object. The result has no fields if the text is damaged or is not an object. */
function parse<Fields extends object> (text: string | null | undefined): Partial<Fields> {
  try {
    return Object(JSON.parse(text ?? ''))
  } catch {
    return {}
  }
}

/** A storage in memory for one client, which uses only one key. */
function memory (kept: string | null = null): TokenStorage {
  return {
    getItem: () => kept,
    setItem: (_key, value) => { kept = value },
    removeItem: () => { kept = null }
  }
}

/**
 * Creates the client of a page. Create only one: each client calls its `onSignedOut`.
 * @param options where the service is, and how it expects tokens
 * @returns the client
 * @throws TypeError for an unknown option, if `baseUrl` is not an origin, if `mode` has another value, or if `storage` returns promises
 */
export function createClient<User = unknown> ({
  baseUrl = globalThis.location?.origin,
  mode = 'cookie',
  prefix = '/auth',
  pathToAuthenticate = '/',
  pathToRetrieveUser = '/me',
  pathToRefresh = '/refresh',
  pathToLogout = '/logout',
  accessTokenName = 'access_token',
  refreshTokenName = 'refresh_token',
  storage: given,
  onSignedOut,
  ...others
}: ClientOptions = {}): Client<User> {
  // A string that is passed as options has its indexes as names.
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) throw new TypeError(`Unknown option "${unknown}" of createClient(). See ClientOptions.`)
  // A page that is rendered by a server has no origin. Its requests reject.
  let base: URL | undefined
  try {
    base = new URL(baseUrl ?? '')
  } catch {}
  if (baseUrl !== undefined && base?.href !== base?.origin + '/') {
    throw new TypeError(`"baseUrl" must be an origin like "https://example.com", not "${baseUrl}".`)
  }
  const hasCookies = mode === 'cookie'
  if (!hasCookies && mode !== 'header') throw new TypeError(`"mode" must be "cookie" or "header", not "${mode}".`)
  const name = 'fastify-token-auth ' + (base && new URL(prefix, base))
  let first: unknown
  try {
    first = given?.getItem(name)
  } catch {}
  if (first instanceof Object) throw new TypeError('"storage" must not return promises.')
  const closing = new AbortController()
  let storage = given ?? memory()
  let channel: InstanceType<typeof BroadcastChannel> | undefined
  try {
    // The constructor throws in Firefox if cookies are disabled.
    if (globalThis.location) {
      channel = new BroadcastChannel(name)
      channel.unref?.()
    }
  } catch {}
  const listeners = new Set<() => void>()
  let user: User | null | undefined
  /** The user id that the service has read from the last token. */
  let userId: unknown
  /** How many times the client has determined who is logged in. */
  let findings = 0
  /** The renewal in progress. It resolves to whether to repeat the request, or to the response of a service that cannot renew at the moment. */
  let renewal: Promise<Response | boolean> | undefined
  let renewals = 0
  /** The login that was sent last, in cookie mode. */
  let loggingIn: Promise<Answer> | undefined
  /** The logout in progress. */
  let leaving: Promise<boolean> | undefined
  /** Aborted by a logout in cookie mode: ends renewals, and logins that were not sent yet. */
  let stop = new AbortController()
  /** Increases when a user logs in, and when nobody is logged in any more. */
  let logins = 0
  /** In header mode: the last login that this tab has read. */
  let lastLogin = 0
  /** Why nobody is logged in, and in header mode, the login that has ended. */
  let over: readonly [SignedOutReason, number] = ['absent', lastLogin]
  /** Whether the page was notified that nobody is logged in, and nobody has logged in since. */
  let isTold = false
  /** Whether the browser has rejected the cookies of the last login. */
  let isRejected = false
  /** The stored text, as far as this tab knows. */
  let kept: string | null = null

  /** Reads the storage, or writes to it; null removes. If the storage throws, because it is full or not allowed, memory replaces it. */
  function stored (value?: string | null): string | null {
    try {
      if (value === undefined) kept = storage.getItem(name)
      else if (value === null) storage.removeItem(name)
      else storage.setItem(name, value)
    } catch {
      try {
        // The service would treat an older refresh token as stolen.
        if (value) storage.removeItem(name)
      } catch {}
      storage = memory(value === undefined ? kept : value)
    }
    if (value !== undefined) kept = value
    return kept
  }

  function read (): Tokens {
    // Cookie mode ignores tokens that header mode has left in the storage.
    const tokens: Tokens = parse(hasCookies ? '' : stored())
    lastLogin = tokens.since ?? lastLogin
    return tokens
  }

  /** @returns a function that returns whether the login is still the same */
  function watchLogin (): () => boolean {
    const login = logins
    const { since } = read()
    return () => logins === login && read().since === since
  }

  /** Stores the tokens of a response. Without the option `sessions`, the response to a refresh has no refresh token. */
  function keep (body: string, before: Tokens): void {
    const { [accessTokenName]: access, [refreshTokenName]: refresh = before.refresh } = parse<Record<string, unknown>>(body)
    if (!access) throw new Error(`The response has no "${accessTokenName}".`)
    stored(JSON.stringify({ ...before, access, refresh }))
  }

  function setUser (found: User | null | undefined, id?: unknown): void {
    // Both are known, and differ.
    const isSwitched = (userId ?? id) !== (id ?? userId)
    userId = id
    findings++
    if (found) isTold = false
    if (JSON.stringify(found) !== JSON.stringify(user)) {
      user = found
      for (const listener of [...listeners]) notify(listener, undefined)
    }
    if (isSwitched) {
      logins++
      notify(onSignedOut, 'switched')
    }
  }

  /** @param isNews whether to notify the page */
  function signOut (reason: SignedOutReason, login = lastLogin, isNews = true): void {
    over = [reason, login]
    logins++
    setUser(null)
    // Set first, because `onSignedOut` may call `logout`, which must not notify the page again.
    isTold = true
    if (isNews) notify(onSignedOut, reason)
  }

  function send (input: Target, init: RequestInit | undefined, token = read().access): Promise<Response> {
    if (hasCookies) return fetch(input, { ...init, credentials: 'include' })
    const headers = new Headers(init?.headers ?? input.headers)
    if (token) headers.set('authorization', 'Bearer ' + token)
    return fetch(input, { ...init, headers })
  }

  /**
   * Sends a request to an endpoint, and waits for the whole response, even if the page is left. Refuses redirects, which
   * would forward the tokens in the body. Login and logout send no access token, because they have other credentials.
   */
  async function call (path: string, init: RequestInit | undefined, signal: AbortSignal): Promise<Answer> {
    const target = new URL(path === '/' && prefix ? prefix : prefix + path, base)
    const response = await send(
      target,
      { ...init, keepalive: true, redirect: 'error', signal },
      init && path !== pathToRefresh ? '' : undefined
    )
    return [response, await response.clone().text()]
  }

  const json = (body: object): RequestInit => ({
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body)
  })
  const withRefreshToken = ({ refresh }: Tokens): RequestInit => (hasCookies ? { method: 'POST' } : json({ [refreshTokenName]: refresh }))

  /** Repeats a request until the service is available, at most three times. */
  async function insist (path: string, init?: RequestInit, end = Date.now() + lastMoment): Promise<Answer> {
    const { signal } = stop
    for (let tries = 1; ; tries++) {
      const attempt = call(path, init, within(tryLimit, signal))
      const [response] = await attempt.catch(() => [signal.throwIfAborted()])
      const pause = Number(response?.headers.get('retry-after')) * 1000 || defaultPause
      // From status 502 on, the response may come from a proxy of a service that is down.
      if (Number(response?.status) < 502 || !base || tries === maximumTries || Date.now() + pause > end) return attempt
      await unlessAborted(new Promise((resolve) => setTimeout(resolve, pause)), signal)
      // Timers of hidden tabs, and of computers that sleep, expire late.
      if (Date.now() > end) return attempt
    }
  }

  /** Asks who is logged in. In cookie mode, the service renews the tokens if it has to. @returns the response, and why nobody is logged in */
  async function ask (isSame: () => boolean, end?: number): Promise<[Response, SignedOutReason | null | undefined]> {
    const [response, text] = await insist(pathToRetrieveUser + '?optional=true', undefined, end)
    const { me, id, reason } = parse<{ me: User | null; id: unknown; reason: SignedOutReason | null }>(text)
    if (isSame() && !reason && me !== undefined) setUser(me, id)
    return [response, reason]
  }

  async function requestTokens (): Promise<Response | boolean> {
    const before = read()
    if (!hasCookies && !before.access) {
      // Another tab may have found out why.
      signOut(over[1] === lastLogin ? over[0] : 'absent')
      return false
    }
    const isSameLogin = watchLogin()
    // The storage may show changes of another tab late. A login or logout in the meantime takes precedence over this renewal.
    const isSame = () => isSameLogin() && read().refresh === before.refresh
    const end = Date.now() + lastMoment
    let [current, reason] = await ask(isSame, end)
    if (current.status >= 500) return current
    if (!isSame() || (current.ok && !reason)) {
      renewals++
      return true
    }

    if (!hasCookies || !reason) {
      const [response, body] = await insist(pathToRefresh, withRefreshToken(before), end)
      const { ok, status } = response
      // The service has no refresh tokens.
      if (status === 404) return false
      // Without a refresh token, the response is a 400, or a 401 with `cookieStrict`.
      if (!ok && status !== 401 && (status !== 400 || before.refresh)) return response
      if (ok || !isSame()) {
        if (!hasCookies && isSame()) keep(body, before)
        renewals++
        return true
      }
      // Without sessions, the response contains only the name of the error, or its code, which error handlers of applications send.
      reason ??= status === 400 || /"\w*missing/i.test(body) ? 'absent' : 'expired'
    }
    stored(null)
    if (!hasCookies) channel?.postMessage([reason, lastLogin])
    signOut(reason)
    return false
  }

  /** Runs one request at a time in all tabs, by Web Locks, which need a secure context. A frozen tab does not block the others forever. */
  async function inTurn<Result> (request: () => Result, { signal } = stop): Promise<Awaited<Result>> {
    await (leaving ?? renewal)?.catch(() => {})
    let result: Result | undefined
    const run = () => {
      signal.throwIfAborted()
      return (result ??= request())
    }
    return await (globalThis.navigator?.locks?.request(name, { signal: within(turnLimit, signal) }, run).catch(run) ?? run())
  }

  function renew (): Promise<Response | boolean> {
    const { signal } = stop
    return (renewal ??= inTurn(requestTokens)
      .catch((error) => {
        if (!signal.aborted) throw error
        return leaving ?? false
      })
      .finally(() => {
        renewal = undefined
      }))
  }

  async function load (): Promise<User | null> {
    const before = findings
    // Asks the service again in header mode, and after a login in the meantime.
    for (let tries = 1; tries <= maximumTries; tries++) {
      const isRenewed = await renew()
      // The service has no refresh tokens.
      if (!isRenewed && findings === before) setUser(null)
      if (findings !== before) return user ?? null
      if (isRenewed !== true) break
    }
    throw new Error('It is not known who is logged in.')
  }

  /** Whether the page shows who is logged in. */
  const isShown = () => user !== undefined || listeners.size
  const update = () => isShown() && load().catch(() => {})

  /** Ends the session of discarded tokens, even if the page is left meanwhile. */
  const end = async ({ refresh }: Tokens): Promise<boolean> =>
    refresh !== undefined &&
    (await insist(pathToLogout, json({ [refreshTokenName]: refresh })).then(
      ([{ ok }]) => ok,
      () => false
    ))

  /**
   * Discards the tokens of header mode before it ends their session, so that a page that closes meanwhile does not keep them.
   * @param time of the logout in another tab
   */
  function leave (time = 0): Promise<boolean> {
    const tokens = read()
    stored(null)
    const isNews = !isTold && (time > 0 || hasCookies || !!tokens.access || !!user)
    if (isNews && !time) channel?.postMessage(['logout', lastLogin, Date.now()])
    signOut('logout', lastLogin, isNews)
    return end(tokens)
  }

  /** Clears the cookies. @returns whether the session has ended */
  async function clear (): Promise<boolean> {
    // Logins of other tabs wait for the response.
    inTurn(() => leaving, new AbortController()).catch(() => {})
    await loggingIn?.catch(() => {})
    const request = () => call(pathToLogout, withRefreshToken({}), AbortSignal.timeout(logoutLimit))
    const [{ ok }] = await request()
    if (!ok) {
      // The service clears the cookies with a 401 and a 503, too, but a proxy does not. If they are cleared, the service answers 204.
      const [again] = await request()
      if (!again.ok) throw new Error(`Still logged in: the logout failed (${again.status}).`)
    }
    leave()
    return ok && !isRejected
  }

  if (channel) {
    channel.onmessage = ({ data: [what, login, time = 0] }) => {
      // A tab that was frozen gets the message late, perhaps after another login.
      read()
      if (what === 'login') {
        logins++
        isTold = false
        update()
      } else if (lastLogin === login || (!given && lastLogin && lastLogin <= time)) {
        if (what === 'logout') leave(time)
        else signOut(what, login)
      }
    }
  }
  // `closing` serves as the options: it has the property `signal`. In header mode, a channel message could arrive before
  // the tokens, so a storage event announces a login.
  globalThis.addEventListener?.(
    'storage',
    ({ key, oldValue, newValue }) => {
      const { since } = parse<Tokens>(newValue)
      if (key !== name || !since || since === parse<Tokens>(oldValue).since) return
      isTold = false
      update()
    },
    closing
  )
  // The browser may restore a page as it was left; WebKit does so in spite of `no-store`.
  globalThis.addEventListener?.(
    'pageshow',
    ({ persisted }) => {
      if (!persisted) return
      if (user === null) notify(onSignedOut, over[0])
      else load().catch(() => {})
    },
    closing
  )

  return {
    get user () {
      return user
    },

    subscribe (listener) {
      // A function that subscribes twice is called until both subscriptions have ended.
      const entry = () => {
        listener()
      }
      listeners.add(entry)
      if (base && user === undefined) load().catch(() => {})
      return () => {
        listeners.delete(entry)
      }
    },

    load,

    async token () {
      return ((await load()) && read().access) || null
    },

    async login (credentials) {
      const request = () => (loggingIn = call(pathToAuthenticate, json(credentials), AbortSignal.timeout(loginLimit)))
      const [response, body] = await (hasCookies ? inTurn(request) : request())
      if (response.ok) {
        const before = read()
        const { [refreshTokenName]: refresh } = parse<Record<string, string>>(body)
        const issued: Tokens = refresh ? { refresh } : {}
        logins++
        userId = undefined
        isTold = isRejected = false
        if (hasCookies) channel?.postMessage(['login', 0])
        else {
          try {
            keep(body, { since: Date.now() })
          } catch (error) {
            end(issued)
            throw error
          }
        }
        end(before)
        if (hasCookies ? !leaving : isShown()) {
          const isSame = watchLogin()
          const [answer, reason] = await ask(() => !!isShown() && isSame()).catch(() => [])
          if (!isSame()) return response
          isRejected = hasCookies && (reason === 'absent' || (answer?.status === 401 && /"\w*missing/i.test(await answer.text())))
          // The previous user is not logged in any more.
          if (isShown() && !(answer?.ok && !isRejected)) setUser(isRejected ? null : undefined)
          if (isRejected) {
            end(issued)
            throw new Error(
              'The browser rejected the cookies of the login. See "cookieSecure" and "cookieSamesite", and how it treats cookies of other sites.'
            )
          }
        }
      }
      return response
    },

    async logout () {
      if (!hasCookies) return leave()
      logins++
      renewal = undefined
      stop.abort()
      stop = new AbortController()
      leaving ??= clear().finally(() => {
        leaving = undefined
      })
      return await leaving
    },

    async fetch (input, init) {
      const isRequest = input instanceof Request
      const url = new URL(isRequest ? input.url : input, base)
      // Tokens are only sent to the service.
      if (url.origin !== base?.origin) return await fetch(input, init)
      const again: Target = isRequest ? input.clone() : url
      const before = renewals
      const isSame = watchLogin()
      const response = await send(isRequest ? input : url, init)
      if (response.status !== 401) return response
      const isRenewed = isSame() && (renewals !== before || (await unlessAborted(renew(), init?.signal ?? again.signal)))
      if (isRenewed instanceof Response) return isRenewed.clone()
      // Another user, who must not repeat this request, may have logged in meanwhile.
      if (!isRenewed || !isSame() || init?.body instanceof ReadableStream) return response
      // The body is discarded, because the browser would wait for a reader.
      response.body?.cancel().catch(() => {})
      return await send(again, init)
    },

    close () {
      // The channel stays open, so that a logout in progress can notify the other tabs.
      if (channel) channel.onmessage = null
      closing.abort()
      listeners.clear()
      onSignedOut = undefined
    }
  }
}
