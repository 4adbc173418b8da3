/** How the examples of a recipe run: with the modules that they import, as in an application. */
import { readFileSync } from 'node:fs'
import type { FastifyInstance, FastifyServerOptions, InjectOptions, LightMyRequestResponse } from 'fastify'
import type { Test } from 'tap'
import tokenAuth from '../../../lib/index.ts'
import { host } from '../../helper.ts'
import { examplesOf, run } from '../../programs.ts'

/** This package, by the names of its entries. */
const entries: Record<string, string> = { 'fastify-token-auth': '../../../lib/index.ts', 'fastify-token-auth/client': '../../../lib/client.ts' }
const importLine = /^ *import (?:(\w+)(?:, )?)?(?:\* as (\w+)|\{ ([^}]+) \})? from '([^']+)'$/gm

/**
 * The modules that an example imports, by the names that it gives them.
 * @param given modules that are not installed
 * @throws Error if a module has no such export
 */
async function modulesOf (program: string, given: Record<string, object>): Promise<Record<string, unknown>> {
  const names: Record<string, unknown> = {}
  for (const [, whole, all, some, from = ''] of program.matchAll(importLine)) {
    const module: Record<string, unknown> = given[from] ?? await import(entries[from] ?? from)
    const read = (name: string) => {
      if (!(name in module)) throw new Error(`${from} has no export "${name}".`)
      return module[name]
    }
    if (whole !== undefined) names[whole] = read('default')
    if (all !== undefined) names[all] = module
    for (const pair of some?.split(', ') ?? []) {
      const [name = '', local = name] = pair.split(' as ')
      names[local] = read(name)
    }
  }
  return names
}

interface Serving {
  /** An expression of the names of the program. */
  result?: string
  /** Modules that are not installed, or are watched. */
  modules?: Record<string, object>
  server?: FastifyServerOptions
  /** The application, if there is one already. */
  app?: FastifyInstance
}

/** The limits of a recipe: what is longer is an example. */
const maximumLines = 60
const maximumWords = 450

/**
 * A recipe, whose examples are run one by one or together.
 * @returns `cook` runs the examples that contain these texts as one program, with these names, and resolves to an expression of it.
 * `end` is to be called when all tests are added: it adds one that fails for examples that were not run
 */
export function recipe (t: Test, page: string) {
  const { take, left } = examplesOf(`recipes/${page}`)
  const text = readFileSync(new URL(`../../../docs/recipes/${page}`, import.meta.url), 'utf8')
  const cook = async <Result = FastifyInstance>(t: Test, texts: string | readonly string[], names: object = {}, { result = 'app', modules = {}, server = {}, app: own }: Serving = {}): Promise<Result> => {
    const program = [texts].flat().map(take).join('\n').replace(/^export (?=const|async|function)/gm, '')
    const Fastify = (options: FastifyServerOptions) => host(t, { ...options, ...server })
    // An example that makes its application needs none.
    const app = own ?? (/^ *import Fastify /m.test(program) ? undefined : host(t, server))
    return await run<Result>(program, { app, tokenAuth, ...await modulesOf(program, modules), ...(app === undefined && { Fastify }), ...names }, result)
  }
  return {
    cook,
    take,
    end: () => t.test(`${page}: every example was run, in at most ${maximumLines} lines and ${maximumWords} words`, async (t) => {
      t.same([...left], [])
      const lines = Array.from(text.matchAll(/^```\w+\n([\s\S]*?)^```/gm), ([, block = '']) => block.trim().split('\n')).flat().filter((line) => line.trim() !== '')
      t.ok(lines.length <= maximumLines, `${lines.length} lines`)
      const words = text.split(/\s+/).filter((word) => word !== '')
      t.ok(words.length <= maximumWords, `${words.length} words`)
    })
  }
}

/** What the recipes call `cookies`: the settings of docs/client.md. */
export const cookies = {
  cookieSet: true,
  cookieMaxAge: 2_592_000,
  cookieAccessTokenName: '__Host-access_token',
  cookieRefreshTokenName: '__Host-refresh_token',
  tokensInBody: false
} as const

export const post = async (app: FastifyInstance, url: string, payload: object = {}, request: InjectOptions = {}): Promise<LightMyRequestResponse> =>
  await app.inject({ method: 'POST', url, payload, ...request })

/** The cookies of a response, to send them with the next request. */
export const cookiesOf = (response: LightMyRequestResponse) => Object.fromEntries(response.cookies.map(({ name, value }) => [name, value]))
