// @alone @slow
/** The command line: each command as a process, and in this process, where it is measured. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHash, createPrivateKey, createPublicKey, createSecretKey, generateKeyPairSync } from 'node:crypto'
import { cpSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { main, type Input } from '../lib/cli.ts'
import type { Outcome } from '../lib/cli/outcome.ts'
import { defaultKid } from '../lib/keys/key-id.ts'
import { algorithms, bearer, build, caseOf, forge, headerOf, login, mistyped, secret, setClock, together, valid, warnings } from './helper.ts'

const bin = fileURLToPath(new URL('../bin/fastify-token-auth.js', import.meta.url))
const { NODE_OPTIONS, ...environment } = process.env

/** Runs the command as a user does, with the built package and without the hooks of the test runner. */
async function processOf (args: readonly string[], input = ''): Promise<Outcome> {
  const running = promisify(execFile)(process.execPath, [bin, ...args], { env: environment })
  running.child.stdin?.end(input)
  const { stdout, stderr, code = 0 }: { stdout: string, stderr: string, code?: Outcome['code'] } = await running.catch((error) => error)
  return { code, stdout, stderr }
}

const inputOf = (text: string): Input => Readable.from([text])
const run = async (...args: string[]): Promise<Outcome> => await main(args, inputOf(''), '1.2.3')

t.test('what is wrong with the arguments is one line on the standard error, with what was meant and where to read on, and the exit code is 2', async (t) => {
  const wrong: [args: string[], message: string, command?: string][] = [
    [['key'], 'There is no command "key". Did you mean "keys"?'], [['Doctor'], 'There is no command "Doctor". Did you mean "doctor"?'], [['toString'], 'There is no command "toString".'], [['--jwk'], 'There is no command "--jwk".'],
    [['inspect', '--jwk'], 'inspect has no options.', 'inspect'], [['keys', '--check'], 'keys has only the options --jwk and --output <file>.', 'keys'], [['routes', 'x', '--jwk'], 'routes has only the option --check.', 'routes'],
    [['keys', '--output'], 'keys has only the options --jwk and --output <file>.', 'keys'], [['keys', 'HS256', 'HS384'], 'keys has one argument only.', 'keys'], [['routes'], 'routes needs the path of a module.', 'routes'],
    [['keys', 'HS255'], 'There is no algorithm "HS255". Did you mean "HS256"?', 'keys'], [['keys', 'toString'], 'There is no algorithm "toString".', 'keys'],
    [['doctor'], 'doctor needs the path of a module.', 'doctor'], [['doctor', 'x', '--check'], 'doctor has only the option --json.', 'doctor']
  ]
  for (const [args, message, command = ''] of wrong) {
    assert.deepEqual(await run(...args), { code: 2, stdout: '', stderr: `${message} See: fastify-token-auth ${command === '' ? '' : `${command} `}--help\n` }, caseOf(args))
  }
  t.match(await processOf(['keyz']), { code: 2, stdout: '', stderr: /^There is no command "keyz"\. Did you mean "keys"\? See: fastify-token-auth --help\n$/ })
  t.match(await run(), { code: 2, stdout: '', stderr: /^Usage: fastify-token-auth <command>\n/ })
})

t.test('--help names the commands, and after a command its arguments and options alone', async (t) => {
  const names = ['inspect', 'keys', 'routes', 'doctor']
  const parts: Record<string, readonly string[]> = { inspect: ['[token]'], keys: ['--jwk', '--output <file>', ...algorithms], routes: ['<module>', '--check'], doctor: ['<module>', '--json'] }
  for (const args of [['--help'], ['-h'], ['unknown', '--help'], ['toString', '-h']]) {
    const { code, stdout, stderr } = await run(...args)
    assert.deepEqual([code, stderr], [0, ''], caseOf(args))
    for (const name of [...names, '--version']) t.match(stdout, name)
    assert.ok(stdout.split('\n').every((line) => line.length <= 80), caseOf(args))
  }
  for (const name of names) {
    const { code, stdout, stderr } = await run(name, '--help')
    assert.deepEqual([code, stderr], [0, ''], name)
    assert.deepEqual(await run(name, '-h', 'x'), { code, stdout, stderr })
    assert.ok(stdout.startsWith(`Usage: fastify-token-auth ${name} `), stdout)
    for (const [other, texts] of Object.entries(parts)) {
      const found = texts.filter((text) => stdout.includes(text))
      if (other === name) assert.deepEqual(found, texts, name)
      else assert.ok(texts.filter((text) => text.startsWith('--')).every((text) => !stdout.includes(text)), `${name} ${other}`)
    }
    assert.ok(stdout.split('\n').every((line) => line.length <= 80), name)
  }
  t.match(await processOf(['doctor', '--help']), { code: 0, stdout: /^Usage: fastify-token-auth doctor <module>/, stderr: '' })
})

