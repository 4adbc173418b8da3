/**
 * The servers that are compared, each in a process of its own: `node benchmarks/servers.js <name>`. The parent process
 * is told the port, and the CPU time used so far whenever it asks.
 */
import { createVerifier } from 'fast-jwt'
import Fastify from 'fastify'
import tokenAuth from '../dist/lib/index.js'
import { secret } from './tokens.js'

const answer = async () => ({ hello: 'world' })

/** Each gives a guard for the one route, or none. */
const guards = {
  /** The route without any authentication. */
  bare: () => undefined,
  /** This library. */
  guarded: (app) => app.tokenAuth.protect(),
  /** This library without its memory of verified tokens. */
  'guarded, no cache': (app) => app.tokenAuth.protect({ tokenCacheSize: 0 }),
  /** This library, asked for a scope. */
  scoped: (app) => app.tokenAuth.scoped('reports:read'),
  /** The least that one can write with fast-jwt: no rules but the signature and the expiry. */
  'minimal fast-jwt hook': () => {
    const verify = createVerifier({ key: secret, algorithms: ['HS256'] })
    return async (request, reply) => {
      try {
        request.user = verify(request.headers.authorization.slice(7))
      } catch {
        return reply.code(401).send({ reasons: 'Token is invalid.' })
      }
    }
  }
}

export const names = Object.keys(guards)

if (process.send !== undefined) {
  const app = Fastify()
  app.decorateRequest('user', null)
  await app.register(tokenAuth, { secret, authMode: false, leeway: 0 })
  const guard = guards[process.argv[2]](app)
  app.get('/', guard === undefined ? {} : { preHandler: guard }, answer)
  await app.listen({ port: 0, host: '127.0.0.1' })
  process.on('message', () => {
    const { user, system } = process.cpuUsage()
    process.send({ cpu: user + system })
  })
  process.on('disconnect', () => process.exit())
  process.send({ port: app.server.address().port })
}
