/** GET {prefix}{pathToJwks}: the public keys, for services that verify tokens of this instance (RFC 7517 section 5). */
import { Type } from '@sinclair/typebox'
import { bodySchema, type Implementation, type PublishedKeys } from './endpoint.ts'

/** Services may cache the keys for `maxAge` seconds, and use them for a day if the endpoint cannot be reached. */
const cacheControl = (maxAge: number) => `public, max-age=${maxAge}, stale-if-error=86400`

const jwkSetSchema = bodySchema({
  keys: Type.Array(bodySchema({ kty: Type.String(), kid: Type.String(), alg: Type.String(), use: Type.Literal('sig') }))
})

export function jwksEndpoint (keys: PublishedKeys): Implementation {
  return {
    schema: {
      summary: 'Return the public keys',
      description: 'The keys with which the signatures of access tokens can be verified, as a JWK set (RFC 7517).',
      tags: ['authentication'],
      response: {
        200: { description: 'The keys.', content: { 'application/jwk-set+json': { schema: jwkSetSchema } } }
      }
    },
    handler (_state, reply) {
      // Bytes, to which Fastify adds no charset: the media type has none.
      const body = Buffer.from(keys.jwkSet())
      reply.header('cache-control', cacheControl(keys.maxAge)).type('application/jwk-set+json')
      return { body }
    }
  }
}
