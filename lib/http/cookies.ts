/** The cookies that carry new tokens in cookie mode. request/extract.ts reads them. */
import type { FastifyCookie } from '@fastify/cookie'
import type { FastifyReply } from 'fastify'
import { TokenTooLarge } from '../errors.ts'
import { importRefused } from '../imports.ts'
import type { Settings } from '../settings/schema.ts'

/** RFC 6265 section 6.1: the bytes of one cookie that every browser keeps. Browsers silently drop larger ones. */
const maximumCookieSize = 4096

let serialize: FastifyCookie['serialize'] | undefined

/** Whether cookies can be written: an instance of this process uses cookie mode. */
export const canWriteCookies = (): boolean => serialize !== undefined

/**
 * Loads the serializer of @fastify/cookie, which only cookie mode needs. The package loads it when it is registered, so
 * this function registers it on a stub: otherwise, the application could not register it later with its own options.
 * @param load imports the package; tests replace it
 * @throws {InvalidConfiguration} if the runtime does not allow `import()`
 */
export async function loadSerializer (load = async () => await import('@fastify/cookie')): Promise<void> {
  const { fastifyCookie } = await load().catch((error) => { throw importRefused('Cookie mode', error) ?? error })
  const nothing = () => {}
  const nowhere: unknown = { decorate: nothing, decorateRequest: nothing, decorateReply: nothing, addHook: nothing }
  await Reflect.apply(fastifyCookie, undefined, [nowhere, { hook: false }])
  serialize = fastifyCookie.serialize
}

interface Cookie {
  name: string
  value: string
  httpOnly: boolean
}

function accessTokenCookies (accessToken: string, settings: Settings): Cookie[] {
  const { cookieAccessTokenName: name, cookieHttponly: httpOnly } = settings
  if (!settings.cookieSplit) return [{ name, value: accessToken, httpOnly }]
  const end = accessToken.lastIndexOf('.')
  return [
    { name, value: accessToken.slice(0, end), httpOnly: false },
    { name: settings.cookieSplitSignatureName, value: accessToken.slice(end + 1), httpOnly: true }
  ]
}

/**
 * Serializes a cookie, without `reply.setCookie`: that would take missing options from the `parseOptions` of the
 * application (signed, domain, expires and others).
 */
function serializeCookie ({ name, value, httpOnly }: Cookie, settings: Settings, maxAge: number | null): string {
  return serialize!(name, value, {
    domain: settings.cookieDomain,
    path: settings.cookiePath,
    secure: settings.cookieSecure,
    sameSite: settings.cookieSamesite,
    partitioned: settings.cookiePartitioned,
    httpOnly,
    ...(maxAge !== null && { maxAge })
  })
}

/**
 * Creates the Set-Cookie headers that carry new tokens.
 * @param persistent whether they outlive the browser, for `cookieMaxAge` seconds
 * @throws {TokenTooLarge} for a cookie that browsers would drop
 */
export function tokenCookies (
  tokens: { accessToken?: string | undefined; refreshToken?: string | undefined },
  settings: Settings,
  persistent = true
): string[] {
  const cookies = tokens.accessToken === undefined ? [] : accessTokenCookies(tokens.accessToken, settings)
  if (tokens.refreshToken !== undefined) {
    cookies.push({
      name: settings.cookieRefreshTokenName,
      value: tokens.refreshToken,
      httpOnly: settings.cookieHttponly || settings.cookieSplit
    })
  }
  return cookies.map((cookie) => {
    const size = cookie.name.length + 1 + encodeURIComponent(cookie.value).length
    if (size > maximumCookieSize) {
      throw new TokenTooLarge(
        `The cookie "${cookie.name}" has ${size} bytes, but browsers reject cookies of more than ${maximumCookieSize} bytes. Reduce the payload, or send tokens in the header.`
      )
    }
    return serializeCookie(cookie, settings, persistent ? settings.cookieMaxAge : null)
  })
}

/** Returns the names and values of the cookies of an access token. */
export function accessTokenValues (accessToken: string, settings: Settings): Record<string, string> {
  return Object.fromEntries(accessTokenCookies(accessToken, settings).map(({ name, value }) => [name, value]))
}

/** Returns the names of the cookies of tokens. */
export function cookieNames ({ cookieAccessTokenName, cookieRefreshTokenName, cookieSplit, cookieSplitSignatureName }: Settings): string[] {
  return [cookieAccessTokenName, cookieRefreshTokenName, ...(cookieSplit ? [cookieSplitSignatureName] : [])]
}

/** Creates the Set-Cookie header that removes a cookie from a browser. */
export const clearingCookie = (name: string, settings: Settings): string =>
  serializeCookie({ name, value: '', httpOnly: true }, settings, 0)

/** Creates the Set-Cookie headers that remove all tokens from a browser. */
export const clearingCookies = (settings: Settings): string[] => cookieNames(settings).map((name) => clearingCookie(name, settings))

/**
 * Adds the cookies of a login or a logout to a reply. `Clear-Site-Data` discards pages that the browser has prefetched or
 * prerendered by speculation rules, because they would show the previous user.
 */
export function setLoginCookies (reply: FastifyReply, cookies: readonly string[]): void {
  if (cookies.length === 0) return
  setCookies(reply, cookies)
  const own = '"prefetchCache", "prerenderCache"'
  const given = reply.getHeader('clear-site-data')
  reply.header('clear-site-data', given === undefined ? own : `${String(given)}, ${own}`)
}

/** Adds cookies to a reply. It never throws, so that tokens that were stored are also sent. */
export function setCookies (reply: FastifyReply, cookies: readonly string[]): void {
  for (const cookie of cookies) reply.header('set-cookie', cookie)
}
