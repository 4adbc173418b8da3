/** Tools that trace requests wrap hooks and handlers. What the plugin says of routes must be the same under each of them. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { mistyped } from '../helper.ts'

const fileOf = (name: string) => fileURLToPath(new URL(`./fixtures/tools/${name}`, import.meta.url))

interface Result {
  /** Whether the tool puts functions of its own in the place of those of the application. */
  readonly wrapping: { readonly hook: boolean, readonly handler: boolean, readonly context: boolean }
  readonly [name: string]: unknown
}

/** Nothing leaves the machine, and nothing asks the network who it is. */
const quiet = {
  DD_INSTRUMENTATION_TELEMETRY_ENABLED: 'false',
  DD_REMOTE_CONFIGURATION_ENABLED: 'false',
  DD_CRASHTRACKING_ENABLED: 'false',
  NEW_RELIC_NO_CONFIG_FILE: 'true',
  NEW_RELIC_APP_NAME: 'test',
  NEW_RELIC_LICENSE_KEY: '0'.repeat(40),
  NEW_RELIC_HOST: '127.0.0.1',
  NEW_RELIC_PORT: '1',
  NEW_RELIC_LOG_ENABLED: 'false',
  DD_TRACE_AGENT_URL: 'http://127.0.0.1:1',
  DD_TRACE_STARTUP_LOGS: 'false',
  ELASTIC_APM_CENTRAL_CONFIG: 'false',
  ELASTIC_APM_CLOUD_PROVIDER: 'none',
  ELASTIC_APM_DISABLE_SEND: 'true',
  ELASTIC_APM_LOG_LEVEL: 'off',
  ELASTIC_APM_METRICS_INTERVAL: '0s',
  ELASTIC_APM_SERVER_URL: 'http://127.0.0.1:1',
  ...Object.fromEntries(['AWS', 'AZURE', 'AZUREFUNCTION', 'GCP', 'PCF', 'DOCKER', 'KUBERNETES'].map((name) => [`NEW_RELIC_UTILIZATION_DETECT_${name}`, 'false']))
}

/** What is said under a tool, in a process of its own. */
async function under (t: Test, tool: string, env: Record<string, string> = {}, execArgv: readonly string[] = []): Promise<Result> {
  const { PATH, HOME } = process.env
  const child = fork(fileOf('programs.js'), { env: { PATH, HOME, ...quiet, TOOL: tool, ...env }, cwd: fileURLToPath(new URL('.', import.meta.url)), stdio: ['ignore', 'ignore', 'pipe', 'ipc'], execArgv: [...execArgv] })
  t.teardown(() => { child.kill() })
  let errors = ''
  child.stderr!.on('data', (chunk: Buffer) => { errors += String(chunk) })
  const result: unknown = await Promise.race([
    once(child, 'message').then(([message]) => message),
    once(child, 'exit').then(([code]) => { throw new Error(`The program ended with ${code}: ${errors}`) })
  ])
  return mistyped<Result>(result)
}

const plain = under(t, 'none')

