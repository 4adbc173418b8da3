/** Measures calls of guards with and without what decides besides the token, in microseconds, in a tight loop. */
import Fastify from 'fastify'
import tokenAuth from '../../dist/lib/index.js'
import { answerWith } from '../helper/cores.js'
import { timesOf } from '../helper/time.js'
import { keyOptions, keysOf, manyTokens } from '../tokens.js'

const [token] = manyTokens(1)
const inHeader = { authorization: `Bearer ${token}` }
const inCookie = { cookie: `access_token=${token}`, 'sec-fetch-site': 'same-origin' }

/** Returns a function that creates a request with what guards read. */
function requestsOf (app, method, sent) {
  const headers = { host: 'localhost', ...sent }
  const raw = { method, url: '/', headers, rawHeaders: Object.entries(headers).flat() }
  return () => ({ raw, server: app, method, headers, routeOptions: { handlerTimeout: 0 } })
}

answerWith(async (settings) => {
  const app = Fastify()
  let count = 0
  const guardOf = async (options, overrides) => {
    const instanceName = `instance${count++}`
    await app.register(tokenAuth, { ...keyOptions({ algorithm: 'HS256', keys: keysOf('HS256') }), authMode: false, instanceName, ...options })
    return app[instanceName].protect(overrides)
  }
  const reply = {}
  let passed = 0
  const done = () => { passed++ }
  const through = (guard, sent = inHeader, method = 'GET') => {
    const request = requestsOf(app, method, sent)
    return () => guard(request(), reply, done)
  }
  const waiting = (guard) => {
    const request = requestsOf(app, 'GET', inHeader)
    return () => new Promise((resolve) => { guard(request(), reply, resolve) })
  }
  const readingPayload = (guard, instance) => {
    const request = requestsOf(app, 'GET', inHeader)
    return () => {
      const sent = request()
      guard(sent, reply, done)
      instance.extractPayload(sent)
    }
  }
  const plain = await guardOf({})
  const optional = await guardOf({}, { optional: true })
  const cookies = await guardOf({ cookieSet: true })
  const operations = {
    protect: through(plain),
    'protect again': through(await guardOf({})),
    'protect, payload read': readingPayload(plain, app.instance0),
    'protect, an extra verification': through(await guardOf({ extraVerifications: [() => true] })),
    'protect, trusted': through(await guardOf({ trusted: () => true })),
    'protect, optional': through(optional),
    'protect, optional, without a token': through(optional, {}),
    'protect, cookie, GET': through(cookies, inCookie),
    'protect, cookie, POST': through(cookies, inCookie, 'POST'),
    'protect, waited for': waiting(plain),
    'protect, asynchronous trusted, waited for': waiting(await guardOf({ trusted: async () => true }))
  }
  for (const [name, operation] of Object.entries(operations)) {
    const before = passed
    if (await operation() === undefined && passed === before && !name.endsWith('waited for')) throw new Error(`A request did not pass: ${name}.`)
  }
  return [{ title: 'guarding', rows: await timesOf(operations, settings) }]
})
