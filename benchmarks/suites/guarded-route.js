/** Compares a guarded route with a bare route and with the guards of other libraries, for different kinds of requests. */
import { getRequest } from '../helper/client.js'
import { compare } from '../helper/measure.js'
import { expiredTokens, forgedTokens, keysOf, manyTokens } from '../tokens.js'

const ours = 'fastify-token-auth'
const withoutMemory = { name: `${ours}, tokenCacheSize 0`, server: ours, settings: { tokenCacheSize: 0 } }
const bare = ['bare', { name: 'bare again', server: 'bare' }]
const cached = '@fastify/jwt with its cache'
const others = ['@fastify/jwt', 'minimal hook, fast-jwt', 'minimal hook, node:crypto']
const elsewhere = ['minimal hook, jsonwebtoken', 'minimal hook, jose', 'bare hono', 'hono jwt', 'bare express', 'express-jwt', 'passport-jwt']

const loads = {
  'hot token': { tokens: () => manyTokens(1), servers: [...bare, ours, 'scoped', withoutMemory, ...others, cached], isQuick: true },
  '1,000 tokens': { tokens: () => manyTokens(1000), servers: [...bare, ours, ...others, cached] },
  '1,000 tokens, elsewhere': { tokens: () => manyTokens(1000), servers: [...bare, ours, ...elsewhere] },
  '100,000 tokens': { tokens: () => manyTokens(100_000), servers: [...bare, ours, withoutMemory, ...others, cached] },
  'bad signature': { tokens: () => forgedTokens(1000), servers: [...bare, ours, ...others, cached], status: 401, isQuick: true },
  expired: { tokens: () => expiredTokens(1000), servers: [...bare, ours, ...others, cached], status: 401 },
  'no token': { tokens: () => [null], servers: [...bare, ours, ...others, cached], status: 401, isQuick: true },
  'hot token, ES256': { algorithm: 'ES256', tokens: () => manyTokens(1, 'ES256'), servers: [...bare, ours, '@fastify/jwt'] },
  'hot token, PS256': { algorithm: 'PS256', tokens: () => manyTokens(1, 'PS256'), servers: [...bare, ours, '@fastify/jwt'] },
  'hot token, RS256': { algorithm: 'RS256', tokens: () => manyTokens(1, 'RS256'), servers: [...bare, ours, '@fastify/jwt'] }
}

const hasGuard = (name) => !name.startsWith('bare')

/** @param isWanted returns whether the comparison with a title is measured */
export async function guardedRoute (settings, isWanted = (title) => !settings.isQuick || loads[title].isQuick) {
  const results = []
  for (const [title, { tokens, servers, status = 200, algorithm = 'HS256' }] of Object.entries(loads)) {
    if (!isWanted(title)) continue
    const requests = tokens().map((token) => getRequest(token))
    const subjects = servers.map((given) => {
      const { name, server = name, settings } = typeof given === 'string' ? { name: given } : given
      return { name, server, options: { algorithm, keys: keysOf(algorithm), settings }, requests, status: hasGuard(name) ? status : 200, remembers: name === ours || name === cached }
    })
    const chosen = settings.isQuick ? subjects.filter(({ name }) => ['bare', 'bare again', ours, '@fastify/jwt'].includes(name)) : subjects
    results.push(await compare(title, chosen, settings))
  }
  return results
}
