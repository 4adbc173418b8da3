/** Keeps caches from storing responses, whatever the application has said of them before. */
import type { FastifyReply } from 'fastify'
import { memberOf } from '../values.ts'

/** Headers that caches obey before `Cache-Control`, such as `CDN-Cache-Control` (RFC 9213) and those of vendors. */
const forCaches = /.-cache-control$|^(?:surrogate|edge)-control$|^x-accel-expires$/

/** Whether a header is only for some caches, such as those of a CDN. */
export const isForCaches = (name: string): boolean => forCaches.test(name)

/** Keeps caches from storing a response (RFC 9111 section 5.2.2.5): a hook may have set headers that are for the answer of the route. */
export function preventStoring (reply: FastifyReply): void {
  // What stands for a reply where there is none, such as in a subscription of GraphQL, has no headers.
  if (typeof memberOf(reply, 'header') !== 'function') return
  reply.header('cache-control', 'no-store')
  for (const name of Object.keys(reply.getHeaders())) {
    if (!isForCaches(name)) continue
    reply.removeHeader(name)
    reply.raw.removeHeader(name)
  }
}
