/** Measures what an application pays at its start: from the start of its process until it is ready, with one guarded route. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { randomFrom, shuffled, summary } from '../helper/statistics.js'

const run = promisify(execFile)

const service = (imports, setUp, route = '{}') => `import Fastify from 'fastify'
${imports}
const app = Fastify()
${setUp}
app.get('/', ${route}, async () => 'open')
await app.ready()
const wall = performance.now()
const { user, system } = process.cpuUsage()
globalThis.gc()
console.log(JSON.stringify({ cpu: (user + system) / 1000, wall, heap: process.memoryUsage().heapUsed / 2 ** 20 }))
process.exit()`

const library = new URL('../../dist/lib/index.js', import.meta.url).href
const secret = "'a secret of at least thirty-two bytes'"

/** Programs by their names. */
const programs = {
  bare: service('', ''),
  '@fastify/jwt and @fastify/cookie': service(
    "import cookie from '@fastify/cookie'\nimport jwt from '@fastify/jwt'", `await app.register(cookie)\nawait app.register(jwt, { secret: ${secret} })`,
    '{ onRequest: async (request) => { await request.jwtVerify() } }'),
  'fastify-token-auth': service(
    `import tokenAuth from '${library}'`, `await app.register(tokenAuth, { secret: ${secret}, authMode: false })`,
    '{ onRequest: app.tokenAuth.protect() }')
}

/** Returns milliseconds of CPU time and wall time, and megabytes of heap. The first round, which fills the caches of the system, does not count. */
export async function starts ({ starts: rounds, seed }) {
  const random = randomFrom(seed)
  const results = Object.fromEntries(Object.keys(programs).map((name) => [name, []]))
  const env = { ...process.env, NODE_ENV: 'production', NODE_NO_WARNINGS: '1' }
  for (let round = 0; round <= rounds; round++) {
    for (const name of shuffled(Object.keys(programs), random)) {
      const { stdout } = await run(process.execPath, ['--expose-gc', '--input-type=module', '--eval', programs[name]], { cwd: new URL('..', import.meta.url).pathname, env })
      if (round > 0) results[name].push(JSON.parse(stdout))
    }
  }
  return Object.entries(results).map(([name, all]) => ({ name, ...Object.fromEntries(['cpu', 'wall', 'heap'].map((unit) => [unit, summary(all.map((result) => result[unit]))])) }))
}