t.test('--version prints the version of the package', async (t) => {
  for (const option of ['--version', '-v']) t.same(await run(option), { code: 0, stdout: '1.2.3\n', stderr: '' })
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  t.same(await processOf(['--version']), { code: 0, stdout: `${version}\n`, stderr: '' })
})

t.test('a module in TypeScript that Node.js does not load is told from other faults, with what to do', async (t) => {
  const path = ofModules(t, { 'page.tsx': 'export default async () => {}', 'imports.js': "import './page.tsx'\nexport default async () => {}", 'text.txt': '', 'typed.ts': 'export default async (app: object) => {}' })
  const advice = /^The application did not start\. Node\.js \d+\.\d+\.\d+ does not load this TypeScript\. Compile it first, or run the command with a loader: npx tsx node_modules\/fastify-token-auth\/bin\/fastify-token-auth\.js\. From 22\.18 on, Node\.js loads files with the ending \.ts itself\.\n$/
  for (const name of ['page.tsx', 'imports.js']) t.match(await processOf(['routes', path(name)]), { code: 1, stdout: '', stderr: advice }, name)
  t.match(await run('routes', path('page.tsx')), { code: 1, stderr: advice })
  for (const outcome of [await run('routes', path('text.txt')), await processOf(['routes', path('text.txt')])]) t.match(outcome, { code: 1, stderr: /Unknown file extension ".txt"/ })
  const { typescript } = process.features as { typescript?: unknown }
  t.match((await processOf(['routes', path('typed.ts')])).stderr, typescript ? /^The application does not use this installation/ : advice)
})

t.test('inspect prints header, payload and times in words, and says that it did not look at the signature', async (t) => {
  setClock(t, 1_800_000_000)
  const token = forge({ user_id: 1, auth_time: 1_700_000_000, iat: 1_799_999_999.5, nbf: 1_800_000_000, exp: 1_800_001_500 })
  const expected = `Header
{
  "alg": "HS256",
  "typ": "JWT"
}

Payload
{
  "user_id": 1,
  "auth_time": 1700000000,
  "iat": 1799999999.5,
  "nbf": 1800000000,
  "exp": 1800001500
}

Times
auth_time  2023-11-14T22:13:20Z, 3 years ago
iat        2027-01-15T07:59:59.500Z, now
nbf        2027-01-15T08:00:00Z, now
exp        2027-01-15T08:25:00Z, in 25 minutes

The signature was not verified.
`
  const { code, stdout, stderr } = await run('inspect', token)
  t.strictSame([code, stdout, stderr], [0, expected, ''])
  t.equal((await run('inspect', `Bearer ${token}\n`)).stdout, stdout, 'as it was copied from a header')
  t.equal((await main(['inspect'], inputOf(`\n${token}\nmore`), '1.2.3')).stdout, stdout, 'the first line of the standard input')
  t.notMatch((await run('inspect', forge({ sub: 'x' }))).stdout, 'Times')
})

// Promise: security/tokens-secrets-shell
t.test('inspect reads the token from the standard input of its process, and asks for it on a terminal', async (t) => {
  const token = forge({ sub: 'x' })
  t.match(await processOf(['inspect'], `${token}\n`), { code: 0, stdout: /"sub": "x"[\s\S]*The signature was not verified\.\n$/, stderr: '' })
  const written: unknown[] = []
  const { write } = process.stderr
  process.stderr.write = (text: unknown) => { written.push(text); return true }
  t.teardown(() => { process.stderr.write = write })
  const { code } = await main(['inspect'], Object.assign(Readable.from([Buffer.from(token)]), { isTTY: true }), '1.2.3')
  process.stderr.write = write
  t.strictSame([code, written], [0, ['Token: ']])
})

t.test('inspect answers to whatever is no token with one line, without a part of it, and exit code 1', async (t) => {
  const garbage = ['', 'garbage', 'a.b.c', `${forge({}).split('.')[0]}.garbage.x`, forge([1]), forge('text'), forge(null), 'a.b.c.d.e', '\0'.repeat(100), '.'.repeat(10_000), '%'.repeat(100)]
  for (const text of garbage) {
    const { code, stdout, stderr } = await run('inspect', text)
    assert.deepEqual([code, stdout], [1, ''], text)
    assert.match(stderr, /^This is no (?:signed )?JSON Web Token: it(?:s header is no JSON object in base64url| has \d+ instead of 3 parts with dots between them|s payload is no JSON object in base64url)\.\n$/, text)
  }
  t.match(await processOf(['inspect', 'secret.secret.secret']), { code: 1, stdout: '', stderr: /^This is no JSON Web Token: its header [^\n]*\n$/ })
})

