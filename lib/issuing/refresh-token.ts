/** Refresh tokens without the option `sessions`: one for each user, stored by handlers of the application. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { RefreshTokenNotImplemented } from '../configuration-errors.ts'
import { callHost, wrongResult } from '../host/call.ts'
import type { HostHandlers } from '../host/handlers.ts'
import type { UserId } from '../../types/handlers.ts'
import type { AllSettings } from '../../types/settings.ts'

export type GenerateRefreshToken = AllSettings<object>['generateRefreshToken']

/** Generates a refresh token from 32 random bytes. OWASP ASVS 5 section 7.2.3 asks for at least 128 bits. */
export function randomRefreshToken (): string {
  return randomBytes(32).toString('base64url')
}

/** Calls the generator of refresh tokens. @throws {HandlerFailed} if it does not return a non-empty string */
export async function generateRefreshToken (generate: GenerateRefreshToken, request: FastifyRequest, user: object): Promise<string> {
  const refreshToken: unknown = await callHost('generateRefreshToken', () => generate(request, user))
  // Half a surrogate pair has no form in UTF-8, so that no client could send it back.
  const isText = typeof refreshToken === 'string' && refreshToken !== '' && !/\p{Surrogate}/u.test(refreshToken)
  if (!isText) throw wrongResult('generateRefreshToken', 'a non-empty string of well-formed Unicode', refreshToken)
  return refreshToken
}

/** Stores a refresh token through the handler of the application. @throws {RefreshTokenNotImplemented} {HandlerFailed} */
export async function storeRefreshToken (
  { storeRefreshToken: store }: Partial<HostHandlers>,
  request: FastifyRequest,
  userId: UserId,
  refreshToken: string
): Promise<void> {
  if (store === undefined) {
    throw new RefreshTokenNotImplemented(
      'The handler "storeRefreshToken" is missing. Provide it as an option or as a method of the authentication class.',
      { page: 'reference.md#handlers', duringRequest: true }
    )
  }
  await callHost('storeRefreshToken', () => store(userId, refreshToken, request))
}

/** Returns the refresh token that the application stored for a user; undefined if there is none. @throws {HandlerFailed} */
export async function storedRefreshToken (
  { retrieveRefreshToken }: Partial<HostHandlers>,
  request: FastifyRequest,
  userId: UserId
): Promise<string | undefined> {
  // Registration requires the handler with `refreshTokenEnabled`.
  const stored: unknown = await callHost('retrieveRefreshToken', () => retrieveRefreshToken!(userId, request))
  if (stored === undefined || stored === null || stored === '') return undefined
  if (typeof stored !== 'string') throw wrongResult('retrieveRefreshToken', 'the stored token as a string, or nothing', stored)
  return stored
}

const digest = (text: string) => createHash('sha256').update(text).digest()

/** Compares two refresh tokens in a time that depends neither on where they differ nor on their length. */
export function areSameToken (stored: string, purported: string): boolean {
  return timingSafeEqual(digest(stored), digest(purported))
}
