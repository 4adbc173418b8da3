/**
 * Refusals and logins in OpenTelemetry: the span of a request says why the request was refused, and a counter counts what
 * was refused and issued. The spans are printed; a real service sends them to a collector.
 *
 *   node examples/opentelemetry.js
 */
import { randomBytes } from 'node:crypto'
import { subscribe } from 'node:diagnostics_channel'
import FastifyOtel from '@fastify/otel'
import { metrics, trace } from '@opentelemetry/api'
import { NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node'
import Fastify from 'fastify'
import tokenAuth from 'fastify-token-auth'
import { loginLine, passwordLogin, start, tokenLine } from './shared.js'

const users = [{ user_id: 1, name: 'ada', password: 'lovelace', scopes: ['reports:read'] }]

/** Prints spans in one line. */
const exporter = {
  export (spans, done) {
    for (const { name, attributes } of spans) console.log(`${name} ${JSON.stringify(attributes)}`)
    done({ code: 0 })
  },
  async shutdown () {}
}

// Without a meter provider, counters count nothing. A real service registers one.
const meter = metrics.getMeter('fastify-token-auth')
const [refused, issued] = [meter.createCounter('token_auth.refused'), meter.createCounter('token_auth.issued')]

// The span of the request is active while subscribers run. No event contains a token.
subscribe('fastify-token-auth:refused', ({ instanceName, error, reason }) => {
  trace.getActiveSpan()?.setAttributes({ 'error.type': error.code, ...(reason !== undefined && { 'token_auth.reason': reason }) })
  refused.add(1, { 'token_auth.instance': instanceName, 'error.type': error.code })
})
subscribe('fastify-token-auth:issued', ({ instanceName, grant }) => {
  trace.getActiveSpan()?.setAttribute('token_auth.grant', grant)
  issued.add(1, { 'token_auth.instance': instanceName, 'token_auth.grant': grant })
})

export async function createService ({ fastify, spanExporter = exporter } = {}) {
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spanExporter)] })
  provider.register()
  const app = Fastify(fastify)
  // One span for each request. By default, each hook and handler has one, too.
  const otel = new FastifyOtel({ instrumentHooks: false, instrumentHandler: false })
  otel.setTracerProvider(provider)
  await app.register(otel.plugin())
  await app.register(tokenAuth, {
    secret: randomBytes(32),
    requireGuards: true,
    scopesEnabled: true,
    authenticate: passwordLogin(users),
    addScopesToPayload: ({ scopes }) => scopes
  })
  app.get('/reports', { onRequest: app.tokenAuth.scoped('reports:read') }, async () => ['January', 'February'])
  app.delete('/reports', { onRequest: app.tokenAuth.scoped('reports:write') }, async () => [])
  return app
}

await start(import.meta.filename, createService, (address) => `${loginLine(`${address}/auth`, { username: 'ada', password: 'lovelace' })}
${tokenLine(`${address}/reports`)}
# The spans of these requests have an error.type:
curl -i ${address}/reports
${tokenLine(`${address}/reports`, ' -X DELETE')}`)
