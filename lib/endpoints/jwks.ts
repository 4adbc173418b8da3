/** GET {prefix}{pathToJwks}: the public keys, for services that verify tokens of this instance (RFC 7517 section 5). */
import { Type } from '@sinclair/typebox'
import { bodySchema, type Endpoint } from './endpoint.ts'

/** Services keep the keys for so many seconds, and for a day where the endpoint cannot be reached. */
const cacheControl = (maxAge: number) => `public, max-age=${maxAge}, stale-if-error=86400`

const jwkSetSchema = bodySchema({ keys: Type.Array(bodySchema({ kty: Type.String(), kid: Type.String(), alg: Type.String(), use: Type.Literal('sig') })) })

/** @param jwkSet returns the set as JSON */
export function jwksEndpoint (path: string, jwkSet: () => string, maxAge: number): Endpoint {
  return {
    method: 'GET',
    path,
    isCacheable: true,
    access: false,
    schema: {
      summary: 'Return the public keys',
      description: 'The keys with which the signatures of access tokens can be verified, as a JWK set (RFC 7517).',
      tags: ['authentication'],
      response: {
        200: { description: 'The keys.', content: { 'application/jwk-set+json': { schema: jwkSetSchema } } }
      }
    },
    // Bytes, to which Fastify adds no charset: the media type has none.
    handler: (_request, reply) => reply.header('cache-control', cacheControl(maxAge)).type('application/jwk-set+json').send(Buffer.from(jwkSet()))
  }
}
