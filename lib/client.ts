/**
 * A client for browsers, exported as `fastify-token-auth/client`: it logs in and out, sends requests, and renews the
 * tokens. `docs/client.md` describes it.
 * @module fastify-token-auth/client
 */
import type { Client, ClientOptions, SignedOutReason, TokenStorage } from '../types/client.ts'

export type { Client, ClientOptions, SignedOutReason, TokenStorage } from '../types/client.ts'

// Of the globals of browsers, Node.js has only some, or others, so the compiler does not know these.
declare const BroadcastChannel: new (name: string) => { onmessage: ((message: { readonly data: Notice }) => void) | null, readonly postMessage: (notice: Notice) => void }
declare const location: { readonly origin: string }
declare const navigator: {
  readonly locks?: { readonly request: <T>(name: string, options: { readonly signal: AbortSignal }, run: () => Promise<T>) => Promise<T> }
}

/** What is kept in header mode. */
interface Tokens {
  readonly access?: string
  readonly refresh?: string
  /** Time of the login in milliseconds. */
  readonly since?: number
}

/**
 * What tabs tell each other: why nobody is logged in, and since when. `logout`: the time of the logout. `ended` and `expired`, in
 * header mode: the time of the login that is over, because tabs may have logins of their own.
 */
type Notice = readonly [reason: SignedOutReason, time: number]

// All times are in milliseconds.
/**
 * How long a try may last, and when the last one may begin: a caller waits for 28 seconds at most. A later try is as good, also
 * if the response to an earlier one was lost.
 */
const tryLimit = 6000
const lastMoment = 22_000
const maximumTries = 3
const defaultPause = 5000
const loginLimit = 30_000
/** A tab that renews needs no more than 34 seconds, unless the browser has frozen it. */
const turnLimit = 40_000

const wait = (time: number) => new Promise((resolve) => { setTimeout(resolve, time) })

/** Rejects when a signal aborts, and never resolves. */
const whenAborted = (signal: AbortSignal | null | undefined) => new Promise<never>((_resolve, reject) => {
  signal?.addEventListener('abort', () => { reject(signal.reason) })
})

/** A storage of one client, which has one key. */
function memory (): TokenStorage {
  let kept: string | null = null
  return {
    getItem: () => kept,
    setItem: (_key, value) => { kept = value },
    removeItem: () => { kept = null }
  }
}

/** @throws TypeError if there is more in a URL, which requests would lose */
function readOrigin (given: string): URL {
  let url
  try {
    url = new URL(given)
  } catch {}
  if (url?.href !== `${url?.origin}/`) throw new TypeError(`"baseUrl" must be an origin such as "https://example.com"; given: "${given}".`)
  return url
}

/**
 * Creates the client of a page. A page has one client: each calls its `onSignedOut`.
 * @param options where the service is, and how it expects tokens
 * @returns the client
 * @throws TypeError if `baseUrl` is not an origin, or `mode` has another value
 */
