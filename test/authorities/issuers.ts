/** What tests of trusted issuers need: an issuer's keys, its tokens, and where its keys are fetched. */
import { createPublicKey } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyInstance, FastifyServerOptions } from 'fastify'
import type { Test } from 'tap'
import type { Algorithm, JsonWebKey, TokenAuthOptions, TrustedIssuer } from '../../lib/index.ts'
import { bearer, build, forge, now, pairFor, together } from '../helper.ts'

export const issuer = 'https://issuer.example/'
export const audience = 'https://api.example'

interface Which { algorithm?: Algorithm, which?: number }

/** A public key of an issuer, as its set has it. */
export function jwk (kid: string | undefined, { algorithm = 'ES256', which = 0 }: Which = {}, members: Record<string, unknown> = {}): JsonWebKey {
  const { kty, crv, x, y, n, e } = createPublicKey(pairFor(algorithm, which).publicKey).export({ format: 'jwk' })
  return JSON.parse(JSON.stringify({ kty, crv, x, y, n, e, ...(kid !== undefined && { kid }), ...members }))
}

/** The claims of a token of the issuer for this service. */
export const granted = (extra: Record<string, unknown> = {}) => ({ iss: issuer, aud: audience, sub: 'user-1', exp: now() + 600, ...extra })

/** A token of an issuer. */
export function issue (kid: string | undefined, claims: Record<string, unknown> = granted(), { algorithm = 'ES256', which = 0 }: Which = {}, header: Record<string, unknown> = {}): string {
  return forge(claims, { algorithm, key: pairFor(algorithm, which).privateKey, header: { kid, ...header } })
}

/** An entry of `issuers` that has one key with the id "a". */
export const trusted = (parts: Partial<TrustedIssuer> = {}): TrustedIssuer => ({
  issuer, audience, algorithms: ['ES256'], ...(parts.jwksUri === undefined && { jwks: { keys: [jwk('a')] } }), ...parts
})

/** An application with trusted issuers and no keys of its own, unless the options say otherwise. Its route shows what is known of the token. */
export async function withIssuers (t: Test, issuers: TrustedIssuer | readonly TrustedIssuer[] = trusted(), options: Partial<TokenAuthOptions> = {}, server: FastifyServerOptions = {}): Promise<FastifyInstance> {
  const list: readonly TrustedIssuer[] = Array.isArray(issuers) ? issuers : [issuers]
  const app = await build(t, together({ secret: undefined, authMode: false, issuers: list }, options), server)
  app.get('/', { onRequest: app.tokenAuth.protect() }, async ({ tokenAuth: { issuer, userId, scopes, sessionId } }) => ({ issuer, userId, scopes, sessionId }))
  return app
}

/** What a guarded route answers to a token. */
export const answer = async (app: FastifyInstance, token: string) => await app.inject({ url: '/', headers: bearer(token) })

/** The status of it. */
export const status = async (app: FastifyInstance, token: string) => (await answer(app, token)).statusCode

/** A function that returns keys, which a test can change and make fail. */
export function keySource (keys: readonly JsonWebKey[] = [jwk('a')]) {
  const state = { keys, calls: 0, instead: undefined as undefined | (() => unknown) }
  const jwks = async () => {
    state.calls++
    return state.instead === undefined ? { keys: state.keys } : await state.instead() as { keys: readonly JsonWebKey[] }
  }
  return { state, jwks }
}

/** A server of keys, which a test can change and make answer otherwise. */
export async function keyServer (t: Test, keys: readonly JsonWebKey[] = [jwk('a')]) {
  const state = { keys, requests: 0, connections: 0, instead: undefined as undefined | RequestListener }
  const server = createServer((request, response) => {
    state.requests++
    if (state.instead !== undefined) return state.instead(request, response)
    response.setHeader('content-type', 'application/jwk-set+json').end(JSON.stringify({ keys: state.keys }))
  })
  server.on('connection', () => { state.connections++ })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  const close = async () => {
    server.closeAllConnections()
    await new Promise((resolve) => { server.close(resolve) })
  }
  t.teardown(close)
  const { port } = server.address() as AddressInfo
  return { state, server, close, jwksUri: `http://127.0.0.1:${port}/jwks` }
}

/** Lets everything run until something is so. */
export async function until (isSo: () => boolean): Promise<void> {
  for (let turns = 0; !isSo(); turns++) {
    if (turns === 100_000) throw new Error('It did not happen.')
    await turn()
  }
}

/** Makes random numbers zero until the test ends, so that keys are read again after exactly 600 seconds. */
export function withoutJitter (t: Test): void {
  const { random } = Math
  Math.random = () => 0
  t.teardown(() => { Math.random = random })
}

/** Answers all requests of this process for keys until the test ends, so that examples with addresses of the world reach nobody. */
export function answerFetches (t: Test, keys: readonly JsonWebKey[] = [jwk('a', { algorithm: 'RS256' })]): string[] {
  const { fetch } = globalThis
  const addresses: string[] = []
  globalThis.fetch = async (address) => {
    addresses.push(String(address))
    return new Response(JSON.stringify({ keys }))
  }
  t.teardown(() => { globalThis.fetch = fetch })
  return addresses
}
