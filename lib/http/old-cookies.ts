/**
 * Clears cookies that a browser keeps from before a change of `cookieDomain`. Together with a new cookie of the same name,
 * each request would have two cookies, which are refused, because one of them may come from an attacker.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { parsed } from '../request/headers.ts'
import { readCookie } from '../request/pairs.ts'
import type { Settings } from '../settings/schema.ts'
import { hasHeaders } from './caching.ts'
import { canWriteCookies, clearingCookie, cookieNames } from './cookies.ts'

/** For each application, the registrations that use a cookie, by name and path of the cookie. */
const owners = new WeakMap<object, Map<string, Set<object>>>()
const keyOf = (name: string, { cookiePath }: Settings) => `${name} ${cookiePath}`

/** Records the cookies of a registration. Cookies that two registrations use are not cleared: each would end the other's login. */
export function noteCookies (server: object, settings: Settings): void {
  const known = owners.get(server) ?? new Map<string, Set<object>>()
  owners.set(server, known)
  for (const name of cookieNames(settings)) {
    const key = keyOf(name, settings)
    known.set(key, (known.get(key) ?? new Set<object>()).add(settings))
  }
}

/** A domain name of at least two labels. The last one is not a number, unlike in an IP address. */
const domainName = /^(?:[a-z\d](?:[a-z\d-]*[a-z\d])?\.)+[a-z](?:[a-z\d-]*[a-z\d])?$/
const mostDomains = 8

/** Returns the domains for which a host can set cookies: its name and its parent domains, with at least two labels. */
function domainsOf (hostname: string): string[] {
  const name = hostname.toLowerCase()
  if (name.length > 253 || !domainName.test(name)) return []
  const labels = name.split('.')
  return labels.slice(0, -1).map((_label, index) => labels.slice(index).join('.')).slice(-mostDomains)
}

/** The names of the cookies that the response to a request already clears. */
const cleared = new WeakMap<FastifyRequest, Set<string>>()

/** Yields the forms, other than that of new cookies, that a cookie may have: its domain, and whether it is partitioned. */
function * formsOf (
  name: string,
  isTwin: boolean,
  isReplacing: boolean,
  { hostname }: FastifyRequest,
  settings: Settings
): Generator<Partial<Settings>> {
  const { cookieDomain, cookiePartitioned } = settings
  const domains = new Set(isTwin || (isReplacing && cookieDomain !== '') ? [''] : [])
  if (isTwin && !/^__host-/i.test(name)) for (const domain of [cookieDomain, ...domainsOf(hostname)]) domains.add(domain)
  for (const domain of domains) yield { cookieDomain: domain }
  if (cookiePartitioned) {
    for (const domain of isTwin ? domains : [cookieDomain]) yield { cookieDomain: domain, cookiePartitioned: false }
  } else if (isTwin) {
    // A browser accepts the attribute only with the other two, whatever the settings are now.
    for (const domain of domains) yield { cookieDomain: domain, cookiePartitioned: true, cookieSamesite: 'none', cookieSecure: true }
  }
}

/** Whether a header contains a text twice. Searches forward twice, because `lastIndexOf` is many times slower. */
function isRepeated (text: string, header: string): boolean {
  const first = header.indexOf(text)
  return first !== -1 && header.includes(text, first + 1)
}

/**
 * Creates the Set-Cookie headers that clear every form of a cookie that the request contains twice, once for each request.
 * They precede those of new tokens.
 * @param sent the Set-Cookie headers that follow. If they replace or clear a cookie, its other forms are cleared, too
 */
export function oldCookies (request: FastifyRequest, settings: Settings, sent: readonly string[] = []): string[] {
  // A guard can override `cookieSet` where no instance has cookies to clear.
  if (!settings.cookieSet || !canWriteCookies()) return []
  const { headers } = parsed(request.raw)
  const header = Object.hasOwn(headers, 'cookie') ? headers.cookie : undefined
  if (typeof header !== 'string') return []
  const names = cookieNames(settings)
  // Most refusals end here: the cookies are only parsed if a name occurs twice.
  if (sent.length === 0 && !names.some((name) => isRepeated(name, header))) return []
  const known = owners.get(request.server.server)
  const done = cleared.get(request) ?? new Set<string>()
  return names.flatMap((name) => {
    const value = readCookie(header, name)
    const isTwin = value === null
    const isReplacing = sent.some((cookie) => cookie.startsWith(`${name}=`))
    if (value === undefined || !(isTwin || isReplacing) || done.has(name) || Number(known?.get(keyOf(name, settings))?.size) > 1) return []
    cleared.set(request, done.add(name))
    // Inherited, not copied, because getters compute settings when they are read.
    return Array.from(formsOf(name, isTwin, isReplacing, request, settings), (form) =>
      clearingCookie(name, Object.setPrototypeOf({ ...form }, settings))
    )
  })
}

/** Clears cookies that a request contains twice, if its response sets no new ones. */
export function clearTwins (request: FastifyRequest, reply: FastifyReply, settings: Settings): void {
  if (!hasHeaders(reply)) return
  for (const cookie of oldCookies(request, settings)) reply.header('set-cookie', cookie)
}
