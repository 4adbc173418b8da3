/** What becomes of an error that a function of the host throws. */
import { HandlerFailed, TokenAuthError } from './errors.ts'

/** Whether an error is of the host's own making and says itself that the client is at fault. */
function isClientError (error: unknown): boolean {
  if (typeof error !== 'object' || error === null || !('statusCode' in error)) return false
  return typeof error.statusCode === 'number' && error.statusCode >= 400 && error.statusCode < 500
}

/**
 * What an error that a host's function threw becomes: a refusal of ours stays one, an error with a
 * 4xx status of its own goes on as it is, and anything else becomes `HandlerFailed`, which hides its message from clients.
 */
export function hostError (name: string, error: unknown): unknown {
  return error instanceof TokenAuthError || isClientError(error) ? error : new HandlerFailed(name, { cause: error })
}
