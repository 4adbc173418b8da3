/** What an endpoint is: its row in the table of endpoints, and what its file says of it. What the files share. */
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

/** A schema with what OpenAPI documents of a route. */
export interface EndpointSchema extends FastifySchema {
  operationId?: string
  summary?: string
  description?: string
  tags?: readonly string[]
}

/** What a handler answers. */
export interface Result {
  /** Default: that of the reply, 200 unless a hook of the application has changed it. */
  readonly status?: number | undefined
  /** Undefined for none. */
  readonly body?: unknown
  readonly cookies?: readonly string[]
  /** Cookies with which a login begins or ends. */
  readonly loginCookies?: readonly string[]
  /** Called when it was sent; not where a hook of the application has replaced it by an error. */
  readonly sent?: () => void
}

/** What the file of an endpoint says of it. */
export interface Implementation {
  readonly schema: EndpointSchema
  /** Whether it accepts a request without a body. */
  readonly isBodyOptional?: boolean
  /** Describes what is wrong with the query of a request; undefined for nothing. Default: any query is accepted. */
  readonly faultOfQuery?: (query: unknown) => string | undefined
  /** Hooks that a request passes before its body is read. */
  readonly guards?: ReadonlyArray<Guard | CallbackHook | onRequestAsyncHookHandler>
  /** Begins the state of a request that is given to the handler. Default: under the rules of the registration. */
  readonly begin?: (request: FastifyRequest) => RequestState
  /** Returns what is sent; undefined where the request was answered in the meantime. What it throws is rendered like a refusal of a guard. */
  readonly handler: (state: RequestState, reply: FastifyReply) => MaybePromise<Result | undefined>
}

/** The public keys, as the endpoint that publishes them needs them. */
export interface PublishedKeys {
  /** Returns the JWK set as JSON. */
  jwkSet (): string
  /** Seconds for which services may keep it. */
  readonly maxAge: number
}

/** A row of the table of endpoints. */
export interface EndpointRow {
  /** The end of its `operationId` in OpenAPI: `<instanceName><Name>`. */
  readonly name: string
  readonly method: HTTPMethods
  /** The setting that holds its path below `urlPrefix`. With null, the endpoint does not exist. */
  readonly path: PathSetting
  /** What follows that path. */
  readonly below?: '/:id'
  /** The option that it belongs to, without which its path is not taken either. */
  readonly option?: 'sessions'
  /** Whether it exists, given the settings and whether there are sessions. */
  readonly exists: (settings: Settings, hasSessions: boolean) => boolean
  /** The method of `Responses` that extends its body. */
  readonly hook?: Hook
  /** What `config.tokenAuth` says of it: false if everybody may use it, or what guards it. Undefined for an endpoint with guards. */
  readonly access?: false | string
  /** For the OpenAPI document: whether it requires an access token without a guard, or accepts one. */
  readonly readsToken?: 'required' | 'optional'
  /** Whether it is not for pages of other origins in cookie mode, even if they send no cookie: they could log somebody in as another user, or out. */
  readonly isForOwnOrigin?: boolean
  /** Whether it takes a refresh token, so that no guard before it may exchange that token. */
  readonly takesRefreshToken?: boolean
  /** Whether its answer may be cached, with a `Cache-Control` of its own, so that it answers HEAD, too. */
  readonly isCacheable?: boolean
  /** Which bodies it accepts. Default: JSON. Some RFCs require forms, such as RFC 7009 and RFC 7662. */
  readonly bodies?: 'form'
  readonly implement: (registration: Registration, keys: PublishedKeys) => Implementation
}

/** An endpoint of a registration. */
export interface Endpoint extends Implementation {
  readonly row: EndpointRow
  /** Path below `urlPrefix`. */
  readonly path: string
}

/** Creates the schema of a body with fields whose names are settings, open for what hooks add. */
export function bodySchema (properties: Record<string, TSchema>, options: object = {}): TSchema {
  return Type.Object(properties, { additionalProperties: true, ...options })
}

/** Documents the answer of an endpoint that reads tokens while what it needs for that is not available; nothing where that cannot happen. */
export const unavailable = ({ outage }: Registration): Record<number, object> => outage === undefined ? {} : { 503: { description: outage, ...errorSchema } }

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
export function refuseEarly (registration: Registration, ask: (state: RequestState, request: FastifyRequest) => unknown): (request: FastifyRequest, reply: FastifyReply) => Promise<boolean> {
  return async (request, reply) => {
    const state = openState(registration, request, registration.rules)
    const answer = (refused: unknown) => isAnswered(request, reply) ? reply : sendRefusal(registration, request, reply, refused, state)
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
