/**
 * Cookies that a browser keeps from before `cookieDomain` was changed. Beside a new one of their name, every request has two
 * cookies, which are refused: one of them may be planted.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { parsed } from '../request/headers.ts'
import { readCookie } from '../request/pairs.ts'
import type { Settings } from '../settings/schema.ts'
import { clearingCookie, cookieNames } from './cookies.ts'
import { memberOf } from '../values.ts'

/** The registrations of an application that have a cookie of a name on a path, by name and path. */
const owners = new WeakMap<object, Map<string, Set<object>>>()
const keyOf = (name: string, { cookiePath }: Settings) => `${name} ${cookiePath}`

/** Notes the cookies of a registration. Those that another one has, too, are not cleared: each would destroy the other's login. */
export function noteCookies (server: object, settings: Settings): void {
  const known = owners.get(server) ?? new Map<string, Set<object>>()
  owners.set(server, known)
  for (const name of cookieNames(settings)) {
    const key = keyOf(name, settings)
    known.set(key, (known.get(key) ?? new Set<object>()).add(settings))
  }
}

/** A name in the DNS: labels of which the last is no number, as in an IP address. */
const domainName = /^(?:[a-z\d](?:[a-z\d-]*[a-z\d])?\.)+[a-z](?:[a-z\d-]*[a-z\d])?$/
const mostDomains = 8

/** Returns the domains that cookies of a host may have: its own and those above it, with at least two labels. */
function domainsOf (hostname: string): string[] {
  const name = hostname.toLowerCase()
  if (name.length > 253 || !domainName.test(name)) return []
  const labels = name.split('.')
  return labels.slice(0, -1).map((_label, index) => labels.slice(index).join('.')).slice(-mostDomains)
}

/** The names of cookies that a response clears already. */
const cleared = new WeakMap<FastifyRequest, Set<string>>()

/** Returns the forms, besides that of new cookies, that a cookie may have: its domain, and whether it is partitioned. */
function * formsOf (name: string, isTwin: boolean, isReplacing: boolean, { hostname }: FastifyRequest, settings: Settings): Generator<Pick<Settings, 'cookieDomain' | 'cookiePartitioned'>> {
  const { cookieDomain, cookiePartitioned, cookieSamesite } = settings
  const domains = new Set(isTwin || (isReplacing && cookieDomain !== '') ? [''] : [])
  if (isTwin && !/^__host-/i.test(name)) for (const domain of [cookieDomain, ...domainsOf(hostname)]) domains.add(domain)
  for (const domain of domains) yield { cookieDomain: domain, cookiePartitioned }
  // Only such a cookie can have been partitioned, or not, before.
  if (cookieSamesite !== 'none') return
  for (const domain of isTwin ? domains : cookiePartitioned ? [cookieDomain] : []) yield { cookieDomain: domain, cookiePartitioned: !cookiePartitioned }
}

/** Whether a text is in a header twice. Two searches forward: `lastIndexOf` is many times slower. */
function isRepeated (text: string, header: string): boolean {
  const first = header.indexOf(text)
  return first !== -1 && header.includes(text, first + 1)
}

/**
 * Creates the Set-Cookie headers that clear old cookies, once for each request: every form of a cookie that came twice. They
 * come before those of new tokens.
 * @param sent the Set-Cookie headers that follow: of a cookie that is replaced or cleared, what is left of another form is cleared, too
 */
export function oldCookies (request: FastifyRequest, settings: Settings, sent: readonly string[] = []): string[] {
  if (!settings.cookieSet) return []
  const { headers } = parsed(request.raw)
  const header = Object.hasOwn(headers, 'cookie') ? headers.cookie : undefined
  if (typeof header !== 'string') return []
  const names = cookieNames(settings)
  // Of most refusals, nothing is left to do: names are searched for only where one of them comes twice.
  if (sent.length === 0 && !names.some((name) => isRepeated(name, header))) return []
  const known = owners.get(request.server.server)
  const done = cleared.get(request) ?? new Set<string>()
  return names.flatMap((name) => {
    const value = readCookie(header, name)
    const isTwin = value === null
    const isReplacing = sent.some((cookie) => cookie.startsWith(`${name}=`))
    if (value === undefined || !(isTwin || isReplacing) || done.has(name) || Number(known?.get(keyOf(name, settings))?.size) > 1) return []
    cleared.set(request, done.add(name))
    // Not a copy: settings may be computed when they are read.
    return Array.from(formsOf(name, isTwin, isReplacing, request, settings), (form) => clearingCookie(name, Object.setPrototypeOf({ ...form }, settings)))
  })
}

/** Clears cookies that came twice with a request that is answered without new ones. */
export function clearTwins (request: FastifyRequest, reply: FastifyReply, settings: Settings): void {
  // What stands for a reply where there is none, such as in a subscription of GraphQL, has no headers.
  if (typeof memberOf(reply, 'header') !== 'function') return
  for (const cookie of oldCookies(request, settings)) reply.header('set-cookie', cookie)
}