export function createClient ({
  baseUrl = location.origin, mode = 'cookie', prefix = '/auth', pathToAuthenticate = '/', pathToRetrieveUser = '/me', pathToRefresh = '/refresh', pathToLogout = '/logout',
  accessTokenName = 'access_token', refreshTokenName = 'refresh_token', storage = memory(), onSignedOut
}: ClientOptions = {}): Client {
  const base = readOrigin(baseUrl)
  const hasCookies = mode === 'cookie'
  if (!hasCookies && mode !== 'header') throw new TypeError(`"mode" must be "cookie" or "header"; given: "${mode}".`)
  const name = `fastify-token-auth ${new URL(prefix, base).href}`
  const channel = new BroadcastChannel(name)
  /** The renewal in progress. It resolves to whether to repeat the request, or to the response of a service that cannot renew at the moment. */
  let renewal: Promise<Response | boolean> | undefined
  /** Changes with every login, renewal and logout. */
  let changes = 0
  /** How often somebody has logged in with this client. */
  let logins = 0
  /** In header mode: time of the last login that this tab has read. */
  let lastLogin = 0
  /** In header mode: the last login that is over, other than by a logout. */
  let over: Notice = ['absent', lastLogin]

  function read (): Tokens {
    let tokens: Tokens = {}
    // Damaged text is no login, and what header mode has left is none of cookie mode.
    try {
      if (!hasCookies) tokens = JSON.parse(String(storage.getItem(name))) ?? tokens
    } catch {}
    lastLogin = tokens.since ?? lastLogin
    return tokens
  }

  const mark = () => `${changes} ${read().access}`
  /** Changes when somebody logs in. In cookie mode, a login in another tab is not known. */
  const loginOf = () => `${logins} ${read().since}`

  /** Keeps the tokens of a response. Without the option `sessions`, that to a refresh has no refresh token. */
  async function keep (response: Response, before: Tokens): Promise<void> {
    const { [accessTokenName]: access, [refreshTokenName]: refresh = before.refresh } = Object(await response.json().catch(() => {}))
    if (!access) throw new Error(`The response has no "${accessTokenName}". Header mode needs tokens in bodies.`)
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

  /** Sends to an endpoint, and waits for the whole response. A redirect would send the body, which has tokens, to wherever it leads. */
  async function call (path: string, init?: RequestInit, limit = tryLimit, token?: string): Promise<Response> {
    const target = new URL(path === '/' && prefix ? prefix : prefix + path, base)
    const response = await send(target, { ...init, redirect: 'error', signal: AbortSignal.timeout(limit) }, token)
    await response.clone().text()
    return response
  }

  const json = (body: object): RequestInit => ({ method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
  const withRefreshToken = ({ refresh }: Tokens): RequestInit => hasCookies ? { method: 'POST' } : json({ [refreshTokenName]: refresh })

  /** Sends until the service is available, at most three times. */
  async function insist (path: string, init: RequestInit): Promise<Response> {
    const end = Date.now() + lastMoment
    for (let tries = 1; ; tries++) {
      let result: () => Response
      let pause = defaultPause
      try {
        const response = await call(path, init)
        // What a proxy answers for a service that is down, too.
        if (response.status < 502) return response
        pause = Number(response.headers.get('retry-after')) * 1000 || pause
        result = () => response
      } catch (error) {
        result = () => { throw error }
      }
      if (tries === maximumTries || Date.now() + pause > end) return result()
      await wait(pause)
      // Timers of hidden tabs, and of computers that sleep, expire late. Meanwhile another tab may have renewed the tokens.
      if (Date.now() > end) return result()
    }
  }

  async function requestTokens (): Promise<Response | boolean> {
    const before = read()
    if (!hasCookies && !before.refresh) {
      // Another tab may have found out why.
      signOut(over[1] === lastLogin ? over[0] : 'absent')
      return false
    }
    // Another tab may have renewed the tokens. Messages of tabs can come later than their locks are released, so ask the service.
    // Its response also tells an ended session from an expired one, which the response to a refresh does not.
    const current = await call(pathToRetrieveUser).catch(() => undefined)
    // What another tab stores may be seen late, too.
    if (current?.ok || read().refresh !== before.refresh) {
      changes++
      return true
    }
    // The name of the error, or its code, which error handlers of applications send.
    const isEnded = current?.status === 401 && /session_?ended"/i.test(await current.text())

    const response = await insist(pathToRefresh, { ...withRefreshToken(before), keepalive: true })
    const { ok, status } = response
    // The service has no refresh tokens.
    if (status === 404) return false
    // With `cookieStrict`, a missing cookie is a 401.
    const isAbsent = hasCookies && (status === 400 || (status === 401 && /"(TOKEN_AUTH_)?missing/i.test(await response.text())))
    if (!ok && status !== 401 && !isAbsent) return response
    // A login or logout in the meantime counts more than this renewal.
    if (read().refresh === before.refresh) {
      if (!ok) {
        over = [isAbsent ? 'absent' : isEnded ? 'ended' : 'expired', lastLogin]
        storage.removeItem(name)
        if (!hasCookies) channel.postMessage(over)
        signOut(over[0])
        return false
      }
      if (!hasCookies) await keep(response, before)
    }
    changes++
    return true
  }

  /** Takes turns with the other tabs. Only secure contexts have Web Locks. A tab that was frozen in its turn does not stop the others. */
  async function inTurn<Result> (request: () => Promise<Result>): Promise<Result> {
    let isTurn = false
    const run = () => {
      isTurn = true
      return request()
    }
    try {
      return await (navigator.locks?.request(name, { signal: AbortSignal.timeout(turnLimit) }, run) ?? run())
    } catch (error) {
      if (isTurn) throw error
      return await run()
    }
  }

  function renew (): Promise<Response | boolean> {
    renewal ??= inTurn(requestTokens).finally(() => { renewal = undefined })
    return renewal
  }

  /**
   * Sends a login or logout. In cookie mode, it waits for the renewals of this and other tabs, because the cookies of their responses must not
   * replace those of a later login, or come back after a logout.
   */
  async function afterRenewals<Result> (request: () => Promise<Result>): Promise<Result> {
    if (!hasCookies) return await request()
    await renewal?.catch(() => {})
    return await inTurn(request)
  }

  /** Ends the session of tokens that header mode does not keep any more. The page may be left meanwhile. */
  const end = async (tokens: Tokens): Promise<boolean> => tokens.refresh !== undefined &&
    await insist(pathToLogout, { ...withRefreshToken(tokens), keepalive: true }).then(({ ok }) => ok, () => false)

  /** Discards the tokens, which only header mode has, before it ends their session: a page that closes meanwhile must not keep them. */
  function leave (): Promise<boolean> {
    const tokens = read()
    storage.removeItem(name)
    changes++
    return end(tokens)
  }

  /** Clears the cookies. @returns whether the session has ended */
  async function clear (): Promise<boolean> {
    const request = () => call(pathToLogout, { method: 'POST', keepalive: true })
    const { ok } = await request()
    if (ok) return true
    // The service clears the cookies with a 401 and a 503, too, but a proxy does not. Without cookies, the service answers 204.
    const again = await request()
    if (!again.ok) throw new Error(`The logout failed with the status ${again.status}. The user is still logged in.`)
    return false
  }

  channel.onmessage = ({ data }) => {
    const [reason, time] = data
    // A tab that was frozen gets the message late, perhaps after another login.
    read()
    if (reason === 'logout' ? lastLogin > time : lastLogin !== time) return
    if (reason === 'logout') leave()
    else over = data
    signOut(reason)
  }

  return {
    async login (credentials) {
      const response = await afterRenewals(() => call(pathToAuthenticate, json(credentials), loginLimit, ''))
      if (response.ok) {
        logins++
        const before = read()
        if (!hasCookies) await keep(response.clone(), { since: Date.now() })
        changes++
        end(before)
      }
      return response
    },

    async logout () {
      const ending = hasCookies ? await afterRenewals(clear) : leave()
      channel.postMessage(['logout', Date.now()])
      signOut('logout')
      return await ending
    },

    async fetch (input, init) {
      const isRequest = input instanceof Request
      const target = new URL(isRequest ? input.url : input, base)
      // Tokens are for the service alone.
      if (target.origin !== base.origin) return await fetch(input, init)
      const again = isRequest ? input.clone() : target
      const before = mark()
      const login = loginOf()
      const response = await send(isRequest ? input : target, init)
      if (response.status !== 401) return response
      const isRenewed = mark() !== before || await Promise.race([renew(), whenAborted(init?.signal ?? (isRequest ? input.signal : null))])
      if (isRenewed instanceof Response) return isRenewed.clone()
      // Another user may have logged in meanwhile, whose request this is not.
      return isRenewed && loginOf() === login && !(init?.body instanceof ReadableStream) ? await send(again, init) : response
    },

    close () {
      // On a closed channel, a logout that has begun could not tell the other tabs.
      channel.onmessage = null
      onSignedOut = undefined
    }
  }
}
