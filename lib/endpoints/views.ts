/** Class views as routes under the prefix. */
import type { HTTPMethods } from 'fastify'
import { InvalidClassViews } from '../errors.ts'
import type { Settings } from '../settings/schema.ts'
import type { ViewRoute } from '../view.ts'
import type { Endpoint } from './route.ts'

/** @throws {InvalidClassViews} for a view on the path of a default endpoint */
export function checkViewPaths (routes: readonly ViewRoute[], settings: Settings): void {
  if (!settings.authMode) return
  const taken = [settings.pathToAuthenticate, settings.pathToVerify, settings.pathToRetrieveUser, settings.pathToRefresh]
  const bare = (path: string) => path.replace(/\/$/, '')
  for (const { path } of routes) {
    if (taken.some((other) => bare(other) === bare(path))) {
      throw new InvalidClassViews(`The class view on "${path}" stands on the path of a default endpoint. Choose another path, move the endpoint by its "pathTo..." setting, or set "authMode" to false.`, { section: 'responses' })
    }
  }
}

export function viewEndpoint ({ path, method, guards, schema, handler }: ViewRoute): Endpoint {
  return {
    method: method.toUpperCase() as HTTPMethods,
    path,
    schema: { tags: ['authentication'], ...schema },
    isSchemaOfHost: true,
    preHandler: [...guards],
    async handler (request, reply) {
      const body = await handler(request, reply)
      if (body === undefined && !reply.sent) return reply.code(204).send()
      return body
    }
  }
}
