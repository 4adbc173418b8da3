/** Where a request carries its refresh token. */
import type { FastifyRequest } from 'fastify'
import { MissingRefreshToken } from '../errors.ts'
import { Refusal, type Verdict } from '../refusal.ts'
import { ownMemberOf } from '../values.ts'
import { extractRefreshToken } from './extract.ts'
import type { RequestState } from './state.ts'

const missing = new Refusal(() => new MissingRefreshToken())

/** The refresh token in a body; undefined for none. */
export function refreshTokenInBody ({ body }: FastifyRequest, name: string): string | undefined {
  const value = ownMemberOf(body, name)
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** Returns the refresh token of a request: from its cookie or query parameter, or from the body; undefined for none. */
export function findRefreshToken ({ request, settings }: RequestState): Verdict<string> | undefined {
  const found = extractRefreshToken(request.raw, settings)
  if (found === undefined) return refreshTokenInBody(request, settings.refreshTokenName)
  return found instanceof Refusal ? found : found.token
}

/** As {@link findRefreshToken}. @throws its refusal, or {MissingRefreshToken} */
export function requireRefreshToken (state: RequestState): string {
  const found = findRefreshToken(state)
  if (typeof found !== 'string') throw state.toRefreshError(found ?? missing)
  return found
}
