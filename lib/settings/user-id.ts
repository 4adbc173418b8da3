/** What a user id may be. */
import type { UserId } from '../../types/handlers.ts'

/** A user id is a non-empty string, a safe integer or a boolean. An object would reach the application's database query as one. */
export function isUserId (value: unknown): value is UserId {
  return (typeof value === 'string' && value !== '') || Number.isSafeInteger(value) || typeof value === 'boolean'
}