// Promise: security/tokens-secrets-shell
t.test('inspect prints times that are none as such, and nothing that a terminal would obey', async (t) => {
  const { stdout } = await run('inspect', forge({ exp: '1', iat: 1e300, nbf: null, name: '\u001b[2J\u009b2J\u202etxt\u007f' }))
  t.equal(stdout.match(/no time: it must be a number/g)?.length, 3)
  t.notMatch(stdout, /(?!\n)[\p{Cc}\p{Cf}]/u)
})

// Promise: security/tokens-secrets-shell
t.test('inspect escapes all control and format characters of Unicode, in names and values', async (t) => {
  const points = [0x07, 0x1b, 0x7f, 0x9b, 0xad, 0x61c, 0x180e, 0x200b, 0x200f, 0x2028, 0x2029, 0x202e, 0x2060, 0x2064, 0x2066, 0x206a, 0x206f, 0xfeff, 0xfff9, 0xfffb, 0xe0041]
  const { stdout } = await run('inspect', forge({ [String.fromCodePoint(...points)]: String.fromCodePoint(...points) }))
  t.notMatch(stdout, /(?!\n)[\p{Cc}\p{Cf}\u2028\u2029]/u)
  t.equal(stdout.match(/\\u00ad\\u061c\\u180e\\u200b/g)?.length, 2)
  t.equal(stdout.match(/\\ufffb\\udb40\\udc41/g)?.length, 2, 'characters beyond 16 bits, too')
})

t.test('inspect prints 100 levels, and answers to more of them with one line and exit code 1', async (t) => {
  const segment = (levels: number) => Buffer.from('{"a":'.repeat(levels) + '1' + '}'.repeat(levels)).toString('base64url')
  t.match(await run('inspect', `${segment(100)}.${segment(100)}.x`), { code: 0, stderr: '' })
  t.strictSame(await run('inspect', `${segment(1)}.${segment(101)}.x`), { code: 1, stdout: '', stderr: 'This token cannot be printed: its payload has more than 100 levels.\n' })
  t.strictSame(await run('inspect', `${segment(101)}.${segment(1)}.x`), { code: 1, stdout: '', stderr: 'This token cannot be printed: its header has more than 100 levels.\n' })
  t.match(await processOf(['inspect'], `${segment(1)}.${segment(200_000)}.x\n`), { code: 1, stdout: '', stderr: /^[^\n]* more than 100 levels\.\n$/ })
})

t.test('a secret of keys is as long as the hash, and an application takes it from its environment', async (t) => {
  for (const [algorithm, bytes] of [['HS256', 32], ['HS384', 48], ['HS512', 64]] as const) {
    const { code, stdout, stderr } = await run('keys', algorithm)
    assert.deepEqual([code, stderr], [0, ''], algorithm)
    const [, value = ''] = /^SERVICE_JWT_SECRET=([\w-]+)\n$/.exec(stdout) ?? []
    assert.equal(Buffer.from(value, 'base64url').length, bytes, algorithm)
    const app = await build(t, { algorithm, secret: value })
    assert.equal((await login(app)).statusCode, 200, algorithm)
  }
  const [one, other] = [await run('keys'), await run('keys')]
  t.match(one.stdout, /^SERVICE_JWT_SECRET=[\w-]{43}\n$/, 'HS256 is the default')
  t.not(one.stdout, other.stdout)
})

t.test('keys are accepted by the plugin for each algorithm, as text and as JWK, with the id that the plugin gives them', async (t) => {
  for (const algorithm of algorithms) {
    const { code, stdout, stderr } = await run('keys', algorithm, '--jwk')
    assert.deepEqual([code, stderr], [0, ''], algorithm)
    const jwks = JSON.parse(stdout)
    const isHmac = algorithm.startsWith('HS')
    const { kid, alg } = isHmac ? jwks : jwks.privateKey
    assert.equal(alg, algorithm, algorithm)
    assert.equal(kid, defaultKid(isHmac ? createSecretKey(Buffer.from(jwks.k, 'base64url')) : createPublicKey({ key: jwks.publicKey, format: 'jwk' })), algorithm)
    const key = isHmac ? { secret: jwks } : jwks
    const app = await build(t, together({ secret: undefined, algorithm }, key))
    assert.equal((await app.inject({ url: '/auth/me', headers: bearer((await login(app)).json().access_token) })).statusCode, 200, 'a token that it issued is accepted')
    if (isHmac) continue
    assert.ok(!('d' in jwks.publicKey), algorithm)
    const pems = await run('keys', algorithm)
    const [privateKey = '', publicKey = ''] = pems.stdout.split(/(?<=-----END PRIVATE KEY-----\n)/)
    await build(t, mistyped({ secret: undefined, algorithm, privateKey, publicKey }))
    assert.equal(pems.stderr, `The id of the key (kid) is ${defaultKid(createPrivateKey(privateKey))}\n`, algorithm)
    const rotating = await build(t, mistyped({ secret: undefined, keys: [{ algorithm, key: jwks.privateKey }] }))
    assert.equal(headerOf((await login(rotating)).json().access_token).kid, kid, algorithm)
  }
})