// Promise: security/guard-counted-although
t.test('without a tool, each route is what it is: this is what the tools are compared with', async (t) => {
  const result = await plain
  t.same(result.wrapping, { hook: false, handler: false, context: false })
  t.equal(result.table, [
    'POST      /auth                   public',
    'POST      /auth/logout            other      requires a token of the session',
    'GET,HEAD  /auth/me                protected  tokenAuth in onRequest',
    'POST      /auth/refresh           other      requires a refresh token',
    'DELETE    /auth/sessions          protected  tokenAuth in onRequest',
    'GET,HEAD  /auth/sessions          protected  tokenAuth in onRequest',
    'DELETE    /auth/sessions/:id      protected  tokenAuth in onRequest',
    'POST      /auth/sessions/:id/end  protected  tokenAuth in onRequest',
    'GET,HEAD  /auth/verify            other      says whether the token is valid',
    'GET,HEAD  /declared               other      basic auth',
    'GET,HEAD  /forgotten              undecided',
    'GET,HEAD  /free                   protected  tokenAuth in preValidation',
    'GET,HEAD  /free-injected          optional   tokenAuth? in handler',
    'GET,HEAD  /in                     protected  tokenAuth in preHandler',
    'GET,HEAD  /in-later               scoped     tokenAuth in onRequest b',
    'GET,HEAD  /injected               optional   tokenAuth? in handler',
    'GET,HEAD  /inside                 protected  tokenAuth in preHandler',
    'GET,HEAD  /own                    protected  tokenAuth in onRequest',
    'POST      /scoped                 scoped     tokenAuth in preHandler a',
    ''
  ].join('\n'))
  t.same(result.guarded, 'started')
  t.same(result.moved, 'started')
  t.match(result.forgotten, /^TOKEN_AUTH_E20 .*\n {2}GET,HEAD \/forgotten \(fastify\)\n/)
  t.same(String(result.overwritten).match(/\S+ +undecided/g)?.length, 4)
  t.same(result.bypassed, ['reached', 'reached', 'reached', 'reached'])
  t.equal(result.sometimes, String(result.table).replace(/GET,HEAD {2}\/forgotten .*\n/, ''))
  const guarded = { 'GET /own': 401, 'POST /scoped': 401, 'GET /free': 401, 'GET /in': 401, 'GET /in-later': 401, 'GET /inside': 401, 'GET /auth/me': 401, 'DELETE /auth/sessions': 401, 'GET /injected': 200, 'GET /free-injected': 200 }
  t.match(result.neverWithout, Object.fromEntries(Object.entries(guarded).map(([route, without]) => [route, [without, 401]])))
  for (const name of ['misplaced', 'misplacedHook', 'uncalled']) t.match(result[name], /^TOKEN_AUTH_E22 /, name)
  t.match(result.warnings, [/Routes with neither a guard nor an exemption: 1\. GET,HEAD \/forgotten \(fastify\)\. See \S+#token_auth_w26$/])
  t.match(result.security, { '/auth/me': [[[{ tokenAuth: [] }], ['200', '401']]], '/in-later': [[[{ tokenAuth: ['b'] }], ['200', '401', '403']]] })
})

const all = { hook: true, handler: true, context: true }
const inContexts = { hook: false, handler: false, context: true }
const start = ['--import', fileOf('start.js')]

interface Installed {
  /** The tool that the application starts itself; none where options of Node.js do. */
  readonly tool: string
  readonly wrapping: Result['wrapping']
  readonly env?: Record<string, string>
  readonly execArgv?: readonly string[]
}

/** Each tool as its documents say, for applications of CommonJS modules and of ES modules. */
const installed: Readonly<Record<string, Installed>> = {
  'dd-trace': { tool: 'dd-trace', wrapping: inContexts },
  'dd-trace, ES modules': { tool: 'none', wrapping: inContexts, execArgv: ['--import', 'dd-trace/initialize.mjs'] },
  'New Relic': { tool: 'newrelic', wrapping: { ...inContexts, handler: true } },
  'New Relic, ES modules': { tool: 'none', wrapping: { ...inContexts, handler: true }, execArgv: ['--import', 'newrelic/esm-loader.mjs', '--require', 'newrelic'] },
  Sentry: { tool: '@sentry/node', wrapping: all },
  'Sentry, ES modules': { tool: '@sentry/node', wrapping: all, execArgv: start },
  '@fastify/otel as a plugin': { tool: '@fastify/otel as a plugin', wrapping: all },
  '@fastify/otel as a plugin, after this one': { tool: '@fastify/otel as a plugin', wrapping: all, env: { OTEL_PLACE: 'after' } },
  '@fastify/otel at the initialization': { tool: '@fastify/otel at the initialization', wrapping: all },
  '@fastify/otel at the initialization, ES modules': { tool: '@fastify/otel at the initialization', wrapping: all, execArgv: start },
  '@opentelemetry/instrumentation-fastify': { tool: '@opentelemetry/instrumentation-fastify', wrapping: inContexts },
  '@opentelemetry/instrumentation-fastify, ES modules': { tool: '@opentelemetry/instrumentation-fastify', wrapping: inContexts, execArgv: start },
  "Elastic's agent": { tool: 'elastic-apm-node', wrapping: { hook: false, handler: false, context: false } },
  "Elastic's agent, ES modules": { tool: 'none', wrapping: { hook: false, handler: false, context: false }, execArgv: ['--experimental-loader=elastic-apm-node/loader.mjs', '--require', 'elastic-apm-node/start.js'] }
}
for (const [name, { tool, wrapping, env, execArgv = [] }] of Object.entries(installed)) {
  t.test(`under ${name}, what is said of routes is what is said without: routes(), OpenAPI, requireGuards, W26 and E22`, async (t) => {
    const { wrapping: found, ...said } = await under(t, tool, { ...execArgv.length > 0 && { MODULES: 'esm' }, ...env }, execArgv)
    t.same(found, wrapping, 'what the tool wraps')
    const { wrapping: _, ...expected } = await plain
    // The tools add hooks of their own.
    const withoutHint = (message: unknown) => String(message).replace(/ Some of them have hooks that the plugin does not recognize\. .* before you add guards\./, '')
    for (const [name, value] of Object.entries(expected)) t.same(name === 'forgotten' ? withoutHint(said[name]) : said[name], value, name)
  })
}
