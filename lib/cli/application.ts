/** Runs a command on an application that a module exports. */
import type { Registration } from '../registration.ts'
import { instancesOfOneKey } from '../neighbours.ts'
import { checkEarlierRoutes } from '../routes/required-guards.ts'
import type { RouteAccess } from '../../types/routes.ts'
import { load, type WatchedApplication } from './load.ts'
import { memberOf } from '../values.ts'

/** The parts of an application that commands inspect. */
export interface Inspected {
  readonly rows: readonly RouteAccess[]
  /** The table of routes. */
  readonly table: string
  readonly registrations: readonly Registration[]
  /** The names of instances that accept each other's access tokens, in pairs. */
  readonly pairs: ReadonlyArray<readonly [string, string]>
}

/** What a command has found in an application, or why the application could not be inspected. */
export type Seen<Result> = { readonly result: Result } | { readonly fault: string }

/** Sends the output of an application, also that of Fastify's logger, to standard error: standard output has only the result. */
async function withoutOutput<Result> (run: () => Promise<Result>): Promise<Result> {
  const { write } = process.stdout
  process.stdout.write = process.stderr.write.bind(process.stderr)
  try {
    return await run()
  } finally {
    process.stdout.write = write
  }
}

/** Repeats the check of the registration, which cannot fail here: `watch` opens the book of routes before any route is added. */
function checkOrder ({ early }: WatchedApplication, ofRoot: readonly Registration[]): void {
  if (ofRoot.some(({ settings }) => settings.requireGuards)) checkEarlierRoutes(early.join('\n'))
}

async function start<Result> (path: string, look: (inspected: Inspected) => Result): Promise<Seen<Result>> {
  const application = await load(path)
  const { app, book, registrations, isOfPlugin } = application
  const ofRoot = application.ofRoot()
  const all = [...new Set([...ofRoot, ...registrations])]
  // Before the application closes: its instances then discard the state of stores and issuers.
  const result = look({ rows: book.routes(), table: book.printRoutes(), registrations: all, pairs: instancesOfOneKey(app.server) })
  await app.close()
  checkOrder(application, ofRoot)
  if (all.length > 0) return { result }
  const hint =
    isOfPlugin === true
      ? ' The exported function has parameters, so it is taken for a plugin. If it returns an application, give each parameter a default value.'
      : ''
  return {
    fault: `The application does not use this installation of fastify-token-auth. Register the plugin, and run the command in the folder of the application.${hint}`
  }
}

const notLoaded = `Node.js ${process.versions.node} does not load this TypeScript. Compile it first, or run the command with a loader: npx tsx node_modules/fastify-token-auth/bin/fastify-token-auth.js. From 22.18 on, Node.js loads files with the ending .ts itself.`

/**
 * Starts the application of a module, and closes it again.
 * @param look called when the application is ready
 * @returns the result of `look`, or why the application could not be inspected
 */
export async function lookAt<Result> (path: string, look: (inspected: Inspected) => Result): Promise<Seen<Result>> {
  try {
    return await withoutOutput(() => start(path, look))
  } catch (error) {
    const isTypeScript = memberOf(error, 'code') === 'ERR_UNKNOWN_FILE_EXTENSION' && /\.[cm]?tsx?"/.test(String(error))
    const reason = isTypeScript ? notLoaded : error instanceof Error ? error.message : String(error)
    return { fault: `The application did not start. ${reason}` }
  }
}