// Promise: security/tokens-secrets-shell
t.test('secret keys are on the standard output of the process, and nothing else is', async (t) => {
  const { code, stdout, stderr } = await processOf(['keys', 'ES256'])
  t.equal(code, 0)
  t.match(stdout, /^-----BEGIN PRIVATE KEY-----\n[\w+/=\n]+-----END PRIVATE KEY-----\n-----BEGIN PUBLIC KEY-----\n[\w+/=\n]+-----END PUBLIC KEY-----\n$/)
  t.match(stderr, /^The id of the key \(kid\) is [\w-]{43}\n$/)
  t.match(await processOf(['keys']), { code: 0, stdout: /^SERVICE_JWT_SECRET=[\w-]{43}\n$/, stderr: '' })

  t.test('keys --output writes a new file that nobody else can read, and changes none that exists', async (t) => {
    const folder = t.testdir({ existing: 'NAME=value\n' })
    const [fresh, jwk, pem] = [join(folder, '.env'), join(folder, 'private.json'), join(folder, 'private.pem')]
    t.same(await run('keys', '--output', fresh), { code: 0, stdout: '', stderr: `Written to ${fresh}.\n` })
    t.match(readFileSync(fresh, 'utf8'), /^SERVICE_JWT_SECRET=[\w-]{43}\n$/)
    if (process.platform !== 'win32') t.equal(statSync(fresh).mode & 0o777, 0o600)
    const publicJwk = await run('keys', 'ES256', '--jwk', '--output', jwk)
    t.match(JSON.parse(readFileSync(jwk, 'utf8')), { alg: 'ES256', d: /./, kid: JSON.parse(publicJwk.stdout).kid })
    t.notOk('d' in JSON.parse(publicJwk.stdout))
    const publicPem = await run('keys', 'EdDSA', '--output', pem)
    t.match(publicPem, { code: 0, stdout: /^-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----\n$/, stderr: /^The id of the key \(kid\) is [\w-]{43}\nThe private key was written to / })
    for (const file of [jwk, pem]) if (process.platform !== 'win32') t.equal(statSync(file).mode & 0o777, 0o600)

    for (const key of [{ publicKey: publicPem.stdout, privateKey: { path: pem } }, { keys: [{ key: { path: pem } }] }]) {
      const app = await build(t, together({ secret: undefined, algorithm: 'EdDSA' }, key))
      t.equal((await app.inject({ url: '/auth/verify', headers: bearer((await login(app)).json().access_token) })).statusCode, 200, 'what was written is used as it is')
    }
    for (const existing of [fresh, join(folder, 'existing')]) {
      const before = readFileSync(existing, 'utf8')
      t.same(await run('keys', '--output', existing), { code: 1, stdout: '', stderr: `The file "${existing}" exists, and was not changed. Give another name, or leave out --output to print the keys.\n` })
      t.equal(readFileSync(existing, 'utf8'), before)
    }
    t.match(await run('keys', '--output', join(folder, 'missing/.env')), { code: 1, stdout: '', stderr: /cannot be written \(ENOENT\)\. / })
  })
})

/** The modules of applications. `FROM` is where they import the package from. */
const body = `
  app.get('/before', async () => 'ok')
  await app.register(tokenAuth, { secret: '${secret}', authMode: false, ...OPTIONS })
  app.get('/reports', { onRequest: app.tokenAuth.scoped('reports:read') }, async () => 'ok')
`
const esm = "import Fastify from 'fastify'\nimport tokenAuth from 'FROM'\n"
const cjs = "const Fastify = require('fastify')\nconst tokenAuth = require('FROM')\n"
const modules = {
  'instance.js': `${esm}const app = Fastify()\n${body}\nexport default app`,
  'async-function.mjs': `${esm}export default async () => {\n  const app = Fastify()\n${body}\n  return app\n}`,
  'function.js': `${esm}export default () => {\n  const app = Fastify()\n  app.register(async (app) => {${body}})\n  return app\n}`,
  'plugin.js': `${esm}export default async function (app, options) {\n${body}}`,
  'fp-plugin.js': `${esm}const plugin = async (app, options) => {\n${body}}\nplugin[Symbol.for('skip-override')] = true\nexport default plugin`,
  'plugin.cjs': `${cjs}module.exports = async function (app, options) {\n${body}}`,
  'transpiled.cjs': `${cjs}Object.defineProperty(exports, '__esModule', { value: true })\nexports.default = async (app, options) => {\n${body}}`
}
const table = 'GET,HEAD  /before   undecided\nGET,HEAD  /reports  scoped     tokenAuth in onRequest reports:read\n'

