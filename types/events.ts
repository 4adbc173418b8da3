import type { FastifyRequest } from 'fastify'
import type { TokenAuthError } from '../lib/errors.ts'
import type { UserId } from './handlers.ts'

/**
 * Published on the channel `fastify-token-auth:issued` of `node:diagnostics_channel` when an access token was issued. With
 * refresh tokens or sessions, it is published after they were stored. It contains no token.
 */
export interface IssuedEvent {
  /** The name of the instance. */
  instanceName: string
  /** The request for which the token was issued, if there is one. It contains tokens: do not log it as a whole. */
  request?: FastifyRequest | undefined
  /** The user of the token. */
  userId: UserId
  /** `authenticate`: by a login; `refresh`: by a refresh; `generate`: by `generateAccessToken`; `start`: by `sessions.start`. */
  grant: 'authenticate' | 'refresh' | 'generate' | 'start'
}

/**
 * Published on the channel `fastify-token-auth:refused` of `node:diagnostics_channel` when a guard, `injectUser` or an
 * endpoint refuses a request, before the answer is sent. It contains no token and no part of one.
 */
export interface RefusedEvent {
  /** The name of the instance. */
  instanceName: string
  /** The request. It contains the refused token: do not log it as a whole. */
  request: FastifyRequest
  /** The error that describes the refusal: a copy without `cause`, which is not used elsewhere. */
  error: TokenAuthError
  /** The check that failed, for developers, if `error.message` does not name it. */
  reason?: string | undefined
}

/**
 * Published on the channel `fastify-token-auth:keys` of `node:diagnostics_channel` when the keys of an instance with the
 * option `keys`, or of its trusted issuers, change or fail to load. It contains no key material.
 */
export interface KeyEvent {
  /** The name of the instance. */
  instanceName: string
  /**
   * `switched`: another key signs; `reloaded`: the function `keys` returned other keys or dates, or works again; `reload-failed`:
   * the function failed, or its keys were refused, and the previous keys stay in use; `late`: a reload added a key that signs
   * before all services that cache the published keys have fetched it. For trusted issuers: `issuer-failed`: the keys could not be
   * read; `issuer-recovered`: they could be read again; `unknown-kid`: a token named a key that its issuer does not have.
   */
  type: 'switched' | 'reloaded' | 'reload-failed' | 'late' | 'issuer-failed' | 'issuer-recovered' | 'unknown-kid'
  /** The id of the key, with `switched` and `late`. */
  kid?: string | undefined
  /** The trusted issuer, with `issuer-failed`, `issuer-recovered` and `unknown-kid`. */
  issuer?: string | undefined
}
