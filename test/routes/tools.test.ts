// @slow
/** Tools that trace requests wrap hooks and handlers. What the plugin says of routes must be the same under each of them. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { mistyped } from '../helper.ts'

const program = fileURLToPath(new URL('../fixtures/tools/programs.js', import.meta.url))

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
  ...Object.fromEntries(['AWS', 'AZURE', 'AZUREFUNCTION', 'GCP', 'PCF', 'DOCKER', 'KUBERNETES'].map((name) => [`NEW_RELIC_UTILIZATION_DETECT_${name}`, 'false']))
}

/** What is said under a tool, in a process of its own. */
async function under (t: Test, tool: string, env: Record<string, string> = {}): Promise<Result> {
  const { PATH, HOME } = process.env
  const child = fork(program, { env: { PATH, HOME, ...quiet, TOOL: tool, ...env }, stdio: ['ignore', 'ignore', 'pipe', 'ipc'], execArgv: [] })
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

t.test('without a tool, each route is what it is: this is what the tools are compared with', async (t) => {
  const result = await plain
  t.same(result.wrapping, { hook: false, handler: false, context: false })
  t.equal(result.table, [
    'POST      /auth           public',
    'GET,HEAD  /auth/me        protected  tokenAuth in onRequest',
    'GET,HEAD  /auth/verify    other      says whether the token is valid',
    'GET,HEAD  /declared       other      basic auth',
    'GET,HEAD  /forgotten      undecided',
    'GET,HEAD  /free           protected  tokenAuth in preValidation',
    'GET,HEAD  /free-injected  optional   tokenAuth? in handler',
    'GET,HEAD  /in             protected  tokenAuth in preHandler',
    'GET,HEAD  /in-later       scoped     tokenAuth in onRequest b',
    'GET,HEAD  /injected       optional   tokenAuth? in handler',
    'GET,HEAD  /inside         protected  tokenAuth in preHandler',
    'GET,HEAD  /own            protected  tokenAuth in onRequest',
    'POST      /scoped         scoped     tokenAuth in preHandler a',
    ''
  ].join('\n'))
  t.same(result.guarded, 'started')
  t.same(result.moved, 'started')
  t.match(result.forgotten, /^TOKEN_AUTH_E20 .*\n {2}GET,HEAD \/forgotten \(fastify\)\n/)
  t.same(String(result.overwritten).match(/\S+ +undecided/g)?.length, 4)
  t.same(result.bypassed, ['reached', 'reached', 'reached', 'reached'])
  t.equal(result.sometimes, String(result.table).replace('GET,HEAD  /forgotten      undecided\n', ''))
  const guarded = { 'GET /own': 401, 'POST /scoped': 401, 'GET /free': 401, 'GET /in': 401, 'GET /in-later': 401, 'GET /inside': 401, 'GET /auth/me': 401, 'GET /injected': 200, 'GET /free-injected': 200 }
  t.match(result.neverWithout, Object.fromEntries(Object.entries(guarded).map(([route, without]) => [route, [without, 401]])))
  for (const name of ['misplaced', 'misplacedHook', 'uncalled']) t.match(result[name], /^TOKEN_AUTH_E22 /, name)
  t.match(result.warnings, [/Routes without a decision: 1\. GET,HEAD \/forgotten \(fastify\)\.$/])
  t.match(result.security, { '/auth/me': [[[{ tokenAuth: [] }], ['200', '401']]], '/in-later': [[[{ tokenAuth: ['b'] }], ['200', '401', '403']]] })
})

const all = { hook: true, handler: true, context: true }
const tools: ReadonlyArray<readonly [tool: string, wrapping: Result['wrapping'], env?: Record<string, string>]> = [
  ['dd-trace', { hook: false, handler: false, context: true }],
  ['newrelic', { hook: false, handler: true, context: true }],
  ['@sentry/node', all],
  ['@fastify/otel as a plugin', all],
  ['@fastify/otel as a plugin', all, { OTEL_PLACE: 'after' }],
  ['@fastify/otel at the initialization', all],
  ['@opentelemetry/instrumentation-fastify', { hook: false, handler: false, context: true }],
  ['elastic-apm-node', { hook: false, handler: false, context: false }]
]
for (const [tool, wrapping, env] of tools) {
  t.test(`${tool} changes nothing of what is said of routes: routes(), OpenAPI, requireGuards, W26 and E22 ${JSON.stringify(env ?? {})}`, async (t) => {
    const { wrapping: found, ...said } = await under(t, tool, env)
    t.same(found, wrapping, 'what the tool wraps')
    const { wrapping: _, ...expected } = await plain
    // The tools add hooks of their own.
    const withoutHint = (message: unknown) => String(message).replace(/ Some of them have hooks that the plugin does not recognize\. .* before you add guards\./, '')
    for (const [name, value] of Object.entries(expected)) t.same(name === 'forgotten' ? withoutHint(said[name]) : said[name], value, name)
  })
}