const texts = (from: string, options = '{}', given: Readonly<Record<string, string>> = modules) =>
  Object.fromEntries(Object.entries(given).map(([name, text]) => [name, text.replaceAll('FROM', from).replaceAll('OPTIONS', options)]))

const source = new URL('../lib/index.ts', import.meta.url).href
const asSource = (given: Readonly<Record<string, string>>, options?: string) => texts(source, options, given)
const ofModules = (t: Test, given: Readonly<Record<string, string>>) => {
  const folder = t.testdir({ 'with space, # and %41': given })
  return (name: string) => join(folder, 'with space, # and %41', name)
}

t.test('routes prints the table of an application, whatever a module exports, with the routes before the plugin', async (t) => {
  const inEsm = Object.fromEntries(Object.entries(modules).filter(([name]) => !name.endsWith('.cjs')))
  const path = ofModules(t, asSource(inEsm))
  for (const name of Object.keys(inEsm)) assert.deepEqual(await run('routes', path(name)), { code: 0, stdout: table, stderr: '' }, name)
})

t.test('routes loads ES modules and CommonJS in its process', async (t) => {
  const path = ofModules(t, texts('fastify-token-auth'))
  for (const name of ['instance.js', 'plugin.cjs', 'transpiled.cjs']) assert.deepEqual(await processOf(['routes', path(name)]), { code: 0, stdout: table, stderr: '' }, name)
})

t.test('routes --check exits with 1 for a route that has neither guard nor exemption, and names it', async (t) => {
  const path = ofModules(t, asSource({
    'open.js': `${modules['instance.js']}\napp.options('*', async () => 'ok')`,
    'decided.js': modules['instance.js'].replace("'/before', ", "'/before', { config: { tokenAuth: false } }, ").replace('export', "app.options('*', async () => 'ok')\nexport")
  }))
  t.match(await run('routes', path('open.js'), '--check'), {
    code: 1, stdout: /\/before +undecided/, stderr: 'These routes have neither a guard nor an exemption: GET,HEAD /before. Add guards, or state in "config.tokenAuth" why they need none.\n'
  })
  t.match(await run('routes', '--check', path('decided.js')), { code: 0, stdout: /OPTIONS +\* +undecided/, stderr: '' })
  const built = ofModules(t, texts('fastify-token-auth'))
  t.match(await processOf(['routes', '--check', built('plugin.js')]), { code: 1, stdout: table, stderr: /^These routes have neither a guard nor an exemption/ })
})

t.test('OPTIONS routes before the plugin, as those of @fastify/cors, need no decision', async (t) => {
  const path = ofModules(t, asSource({
    'preflight.js': modules['instance.js'].replace(/.*before.*\n/, '').replace('const app = Fastify()\n', "const app = Fastify()\napp.options('*', async () => 'ok')\n")
  }, '{ requireGuards: true }'))
  t.match(await run('routes', '--check', path('preflight.js')), { code: 0, stdout: /OPTIONS +\* +undecided/, stderr: '' })
})

t.test('routes --check exits with 0 for the web example, and with 1 after any guard was removed', async (t) => {
  // Inside this package, so that the copy finds it.
  const folder = t.testdir({})
  cpSync(fileURLToPath(new URL('../examples', import.meta.url)), folder, { recursive: true })
  const web = join(folder, 'web/server.js')
  t.match(await processOf(['routes', web, '--check']), { code: 0, stdout: /^GET,HEAD {2}\/reports\.html +scoped +tokenAuth in onRequest reports:read$/m })
  let count = 0
  for (const name of ['api.js', 'pages.js']) {
    const path = join(folder, 'web', name)
    const source = readFileSync(path, 'utf8')
    for (const { 0: text, index: at } of source.matchAll(/onRequest: \w+Auth\.\w+\([^)]*\)|tokenAuth\.injectUser/g)) {
      const unguarded = text.endsWith('injectUser') ? '((handler) => (request, reply) => handler(request, reply, null))' : 'onRequest: []'
      writeFileSync(path, source.slice(0, at) + unguarded + source.slice(at + text.length))
      t.match(await processOf(['routes', web, '--check']), { code: 1, stdout: '', stderr: /these routes have no guard/ }, text)
      count++
    }
    writeFileSync(path, source)
  }
  t.equal(count, 12)
})

