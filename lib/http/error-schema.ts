/** The answers to refused requests, for the OpenAPI document. */

/** The body of an error of the plugin, as the default `exceptionResponse` renders it. */
export const errorSchema = {
  type: 'object',
  required: ['reasons', 'exception'],
  properties: { reasons: { type: 'string' }, exception: { type: 'string' } },
  additionalProperties: true
} as const

/** The body of an error of Fastify itself, such as that of a request that is not valid. */
export const fastifyErrorSchema = {
  type: 'object',
  required: ['statusCode', 'error', 'message'],
  properties: { statusCode: { type: 'integer' }, code: { type: 'string' }, error: { type: 'string' }, message: { type: 'string' } },
  additionalProperties: true
} as const

/** The answer to a request without a valid token. */
export const unauthorized = { description: 'No valid access token.', ...errorSchema }

/**
 * The bodies and answers of the endpoints of the plugin, as JSON schemas. Transformations of an application, which may be for
 * schemas of another library, do not see them.
 */
export const ownSchemas = new WeakSet<object>()

export const crossOriginDescription = 'The request comes from another origin.'
