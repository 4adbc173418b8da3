/** Class views as endpoints. */
import type { FastifyReply, HTTPMethods } from 'fastify'
import { InvalidClassViews } from '../configuration-errors.ts'
import type { Settings } from '../settings/schema.ts'
import type { Endpoint } from './endpoint.ts'
import type { ViewRoute } from './view.ts'

/** @throws {InvalidClassViews} for a view on the path of an endpoint, or where the refresh endpoint would be */
export function checkViewPaths (routes: readonly ViewRoute[], endpoints: readonly Endpoint[], { authMode, pathToRefresh }: Settings): void {
  const taken = endpoints.map(({ path }) => path)
  // Reserved also while refresh tokens are off, so that turning them on breaks no view.
  if (authMode) taken.push(pathToRefresh)
  const bare = (path: string) => path.replace(/\/$/, '')
  for (const { path } of routes) {
    if (taken.some((other) => bare(other) === bare(path))) {
      throw new InvalidClassViews(`The class view "${path}" has the path of a default endpoint. Choose another path, change that of the endpoint with its "pathTo..." setting, or set "authMode" to false.`, { page: 'reference.md#responses' })
    }
  }
}

/** Returns a function that says whether sending has begun. `reply.sent` is not enough: it is true only after hooks and streams have ended. */
function watchSend (reply: FastifyReply): () => boolean {
  const { send } = reply
  let isCalled = false
  reply.send = function (payload) {
    isCalled = true
    return send.call(this, payload)
  }
  return () => isCalled || reply.sent
}

export function viewEndpoint ({ path, method, guards, access, schema, handler }: ViewRoute): Endpoint {
  return {
    method: method.toUpperCase() as HTTPMethods,
    path,
    schema: { tags: ['authentication'], ...schema },
    isView: true,
    access,
    refusesOtherOrigins: true,
    guards,
    async handler (request, reply) {
      const isSending = watchSend(reply)
      const body = await handler(request, reply)
      if (body !== undefined) return body
      return isSending() ? reply : reply.code(204).send()
    }
  }
}
