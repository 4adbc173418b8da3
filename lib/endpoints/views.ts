/** Class views as routes. */
import type { FastifyInstance, FastifyRegisterOptions, FastifyReply, FastifyRequest, FastifySchema, HTTPMethods } from 'fastify'
import { InvalidClassViews } from '../configuration-errors.ts'
import { sendRefusal } from '../guards/refuse.ts'
import { isAnswered } from '../host/call.ts'
import type { Registration } from '../registration.ts'
import { openState } from '../request/slot.ts'
import type { Settings } from '../settings/schema.ts'
import type { Endpoint, EndpointSchema } from './endpoint.ts'
import { addRoute, inOwnContext } from './routes.ts'
import type { ViewRoute } from './view.ts'

/** @throws {InvalidClassViews} for a view on the path of an endpoint, or of the refresh endpoint, also if it is disabled */
export function checkViewPaths (views: readonly ViewRoute[], endpoints: readonly Endpoint[], { authMode, pathToRefresh }: Settings): void {
  const taken = endpoints.map(({ path }) => path)
  // Reserved even while refresh tokens are disabled, so that enabling them breaks no view.
  if (authMode) taken.push(pathToRefresh)
  const bare = (path: string) => path.replace(/\/$/, '')
  for (const { path } of views) {
    if (taken.some((other) => bare(other) === bare(path))) {
      throw new InvalidClassViews(
        `The class view "${path}" has the path of a default endpoint. Choose another path, change that of the endpoint with its "pathTo..." setting, or set "authMode" to false.`,
        { page: 'reference.md#responses' }
      )
    }
  }
}

/** Returns a function that checks whether sending has begun. `reply.sent` becomes true only after hooks and streams have ended. */
function watchSend (reply: FastifyReply): () => boolean {
  const { send } = reply
  let isCalled = false
  reply.send = function (payload) {
    isCalled = true
    return send.call(this, payload)
  }
  return () => isCalled || reply.sent
}

function handlerOf (registration: Registration, { handler }: ViewRoute) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    try {
      const isSending = watchSend(reply)
      const body = await handler(request, reply)
      if (body !== undefined) return body
      return isSending() ? reply : reply.code(204).send()
    } catch (error) {
      if (isAnswered(request, reply)) return reply
      // Opened only now, because the view reads the state that its guard has left.
      return await sendRefusal(registration, request, reply, error, openState(registration, request, registration.rules))
    }
  }
}

const hide = (schema: FastifySchema) => ({ ...schema, hide: true })

/** Adds class views, whose bodies, schemas and compilers are those of the application. @throws {InvalidConfiguration} */
export async function addViews (
  host: FastifyInstance,
  registration: Registration,
  views: readonly ViewRoute[],
  options: FastifyRegisterOptions<object>
): Promise<void> {
  if (views.length === 0) return
  await inOwnContext(host, options, (context) => {
    for (const view of views) {
      const schema: EndpointSchema = { tags: ['authentication'], ...view.schema }
      addRoute(context, host, registration, {
        method: view.method.toUpperCase() as HTTPMethods,
        path: view.path,
        guards: view.guards,
        isForOwnOrigin: true,
        isCacheable: false,
        schema,
        hide,
        config: { tokenAuth: view.access },
        handler: handlerOf(registration, view)
      })
    }
  })
}
