/** Measures the cost of a registration and of a remembered token, and whether invalid tokens evict valid ones. */
import { setTimeout } from 'node:timers/promises'
import Fastify from 'fastify'
import tokenAuth from '../../dist/lib/index.js'
import { verifyingKey } from '../../build/lib/keys/material.js'
import { findersOf } from '../../build/lib/authorities/own.js'
import { verifierOf } from '../../build/lib/authorities/verifier.js'
import { answerWith } from '../helper/cores.js'
import { randomFrom, shuffled, summary } from '../helper/statistics.js'
import { forgedTokens, keysOf, manyTokens, ringOfThree } from '../tokens.js'

const secret = keysOf('HS256').verifying
const instances = 200

const endpoints = {
  authenticate: () => ({ user_id: 1 }),
  refreshTokenEnabled: true,
  storeRefreshToken: () => {},
  retrieveRefreshToken: () => ''
}

const register = (optionsOf) => async (context, index) => { await context.register(tokenAuth, optionsOf(index)) }

/** Adds only the routes of the four endpoints, in a nested context as the plugin does. */
async function addBareRoutes (context) {
  await context.register(async (own) => {
    for (const { method, url, schema } of bareRoutes) {
      own.route({ method, url, schema: { ...schema }, validatorCompiler: () => () => true, serializerCompiler: () => JSON.stringify, handler: async () => ({}) })
    }
  })
}

/** Returns method, path and schema of the routes of the four endpoints. Fastify adds the HEAD routes. */
async function routesOfEndpoints () {
  const app = Fastify()
  const routes = []
  app.addHook('onRoute', ({ method, url, schema }) => { if (method !== 'HEAD') routes.push({ method, url, schema: { ...schema } }) })
  await app.register(tokenAuth, { secret, ...endpoints })
  return routes
}

const bareRoutes = await routesOfEndpoints()

/** Keys of each instance, generated before anything is measured. */
const rings = Array.from({ length: instances }, ringOfThree)

const contexts = {
  'empty context': () => {},
  'verify only': register(() => ({ secret, authMode: false })),
  'verify only, a key for each': register((index) => ({ secret: `${secret} ${index}`, authMode: false })),
  'verify only, a ring of three Ed25519 keys for each': register((index) => ({ algorithm: 'EdDSA', keys: rings[index], authMode: false })),
  'four endpoints with their schemas': register(() => ({ secret, ...endpoints })),
  'the routes of four endpoints alone': addBareRoutes
}

/** Returns the used heap after pending jobs and finalizers have run. */
async function usedHeap () {
  globalThis.gc()
  await setTimeout(20)
  globalThis.gc()
  return process.memoryUsage().heapUsed
}

/** Returns milliseconds of CPU time and kilobytes of heap per context, for many contexts. */
async function boot (prepare) {
  const heap = await usedHeap()
  const before = process.cpuUsage()
  const app = Fastify()
  for (let index = 0; index < instances; index++) {
    app.register(async (context) => { await prepare(context, index) }, { prefix: `/${index}` })
  }
  await app.ready()
  const { user, system } = process.cpuUsage(before)
  const result = { milliseconds: (user + system) / 1000 / instances, kilobytes: (await usedHeap() - heap) / 1024 / instances }
  await app.close()
  return result
}

async function registration ({ boots, seed }) {
  const random = randomFrom(seed)
  const results = Object.fromEntries(Object.keys(contexts).map((name) => [name, []]))
  for (const prepare of Object.values(contexts)) await boot(prepare)
  for (let count = 0; count < boots; count++) {
    for (const name of shuffled(Object.keys(contexts), random)) results[name].push(await boot(contexts[name]))
  }
  const { 'empty context': empty, ...rest } = results
  // In addition to an empty context of the same round.
  const above = (name, unit) => summary(rest[name].map((result, round) => result[unit] - empty[round][unit]))
  return Object.keys(rest).map((name) => ({ name, milliseconds: above(name, 'milliseconds'), kilobytes: above(name, 'kilobytes') }))
}

const verifierOfSize = (size) => verifierOf(findersOf('HS256', verifyingKey('HS256', { secret })), size)

/** Returns kilobytes of heap per remembered token, including the token. */
async function memoryOfToken () {
  const count = 20_000
  const verify = verifierOfSize(count)
  for (const token of manyTokens(100)) verify(token)
  const before = await usedHeap()
  let tokens = manyTokens(count)
  for (const token of tokens) verify(token)
  const character = tokens[0].length
  tokens = undefined
  return { kilobytes: (await usedHeap() - before) / 1024 / (count - 100), characters: character, isRemembered: verify(manyTokens(1)[0]).isRemembered }
}

/** Returns how many of 1,000 remembered tokens are still the same objects after 100,000 invalid tokens. */
function flood () {
  const size = 1000
  const verify = verifierOfSize(size)
  const valid = manyTokens(size)
  const before = valid.map((token) => verify(token))
  const bad = forgedTokens(99_000)
  for (const token of bad) verify(token)
  for (const token of valid) {
    const [head, payload] = token.split('.')
    verify(`${head}.${payload}.${'A'.repeat(43)}`)
  }
  const left = valid.filter((token, index) => verify(token) === before[index]).length
  return { bad: bad.length + size, remembered: size, left }
}

answerWith(async (settings) => ({ registration: await registration(settings), memory: await memoryOfToken(), flood: flood() }))
