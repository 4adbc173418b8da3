/** A login whose cookies browsers reject: the next request is a 401 without any hint. */
import type { FastifyRequest } from 'fastify'
import type { Settings } from '../settings/schema.ts'

/** Hosts whose Secure cookies most browsers accept over plain HTTP. */
const localHost = /^(?:(?:.+\.)?localhost|127(?:\.\d{1,3}){3}|\[::1\])$/i

const hints = {
  plainHttp: 'A login over plain HTTP sets cookies with the attribute Secure, which browsers reject over HTTP. If a proxy receives the requests over HTTPS, set the option "trustProxy" of Fastify. Otherwise, serve the application over HTTPS.',
  otherSite: 'A login from a page of another site sets cookies that browsers reject there, because "cookieSamesite" is not "none". Serve both from hosts of one site, such as app.example.com and api.example.com, or set "cookieSamesite" to "none".'
} as const

// A request of the page itself has proved the second one; the first one may be a proxy without `trustProxy`.
const levels = { plainHttp: 'info', otherSite: 'warn' } as const

/** What the log of an application has. */
const said = { plainHttp: new WeakSet<object>(), otherSite: new WeakSet<object>() }

/** Logs once, for an application, that the browser rejects the cookies of a login, and why. */
export function hintAtLostCookies (request: FastifyRequest, { cookieSecure, cookieSamesite, instanceName }: Settings): void {
  const { headers, server: { server } } = request
  const isFetched = headers['sec-fetch-site'] === 'cross-site' && headers['sec-fetch-mode'] !== 'navigate'
  const reasons = {
    plainHttp: cookieSecure && request.protocol === 'http' && !localHost.test(request.hostname),
    otherSite: cookieSamesite !== 'none' && isFetched
  }
  for (const reason of ['plainHttp', 'otherSite'] as const) {
    if (!reasons[reason] || said[reason].has(server)) continue
    said[reason].add(server)
    request.log[levels[reason]]({ instanceName }, hints[reason])
  }
}
