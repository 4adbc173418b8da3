/** The types of an endpoint, its row in the table of endpoints and the implementation in its file, and helpers of these files. */
import { Type, type TSchema } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest, FastifySchema, HTTPMethods, onRequestAsyncHookHandler } from 'fastify'
import type { MaybePromise } from '../../types/handlers.ts'
import type { Guard } from '../../types/instance.ts'
import type { CallbackHook } from '../wrapped/gate.ts'
import { sendRefusal } from '../guards/refuse.ts'
import { isAnswered } from '../host/call.ts'
import { errorSchema } from '../http/error-schema.ts'
import type { Hook } from '../http/responses.ts'
import { Refusal } from '../refusal.ts'
import type { Registration } from '../registration.ts'
import { openState } from '../request/slot.ts'
import type { RequestState } from '../request/state.ts'
import type { PathSetting, Settings } from '../settings/schema.ts'
import type { BodyKind } from './bodies.ts'
import { isFormOf, refuseForm } from './forms.ts'

/** A schema of Fastify with the members that OpenAPI adds. */
export interface EndpointSchema extends FastifySchema {
  operationId?: string
  summary?: string
  description?: string
  tags?: readonly string[]
  /** The media type of the body. Default: `application/json`. */
  consumes?: readonly string[]
}

/** The result of a handler. */
export interface Result {
  /** The status code. Default: that of the reply, 200 unless a hook of the application has changed it. */
  readonly status?: number | undefined
  /** Undefined for none. */
  readonly body?: unknown
  readonly cookies?: readonly string[]
  /** Cookies with which a login begins or ends. */
  readonly loginCookies?: readonly string[]
  /** Called after the response was sent, unless a hook of the application has replaced it with an error. */
  readonly sent?: () => void
}

/** The part of an endpoint that its file defines. */
export interface Implementation {
  readonly schema: EndpointSchema
  /** Whether it accepts a request without a body. */
  readonly isBodyOptional?: boolean
  /** Describes what is wrong with the query of a request; undefined for a valid one. Default: any query is accepted. */
  readonly faultOfQuery?: (query: unknown) => string | undefined
  /** Hooks that a request passes before its body is read. */
  readonly guards?: ReadonlyArray<Guard | CallbackHook | onRequestAsyncHookHandler>
  /** Creates the state of a request for the handler. Default: a state with the rules of the registration. */
  readonly begin?: (request: FastifyRequest) => RequestState
  /** Returns the response; undefined if the request was answered in the meantime. Its errors are rendered like refusals of a guard. */
  readonly handler: (state: RequestState, reply: FastifyReply, isForm: boolean) => MaybePromise<Result | undefined>
  /** Returns the page with which a form is answered (303), instead of the body. */
  readonly pageAfter?: (state: RequestState) => string
}

/** The public keys, for the endpoint that publishes them. */
export interface PublishedKeys {
  /** Returns the JWK set as JSON. */
  jwkSet (): string
  /** How many seconds services may cache it. */
  readonly maxAge: number
}

/** A row of the table of endpoints. */
export interface EndpointRow {
  /** The end of its `operationId` in OpenAPI: `<instanceName><Name>`. */
  readonly name: string
  readonly method: HTTPMethods
  /** The setting that holds its path below `urlPrefix`. With null, the endpoint does not exist. */
  readonly path: PathSetting
  /** A suffix of that path. */
  readonly below?: '/:id' | '/:id/end'
  /** The option that adds the endpoint. Without the option, the path is not reserved either. */
  readonly option?: 'sessions'
  /** Whether the endpoint exists with these settings, and with or without sessions. */
  readonly exists: (settings: Settings, hasSessions: boolean) => boolean
  /** The method of `Responses` that extends its body. */
  readonly hook?: Hook
  /** The `config.tokenAuth` of its route: false if everybody may use it, or what guards it. Undefined for an endpoint with guards. */
  readonly access?: false | string
  /** For the OpenAPI document: whether it requires an access token without a guard, or accepts one. */
  readonly readsToken?: 'required' | 'optional'
  /**
   * Whether it refuses other origins in cookie mode, even without a cookie: they could log a user out, or in as another user.
   * An endpoint with a guard needs no such check: the guard refuses cookies from other origins.
   */
  readonly isForOwnOrigin?: boolean
  /** Whether it takes a refresh token, so that no guard before it may exchange that token. */
  readonly takesRefreshToken?: boolean
  /** Whether its response may be cached: it sets `Cache-Control` itself, and also answers HEAD. */
  readonly isCacheable?: boolean
  /** Which bodies it accepts, and documents. Default: JSON. Some RFCs require forms, such as RFC 7009 and RFC 7662; 'either' is for pages without scripts. */
  readonly bodies?: BodyKind
  readonly implement: (registration: Registration, keys: PublishedKeys) => Implementation
}

/** An endpoint of a registration. */
export interface Endpoint extends Implementation {
  readonly row: EndpointRow
  /** Path below `urlPrefix`. */
  readonly path: string
}

/** Creates the schema of a body. It allows further members, which hooks of the application may add. */
export function bodySchema (properties: Record<string, TSchema>, options: object = {}): TSchema {
  return Type.Object(properties, { additionalProperties: true, ...options })
}

/** Documents the 503 of an endpoint that reads tokens; empty if the registration depends on no store and no fetched keys. */
export const unavailable = ({ outage }: Registration): Record<number, object> =>
  outage === undefined ? {} : { 503: { description: outage, ...errorSchema } }

interface IssuedTokens { accessToken: string, refreshToken?: string | undefined }

/** Returns the fields of a body that carry tokens. With `tokensInBody: false` in cookie mode there are none. */
export function tokenFields ({ accessToken, refreshToken }: IssuedTokens, settings: Settings): Record<string, unknown> {
  if (settings.cookieSet && !settings.tokensInBody) return {}
  return { [settings.accessTokenName]: accessToken, ...(refreshToken !== undefined && { [settings.refreshTokenName]: refreshToken }) }
}

/** Returns the properties of {@link tokenFields} for a schema. */
export function tokenProperties (names: readonly string[], { tokensInBody }: Settings): Record<string, TSchema> {
  return tokensInBody ? Object.fromEntries(names.map((name) => [name, Type.String()])) : {}
}

/**
 * Creates a hook that refuses requests before their body is read. It resolves to whether the request may pass.
 * @param ask returns the refusal of a request, or throws an error; anything else lets the request pass
 */
export function refuseEarly (
  registration: Registration,
  ask: (state: RequestState, request: FastifyRequest) => unknown
): (request: FastifyRequest, reply: FastifyReply) => Promise<boolean> {
  return async (request, reply) => {
    const state = openState(registration, request, registration.rules)
    const answer = (refused: unknown) => {
      if (isAnswered(request, reply)) return reply
      const refuse = isFormOf(registration, request) ? refuseForm : sendRefusal
      return refuse(registration, request, reply, refused, state)
    }
    let verdict
    try {
      verdict = await ask(state, request)
    } catch (error) {
      await answer(error)
      return false
    }
    if (!(verdict instanceof Refusal) && !isAnswered(request, reply)) return true
    await answer(verdict)
    return false
  }
}
