/** Reads the options of `generateAccessToken`. */
import type { FastifyRequest } from 'fastify'
import { authTime, func, matching } from '../settings/kinds.ts'
import { optional, optionsOf, readRecord } from '../settings/records.ts'
import type { TokenAdditions } from '../../types/instance.ts'

type Given = TokenAdditions<object>

/** The options of `generateAccessToken`. Claims and scopes are checked when they are used, like those of the registration. */
export const additionsShape = {
  members: {
    customClaims: optional(matching<NonNullable<Given['customClaims']>>('a list of custom claims')),
    extendPayload: optional(func<NonNullable<Given['extendPayload']>>('a function (payload, user) that returns the payload')),
    scopes: optional(matching<NonNullable<Given['scopes']> | null>('a scope, a list of scopes, or null')),
    authTime: optional(authTime),
    request: optional(matching<FastifyRequest>('a request', (value) => typeof value === 'object' && value !== null))
  },
  example: '{ scopes }',
  page: 'reference.md#members-of-an-instance',
  duringRequest: true
} as const

/** Reads additions to an access token. @throws {InvalidConfiguration} also for an unknown option */
export function readAdditions (additions: Given): Given & { request?: FastifyRequest | undefined } {
  return readRecord(optionsOf('generateAccessToken()'), additions, additionsShape)
}
