/** The cookies of cookie mode: how tokens are put into them. Reading them is a matter of request/extract.ts. */
import type {} from '@fastify/cookie'
import type { FastifyReply } from 'fastify'
import { TokenTooLarge } from './errors.ts'
import type { Settings } from './settings/schema.ts'

/** RFC 6265 section 6.1: what every browser keeps of one cookie, in bytes. They drop larger ones without a word. */
const maximumCookieSize = 4096

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
 * The Set-Cookie headers that carry new tokens. Serialized apart from `reply.setCookie`, which mixes the host's own parse
 * options (signed, domain, expires ...) into whatever is not spelled out.
 * @throws {TokenTooLarge} for one that browsers would drop
 */
export function tokenCookies (tokens: { accessToken: string, refreshToken?: string | undefined }, settings: Settings, { server }: FastifyReply): string[] {
  const cookies = accessTokenCookies(tokens.accessToken, settings)
  if (tokens.refreshToken !== undefined) {
    cookies.push({ name: settings.cookieRefreshTokenName, value: tokens.refreshToken, httpOnly: settings.cookieHttponly || settings.cookieSplit })
  }
  return cookies.map(({ name, value, httpOnly }) => {
    const size = name.length + 1 + encodeURIComponent(value).length
    if (size > maximumCookieSize) {
      throw new TokenTooLarge(`The cookie "${name}" would have ${size} bytes; browsers drop cookies of more than ${maximumCookieSize}. Put less into the payload, or use the header.`)
    }
    return server.serializeCookie(name, value, {
      domain: settings.cookieDomain,
      path: settings.cookiePath,
      secure: settings.cookieSecure,
      sameSite: settings.cookieSamesite,
      httpOnly,
      ...(settings.cookieMaxAge !== null && { maxAge: settings.cookieMaxAge })
    })
  })
}

/** Adds cookies to a reply. It cannot fail: tokens that were stored are sent. */
export function setCookies (reply: FastifyReply, cookies: readonly string[]): void {
  for (const cookie of cookies) reply.header('set-cookie', cookie)
}