t.test('routes fails for an application that would not start, with its message', async (t) => {
  const late = 'await app.register(async () => { throw new Error("no database") })'
  const path = ofModules(t, {
    ...asSource({ 'before.js': modules['instance.js'].replace("'/before', ", "'/before', { config: { tokenAuth: false } }, ") }, '{ requireGuards: true }'),
    ...asSource({ 'after.js': modules['plugin.js'].replace(/.*before.*\n/, '').replace(/}$/, "app.get('/after', async () => 'ok') }") }, '{ requireGuards: true }'),
    ...asSource({ 'late.js': modules['plugin.js'].replace(/}$/, `${late}}`) }),
    'text.js': 'throw "text"'
  })
  const expected: [name: string, RegExp][] = [
    ['before.js', /^The application did not start\. "requireGuards" is true, and these routes were added before the plugin[^\n]*\nGET \/before\nHEAD \/before\n/],
    ['after.js', /^The application did not start\. "requireGuards" is true, and these routes have no guard[^\n]*\n {2}GET,HEAD \/after /],
    ['late.js', /^The application did not start\. no database\n$/],
    ['text.js', /^The application did not start\. text\n$/],
    ['missing.js', /^The application did not start\. Cannot find module [^\n]*\n$/]
  ]
  for (const [name, stderr] of expected) t.match(await run('routes', path(name)), { code: 1, stdout: '', stderr }, name)
})

t.test('routes fails for a module that is no application, and for an application without this plugin', async (t) => {
  const given = {
    'nothing.js': ['export const a = 1', 'undefined'],
    'object.js': ['export default {}', 'an object'],
    'null.cjs': ['module.exports = null', 'null'],
    'function.js': ['export default () => 1', 'a function that returns something else'],
    'transpiled.cjs': ["Object.defineProperty(exports, '__esModule', { value: true })\nexports.default = 'text'", 'a string']
  }
  const path = ofModules(t, { ...Object.fromEntries(Object.entries(given).map(([name, [text = '']]) => [name, text])), 'other.js': "import Fastify from 'fastify'\nexport default Fastify().get('/', async () => 'ok')" })
  for (const [name, [, found]] of Object.entries(given)) {
    assert.deepEqual(await run('routes', path(name)), {
      code: 1, stdout: '', stderr: `The application did not start. The default export of the module must be a plugin, a function without parameters that returns an application, or an application; given: ${found}.\n`
    }, name)
  }
  t.match(await run('routes', path('other.js')), { code: 1, stdout: '', stderr: /^The application does not use this installation[^\n]* in the folder of the application\.\n$/ })
  t.match(await processOf(['routes', path('object.js')]), { code: 1, stdout: '', stderr: /^The application did not start\. The default export/ })
})

t.test('routes says that a function with parameters is taken for a plugin where its application is not seen', async (t) => {
  const built = `${esm}export default async function build (options) {\n  const app = Fastify()\n${body}\n  return app\n}`
  const path = ofModules(t, asSource({ 'parameter.js': built, 'default.js': built.replace('(options)', '(options = {})') }))
  t.strictSame(await run('routes', path('parameter.js')), {
    code: 1,
    stdout: '',
    stderr: 'The application does not use this installation of fastify-token-auth. Register the plugin, and run the command in the folder of the application. The exported function has parameters, so it is taken for a plugin. If it returns an application, give each parameter a default value.\n'
  })
  t.strictSame(await run('routes', path('default.js')), { code: 0, stdout: table, stderr: '' })
})

t.test('a command that an application keeps from finishing exits with 1, whatever exit code the application gives', async (t) => {
  const path = ofModules(t, texts('fastify-token-auth', '{}', {
    'exits.js': 'process.exit(0)',
    'later.js': `${modules['instance.js']}\napp.addHook('onReady', async () => process.exit(0))`,
    'waits.js': 'await new Promise(() => {})'
  }))
  for (const name of ['exits.js', 'later.js', 'waits.js']) {
    t.match(await processOf(['routes', '--check', path(name)]), { code: 1, stdout: '', stderr: /The command did not finish, because the process ended\.\n/ }, name)
  }
})

t.test('what an application prints and the warnings of its registration are on the standard error, and its timers do not keep the process', async (t) => {
  const noisy = `${modules['instance.js']}\nconsole.log('noise of the application')\napp.log.info('a line of its log')\nsetInterval(() => {}, 1000)`.replace('Fastify()', 'Fastify({ logger: true })')
  const path = ofModules(t, texts('fastify-token-auth', '{ leeway: 9999 }', { 'noisy.js': noisy }))
  const { code, stdout, stderr } = await processOf(['routes', path('noisy.js')])
  t.strictSame([code, stdout], [0, table])
  for (const text of ['noise of the application', 'a line of its log', 'TOKEN_AUTH_W06']) t.match(stderr, text)
})

let applications = 0

/** Runs `doctor` on an application with these options and routes. */
async function doctorOf (t: Test, options: string, routes = '', environment?: string): Promise<Outcome> {
  const app = `${esm}const app = Fastify({ pluginTimeout: 2000 })\nawait app.register(tokenAuth, { authenticate: () => ({ user_id: 1 }), retrieveUser: () => ({ user_id: 1 }), ...OPTIONS })\n${routes}\nexport default app`
  // Modules are loaded once.
  const name = `app-${++applications}.js`
  const path = ofModules(t, asSource({ [name]: app }, options))(name)
  const before = process.env.NODE_ENV
  if (environment !== undefined) process.env.NODE_ENV = environment
  try {
    return await run('doctor', path)
  } finally {
    if (before === undefined) delete process.env.NODE_ENV
    else process.env.NODE_ENV = before
  }
}
const production = 'production'
// Applications of other tests, which may be open still, have the other secret.
const ofSecret = `secret: '${createHash('sha256').update('doctor').digest('hex')}'`

