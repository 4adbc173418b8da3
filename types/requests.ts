import type { FastifyInstance, FastifyRegister, FastifyReply, FastifyRequest, RawServerBase, RouteGenericInterface } from 'fastify'

/** An application of Fastify, or a context of one, over HTTP/1.1 or HTTP/2, and with any logger and type provider. */
export interface AnyInstance<Registered> extends Pick<FastifyInstance, 'pluginName' | 'prefix' | 'version'> {
  /** Registers a plugin, and returns `Registered`: the application, which can be awaited. */
  readonly register: FastifyRegister<Registered>
}

/**
 * A request of Fastify, over HTTP/1.1 or HTTP/2, and with any logger, type provider and types of its route. In Fastify's
 * types, `FastifyRequest` without type parameters is a request over HTTP/1.1.
 */
export interface AnyRequest extends FastifyRequest<RouteGenericInterface, RawServerBase> {}

/** A reply of Fastify, over HTTP/1.1 or HTTP/2, and with any type provider and types of its route: see {@link AnyRequest}. */
export interface AnyReply extends FastifyReply<RouteGenericInterface, RawServerBase> {}
