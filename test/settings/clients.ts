/** Clients that were logged in when the settings of an application changed, and what becomes of them. */
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify'
import assert from 'node:assert/strict'
import type { Settings } from '../../lib/settings/schema.ts'
import { Jar } from './jar.ts'

/** The settings that a client has to know to talk to an application. */
const known = [
  'accessTokenName', 'refreshTokenName', 'authorizationHeader', 'authorizationHeaderPrefix', 'cookieSet', 'pathToAuthenticate', 'pathToLogout', 'pathToRefresh',
  'queryStringAccessTokenName', 'queryStringRefreshTokenName', 'queryStringSet', 'urlPrefix'
] as const
export type Knowledge = Pick<Settings, typeof known[number]>
export const knowledgeOf = (settings: Settings) => Object.fromEntries(known.map((name) => [name, settings[name]])) as unknown as Knowledge

/** A running application. */
export interface Process {
  readonly app: FastifyInstance
  readonly knowledge: Knowledge
  /** The paths of its guarded routes that every user may use. */
  readonly routes: readonly string[]
  /** Whether its guards do not protect. */
  readonly isOpen: boolean
  readonly hasSessions: boolean
  /** Whether it exchanges refresh tokens. */
  readonly hasRefresh: boolean
}

/** Tokens in headers; cookies and a script that refreshes; cookies of pages without scripts, which the guard renews. */
export type Kind = 'header' | 'cookies' | 'pages'

export class Client {
  jar = new Jar()
  #access = ''
  #refresh = ''
  readonly #kind: Kind
  readonly #site: string
  readonly #username: string
  readonly #knows: Knowledge | undefined

  /** @param knows what it knows, if not everything of the process that it talks to */
  constructor (kind: Kind, site: string, username: string, knows?: Knowledge) {
    this.#username = username
    this.#kind = kind
    this.#site = site
    this.#knows = knows
  }

  get hasPages (): boolean { return this.#kind === 'pages' }

  async #send ({ app, knowledge }: Process, request: InjectOptions & { url: string }): Promise<LightMyRequestResponse> {
    const { queryStringSet, authorizationHeader, authorizationHeaderPrefix, queryStringAccessTokenName, cookieSet } = this.#knows ?? knowledge
    const isBrowser = this.#kind !== 'header'
    const hasTokens = !(isBrowser && cookieSet) && this.#access !== ''
    const url = new URL(request.url, this.#site)
    if (hasTokens && queryStringSet) url.searchParams.set(queryStringAccessTokenName, this.#access)
    const cookie = isBrowser ? this.jar.headerFor(url.href) : ''
    const page = this.#kind === 'pages' && request.method === 'GET' ? { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' } : {}
    const response = await app.inject({
      ...request,
      url: url.pathname + url.search,
      headers: {
        host: url.host,
        ...(isBrowser && { 'sec-fetch-site': 'same-origin', ...page }),
        ...(cookie !== '' && { cookie }),
        ...(hasTokens && !queryStringSet && { [authorizationHeader]: `${authorizationHeaderPrefix} ${this.#access}`.trim() })
      }
    })
    if (isBrowser) this.jar.take(url.href, [response.headers['set-cookie'] ?? []].flat())
    assert.ok(response.statusCode < 500, response.payload)
    return response
  }

  #take (process: Process, response: LightMyRequestResponse): number {
    const { accessTokenName, refreshTokenName, cookieSet } = this.#knows ?? process.knowledge
    if (response.statusCode !== 200 || (cookieSet && this.#kind !== 'header')) return response.statusCode
    const { [accessTokenName]: access, [refreshTokenName]: refresh } = response.json()
    this.#access = access ?? ''
    // Without sessions, a refresh returns no other refresh token.
    this.#refresh = refresh ?? this.#refresh
    return 200
  }

  /** Where the endpoint of a path is. */
  #at (process: Process, setting: 'pathToAuthenticate' | 'pathToLogout' | 'pathToRefresh'): string {
    const knowledge = this.#knows ?? process.knowledge
    return `${knowledge.urlPrefix}${knowledge[setting]}`.replace(/\/$/, '')
  }

  /** A thief's: with the same tokens and cookies. */
  copy (): Client {
    const copy = new Client(this.#kind, this.#site, this.#username, this.#knows)
    copy.jar = this.jar.copy()
    copy.#access = this.#access
    copy.#refresh = this.#refresh
    return copy
  }

  /** Logs in. */
  async login (process: Process): Promise<number> {
    return this.#take(process, await this.#send(process, { method: 'POST', url: this.#at(process, 'pathToAuthenticate'), payload: { username: this.#username } }))
  }

  /** Uses all guarded routes. @returns the status of the first that refuses, otherwise 200 */
  async visit (process: Process): Promise<number> {
    for (const url of process.routes) {
      const { statusCode } = await this.#send(process, { method: 'GET', url: this.hasPages ? `${url}-page` : url })
      if (statusCode !== 200) return statusCode
    }
    return 200
  }

  /** The refresh of a script. */
  async refresh (process: Process): Promise<number> {
    const { queryStringSet, refreshTokenName, queryStringRefreshTokenName } = this.#knows ?? process.knowledge
    const url = this.#at(process, 'pathToRefresh')
    const isInQuery = queryStringSet && this.#refresh !== ''
    return this.#take(process, await this.#send(process, {
      method: 'POST',
      url: isInQuery ? `${url}?${queryStringRefreshTokenName}=${this.#refresh}` : url,
      payload: this.#refresh === '' || isInQuery ? {} : { [refreshTokenName]: this.#refresh }
    }))
  }

  async logout (process: Process): Promise<number> {
    const { refreshTokenName } = this.#knows ?? process.knowledge
    const response = await this.#send(process, { method: 'POST', url: this.#at(process, 'pathToLogout'), payload: this.#refresh === '' ? {} : { [refreshTokenName]: this.#refresh } })
    return response.statusCode
  }
}
