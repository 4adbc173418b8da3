/** JSON schemas of the responses to refused requests, for the OpenAPI document. */

/** The body of an error of the plugin, as the default `exceptionResponse` renders it. */
export const errorSchema = {
  type: 'object',
  required: ['reasons', 'exception'],
  properties: { reasons: { type: 'string' }, exception: { type: 'string' } },
  additionalProperties: true
} as const

/** The body of an error of Fastify, such as a validation error. */
export const fastifyErrorSchema = {
  type: 'object',
  required: ['statusCode', 'error', 'message'],
  properties: { statusCode: { type: 'integer' }, code: { type: 'string' }, error: { type: 'string' }, message: { type: 'string' } },
  additionalProperties: true
} as const

/** The response to a request without a valid token. */
export const unauthorized = { description: 'No valid access token.', ...errorSchema }

/**
 * The JSON schemas of the endpoints of the plugin. Transformations of the application skip them, because such functions may
 * expect schemas of another library.
 */
export const ownSchemas = new WeakSet<object>()

export const crossOriginDescription = 'The request comes from another origin.'