t.test('doctor says what keys, lifetimes, cookies and stores an application has, and exits with 0 where nothing is to be mended', async (t) => {
  t.strictSame(await doctorOf(t, `{ ${ofSecret}, sessions: {}, cookieSet: true, cookieMaxAge: 2592000 }`, "app.get('/open', { config: { tokenAuth: false } }, async () => 'ok')"), {
    code: 0,
    stdout: `note     tokenAuth: Uses HS256 with a secret. To change it without logging users out, use the option "keys". (keys)
note     tokenAuth: Access tokens are accepted for 1980 seconds ("expirationDelta" and "leeway"). (lifetimes)
note     tokenAuth: Cookies have Secure, HttpOnly, SameSite=lax, Max-Age=2592000. (cookies)
note     tokenAuth: Sessions are kept in the memory of this process, and end with it. (store)
note     NODE_ENV is not production. Set it to see the findings of production. (environment)
`,
    stderr: ''
  })
  t.match(await doctorOf(t, `{ ${ofSecret} }`, '', production), { code: 0, stdout: /ends access tokens\. \(store\)\nnote {5}NODE_ENV is production\. \(environment\)\n$/ })
  t.match(await doctorOf(t, `{ ${ofSecret}, authMode: false }`), { code: 0, stdout: /^note {5}tokenAuth: Uses HS256[^\n]*\nnote {5}NODE_ENV is not/ }, 'what a verifying service cannot change is not said')
})

t.test('doctor names the key material by its ids and states, and each trusted issuer with what became of its keys', async (t) => {
  const jwk = (namedCurve: string, alg: string) => JSON.stringify({ ...generateKeyPairSync('ec', { namedCurve }).publicKey.export({ format: 'jwk' }), kid: 'k1', alg })
  const issuer = (name: string, jwks: string) => `{ issuer: 'https://${name}.example', audience: 'api', algorithms: ['ES256'], jwks: ${jwks} }`
  const issuers = `issuers: [${issuer('one', `{ keys: [${jwk('P-256', 'ES256')}] }`)}, ${issuer('two', 'async () => { throw new Error("down") }')}, ${issuer('three', `async () => ({ keys: [${jwk('P-384', 'ES384')}] })`)}]`
  const { code, stdout } = await doctorOf(t, `{ authMode: false, ${issuers} }`)
  t.equal(code, 2)
  t.strictSame(stdout.split('\n').filter((line) => line.includes('(issuers)')), [
    'error    tokenAuth: The keys of the issuer https://two.example could not be read. Check its address and the network. (issuers)',
    'error    tokenAuth: The issuer https://three.example has no key for its "algorithms". (issuers)',
    'note     tokenAuth: The keys of the issuer https://one.example were read: 1. (issuers)'
  ])
  t.notMatch(stdout, '(keys)', 'it has no keys of its own')
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256', publicKeyEncoding: { type: 'spki', format: 'pem' }, privateKeyEncoding: { type: 'pkcs8', format: 'pem' } })
  t.match(await doctorOf(t, `{ algorithm: 'ES256', ...${JSON.stringify(pair)} }`), { code: 0, stdout: /Uses ES256 with a pair of keys\. To change it/ })
  const ring = ['a', 'b'].map((text) => createHash('sha256').update(text).digest('hex'))
  const listed = await doctorOf(t, `{ keys: [{ kid: 'a', algorithm: 'HS256', key: '${ring[0]}', verifyUntil: '2100-01-01T00:00:00Z' }, { kid: 'b', algorithm: 'HS256', key: '${ring[1]}', signFrom: '2020-01-01T00:00:00Z' }] }`)
  t.match(listed, { code: 0, stdout: /note {5}tokenAuth: The key a for HS256 is verifying, and verifies until 2100-01-01T00:00:00[^ ]*Z\. \(keys\)\nnote {5}tokenAuth: The key b for HS256 is signing\. \(keys\)/ })
})

