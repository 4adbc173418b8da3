/** `fastify-token-auth routes`: who may use the routes of an application. */
import { undecidedIn } from '../routes/report.ts'
import { checkEarlierRoutes } from '../routes/required-guards.ts'
import type { Registration } from '../registration.ts'
import { load, type WatchedApplication } from './load.ts'
import { done, failed, type Outcome } from './outcome.ts'

/** Sends what an application prints to the standard error, so that the table stands alone. Fastify's logger writes there, too. */
async function withoutOutput<Result> (run: () => Promise<Result>): Promise<Result> {
  const { write } = process.stdout
  process.stdout.write = process.stderr.write.bind(process.stderr)
  try {
    return await run()
  } finally {
    process.stdout.write = write
  }
}

/** Its registration would have failed: the watch has opened the book of routes before there were any. */
function checkOrder ({ early }: WatchedApplication, ofRoot: readonly Registration[]): void {
  if (ofRoot.some(({ settings }) => settings.requireGuards)) checkEarlierRoutes(early.join('\n'))
}

async function report (path: string, isCheck: boolean): Promise<Outcome> {
  const application = await load(path)
  const { app, book, registrations } = application
  const [rows, table, ofRoot] = [book.routes(), book.printRoutes(), application.ofRoot()]
  await app.close()
  checkOrder(application, ofRoot)
  if (registrations.size + ofRoot.length === 0) {
    const hint = application.isOfPlugin === true ? ' The exported function has parameters, so it is taken for a plugin. If it returns an application, give each parameter a default value.' : ''
    return failed(`The application does not use this installation of fastify-token-auth. Register the plugin, and run the command in the folder of the application.${hint}`)
  }
  const undecided = undecidedIn(rows)
  if (!isCheck || undecided.length === 0) return done(table)
  const list = undecided.map(({ method, url }) => `${method} ${url}`).join(', ')
  return { code: 1, stdout: table, stderr: `Nobody has decided who may use ${list}. Add guards, or say in "config.tokenAuth" why they need none.\n` }
}

/** @param path of the module that exports the application */
export async function routes (path: string, isCheck: boolean): Promise<Outcome> {
  try {
    return await withoutOutput(() => report(path, isCheck))
  } catch (error) {
    return failed(`The application did not start. ${error instanceof Error ? error.message : String(error)}`)
  }
}
