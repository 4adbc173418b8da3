/** Prevents caches from storing responses, even if the application has allowed it. */
import type { FastifyReply } from 'fastify'

/** Headers that some caches prefer to `Cache-Control`: `CDN-Cache-Control` (RFC 9213) and those of vendors. */
const forCaches = /.-cache-control$|^(?:surrogate|edge)-control$|^x-accel-expires$/

/** Whether a header is only for some caches, such as those of a CDN. */
export const isForCaches = (name: string): boolean => forCaches.test(name)

/** Whether a reply has headers. A substitute for a reply, such as in a GraphQL subscription, has none. */
export const hasHeaders = (reply: Partial<FastifyReply>): reply is FastifyReply => typeof reply.header === 'function'

/** Prevents caches from storing a response (RFC 9111 section 5.2.2.5). A hook may have set headers for the response of the route. */
export function preventStoring (reply: FastifyReply): void {
  if (!hasHeaders(reply)) return
  reply.header('cache-control', 'no-store')
  for (const name of Object.keys(reply.getHeaders())) {
    if (!isForCaches(name)) continue
    reply.removeHeader(name)
    reply.raw.removeHeader(name)
  }
}