t.test('doctor warns of findings, of cookies that end before their session, and of long lifetimes that nothing can end', async (t) => {
  warnings(t, 'W10', 'W04')
  const { code, stdout } = await doctorOf(t, `{ ${ofSecret}, expirationDelta: 90000, cookieSet: true, cookieSplit: true, cookieHttponly: false, cookieSecure: false, verifyExp: true }`)
  t.equal(code, 1)
  t.match(stdout, 'warning  tokenAuth: Access tokens are accepted for 90180 seconds ("expirationDelta" and "leeway"). They cannot be ended earlier. Reduce "expirationDelta", or set "sessions". (lifetimes)\n')
  t.match(stdout, /^warning {2}tokenAuth: "cookieSecure" is false, [^\n]*\(TOKEN_AUTH_W10\)$/m)
  t.match(stdout, 'note     tokenAuth: Cookies have SameSite=lax, and the access token is split. (cookies)\n')
  const short = await doctorOf(t, `{ ${ofSecret}, sessions: {}, cookieSet: true }`)
  t.match(short, { code: 1, stdout: /^warning {2}tokenAuth: Cookies have Secure, HttpOnly, SameSite=lax\. Without "cookieMaxAge"/ })
  const endless = await doctorOf(t, `{ ${ofSecret}, verifyExp: false }`)
  t.match(endless, { code: 1, stdout: /\(TOKEN_AUTH_W04\)/ })
  t.notMatch(endless.stdout, '(lifetimes)')
})

t.test('doctor has a line for each route that has neither guard nor exemption, and none for the warning that counts them', async (t) => {
  warnings(t, 'W26')
  const { code, stdout } = await doctorOf(t, `{ ${ofSecret} }`, "app.get('/a', async () => 'ok')\napp.post('/b', async () => 'ok')", production)
  t.equal(code, 2)
  t.strictSame(stdout.split('\n').filter((line) => line.includes('(routes)')), ['GET,HEAD /a', 'POST /b'].map((route) => `error    The route ${route} has neither a guard nor an exemption. Add a guard, or state in "config.tokenAuth" why it needs none. (routes)`))
  t.notMatch(stdout, 'W26')
})

t.test('doctor warns of sessions whose users are not looked up, and of instances that take the cookies from each other; it notes instances of one key', async (t) => {
  warnings(t, 'W42')
  t.match(await doctorOf(t, `{ ${ofSecret}, sessions: {}, retrieveUser: undefined }`), { code: 1, stdout: /^warning {2}tokenAuth: "sessions" is set, and there is no handler "retrieveUser"[^\n]* \(TOKEN_AUTH_W43\)\n/ })
  const another = (options: string) => `await app.register(tokenAuth, { instanceName: 'staff', urlPrefix: '/staff', authenticate: () => ({ user_id: 1 }), ${options} })`
  t.match(await doctorOf(t, `{ ${ofSecret}, cookieSet: true }`, another(`secret: '${secret}', cookieSet: true`)), { code: 1, stdout: /^warning {2}staff: Another instance of this application has another key[^\n]*"tokenAuth"[^\n]* \(TOKEN_AUTH_W42\)\n/ })
  t.match(await doctorOf(t, `{ ${ofSecret} }`, another(ofSecret)), { code: 0, stdout: /\nnote {5}tokenAuth: Issues access tokens that "staff" accepts, and accepts those of "staff": [^\n]* \(instances\)\n/ })
})

t.test('doctor says whether a store can be read, and why an application does not start', async (t) => {
  const store = "{ create () {}, advance () {}, end () {}, list () {}, confirm () {}, endedSince: async () => { throw new Error('down') } }"
  t.match(await doctorOf(t, `{ ${ofSecret}, authMode: false, sessions: { store: ${store} } }`), { code: 2, stdout: /^error {4}tokenAuth: The session store could not be read\. Check its address and the network\. \(store\)\n/ })
  t.match(await doctorOf(t, `{ ${ofSecret}, authMode: false, sessions: { store: ${store.replace("{ throw new Error('down') }", "({ ended: [], cursor: '' })")} } }`), { code: 0, stdout: /The session store was read\. \(store\)/ })
  t.match(await doctorOf(t, "{ secret: 'short' }", '', production), { code: 2, stdout: /^error {4}The application did not start\. [^\n]*\(start\)\n/ })
})

t.test('doctor --json prints the same as data, and no secret', async (t) => {
  warnings(t, 'W06')
  const built = ofModules(t, texts('fastify-token-auth', '{ leeway: 9999 }'))
  const { code, stdout } = await processOf(['doctor', built('instance.js'), '--json'])
  const remarks = JSON.parse(stdout)
  t.equal(code, 2)
  t.strictSame(JSON.parse((await run('doctor', '--json', ofModules(t, asSource(modules, '{ leeway: 9999 }'))('instance.js'))).stdout), remarks)
  t.match(remarks, [{ severity: 'error', subject: 'routes', instance: null, text: /GET,HEAD \/before/ }])
  t.match(remarks.find(({ subject }: { subject: string }) => subject === 'TOKEN_AUTH_W06'), { severity: 'warning', instance: 'tokenAuth' })
  t.notMatch(stdout, secret)
})

t.test('a token of each algorithm can be inspected', async (t) => {
  for (const algorithm of algorithms) t.match((await run('inspect', valid(algorithm))).stdout, `"alg": "${algorithm}"`)
})
