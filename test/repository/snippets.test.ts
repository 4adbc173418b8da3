// @slow
/** The examples of the guides in the hands of somebody who writes TypeScript: JavaScript without annotations compiles there, too. */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { programsIn } from '../programs.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const guides = ['README.md', ...readdirSync(join(root, 'docs')).filter((name) => /^[\w-]+\.md$/.test(name)).map((name) => `docs/${name}`)]

/**
 * The examples, by the name of a file. The files of the tutorial are one program, which its test compiles. Those that declare
 * instances do so for the whole program, and test/outside/documents.test.ts compiles each alone.
 */
const examples = Object.fromEntries(
  guides.filter((path) => path !== 'docs/tutorial.md').flatMap((path) =>
    programsIn(readFileSync(join(root, path), 'utf8'), ['js', 'ts']).flatMap((program, index) => program.includes('declare module') ? [] : [[`${path.replace(/\W/g, '-')}-${index}.ts`, program] as const])
  )
)

/** What the text around the examples has declared. */
const names = `
type Handlers = Required<Pick<import('fastify-token-auth').Authentication<{ user_id: number }>, 'authenticate' | 'retrieveUser'>>
declare const app: import('fastify').FastifyInstance
declare const tokenAuth: typeof import('fastify-token-auth').default
declare const Fastify: typeof import('fastify').default
declare const authenticate: Handlers['authenticate'], retrieveUser: Handlers['retrieveUser']
declare const customers: Handlers['authenticate'], staff: Handlers['authenticate']
declare const handler: () => Promise<string>, orders: () => Promise<string>
declare const schema: { body: object }
declare const secret: string, sessionSecret: string, nextSessionSecret: string, oldSecret: string, nextSecret: string
declare const customerSecret: string, staffSecret: string, privateKey: string, publicKey: string, passphrase: string, nextKey: string
declare const clientId: string, audience: string, issuer: string, origins: string[]
declare const scopesOf: (user: object) => string[], alarm: (text: string) => void
declare const request: import('fastify').FastifyRequest
declare const redisSessions: typeof import('fastify-token-auth').redisSessions
declare const client: import('ioredis').Redis & import('fastify-token-auth/client').Client
declare const MyStore: new () => import('fastify-token-auth').SessionStore
declare const jwks: { keys: JsonWebKey[] }
declare const loadKeys: () => Promise<Array<{ key: string, algorithm: 'EdDSA' }>>
declare const users: Map<unknown, { user_id: number }>, blocked: Set<unknown>
declare const findUser: (id: unknown) => Promise<{ user_id: number } | undefined>, findPartner: typeof findUser
declare const logIn: (request: unknown) => Promise<{ user_id: number }>
declare const changePassword: (id: unknown, body: unknown) => Promise<void>, disableUser: (id: unknown) => Promise<void>
declare const loginPage: (parts: object) => string
declare const socket: import('node:events').EventEmitter & { close (code?: number, reason?: string): void }
interface Customer { user_id: number }
interface Employee { user_id: string, department: string }
`

/** The module that docs/deployment.md begins with. */
const application = "import Fastify from 'fastify'\nexport default async () => Fastify()\n"

/** Declares instances. The others are those that the guides register by name. */
const declared = (others: readonly string[]) => `
export {}
interface User { user_id: number, name?: string }
declare module 'fastify-token-auth' {
  interface TokenAuthInstances {
    tokenAuth: { user: User, userId: number, claims: { user_id: number, tenant: string, iss: string, sub: string } }
    ${others.map((name) => `${name}: { user: User }`).join('\n')}
  }
}
`

/** Compiles examples, and returns the errors. */
async function errorsIn (t: Test, programs: Readonly<Record<string, string>>, others: Readonly<Record<string, string>>): Promise<string[]> {
  const files = Object.entries(programs).map(([name, program]) => [name, `${program}\nexport {}\n`])
  const tsconfig = {
    compilerOptions: {
      strict: true, noEmit: true, module: 'nodenext', target: 'esnext', lib: ['esnext', 'dom', 'dom.iterable'], types: ['node'], typeRoots: [join(root, 'node_modules/@types')], skipLibCheck: true
    }
  }
  const folder = t.testdir({ ...Object.fromEntries(files), ...others, 'names.d.ts': names, 'app.ts': application, 'tsconfig.json': JSON.stringify(tsconfig) })
  const compiler = join(root, 'node_modules/typescript-7/bin/tsc')
  const { stdout }: { stdout: string } = await promisify(execFile)(process.execPath, [compiler, '-p', folder, '--pretty', 'false'], { cwd: folder }).catch((error) => error)
  return stdout.split('\n').filter((line) => line !== '')
}

const isNamed = (program: string) => /instanceName: '/.test(program)
const unnamed = Object.fromEntries(Object.entries(examples).filter(([, program]) => !isNamed(program)))

t.test('every example of the guides compiles as strict TypeScript', async (t) => {
  t.ok(Object.keys(unnamed).length > 50)
  t.same(await errorsIn(t, unnamed, {}), [])
})

t.test('they also compile where an application has declared its instance, and those of named instances where it has declared them', async (t) => {
  t.same(await errorsIn(t, unnamed, { 'instances.d.ts': declared([]) }), [])
  const named = Object.fromEntries(Object.entries(examples).filter(([, program]) => isNamed(program)))
  t.ok(Object.keys(named).length > 2)
  t.same(await errorsIn(t, named, { 'instances.d.ts': declared(['customerAuth', 'staffAuth', 'pages', 'entra']) }), [])
})

t.test('an error is noticed', async (t) => {
  t.match(await errorsIn(t, { 'wrong.ts': "const wrong: number = 'text'" }, {}), [/^wrong\.ts\(1,7\): error TS2322/])
})

t.test('the compiler points at the option of register() that is wrong, also where the secret may be undefined', async (t) => {
  const wrong = ['expirationDeltas: 60', "leeway: '60'", 'retrieveUser: 60', 'sessions: { lifetimes: 60 }', "instanceName: 'other'"]
  const programs = wrong.map((option, index) => [`wrong${index}.ts`, [
    "import Fastify from 'fastify'",
    "import tokenAuth from 'fastify-token-auth'",
    'await Fastify().register(tokenAuth, { secret: process.env.SECRET, authenticate: async () => ({ user_id: 1 }),',
    `  ${option}`,
    '})'
  ].join('\n')])
  const errors = (await errorsIn(t, Object.fromEntries(programs), {})).filter((line) => line.startsWith('wrong'))
  t.same(errors.map((error) => /\((\d+),/.exec(error)?.[1]), wrong.map(() => '4'), errors.join('\n'))
})

t.test('without the handler "authenticate", the compiler says so', async (t) => {
  const program = "import Fastify from 'fastify'\nimport tokenAuth from 'fastify-token-auth'\nawait Fastify().register(tokenAuth, { secret: process.env.SECRET })"
  t.match((await errorsIn(t, { 'wrong.ts': program }, {})).join('\n'), /Property 'authenticate' is missing/)
})
