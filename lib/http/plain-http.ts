/** A login over plain HTTP sets cookies that browsers reject: the next request is a 401 without any hint. */
import type { FastifyRequest } from 'fastify'
import type { Settings } from '../settings/schema.ts'

/** Hosts whose Secure cookies most browsers accept over plain HTTP. */
const localHost = /^(?:(?:.+\.)?localhost|127(?:\.\d{1,3}){3}|\[::1\])$/i

/** The applications that have logged the hint. */
const hinted = new WeakSet<object>()

/** Logs once, for an application, that a login over plain HTTP sets cookies with the attribute Secure. */
export function hintAtPlainHttp (request: FastifyRequest, { cookieSecure, instanceName }: Settings): void {
  const { server: { server } } = request
  if (!cookieSecure || request.protocol !== 'http' || localHost.test(request.hostname) || hinted.has(server)) return
  hinted.add(server)
  request.log.info(
    { instanceName },
    'A login over plain HTTP sets cookies with the attribute Secure, which browsers reject over HTTP. If a proxy receives the requests over HTTPS, set the option "trustProxy" of Fastify. Otherwise, serve the application over HTTPS.'
  )
}
