/** `fastify-token-auth routes`: who may use the routes of an application. */
import { undecidedIn } from '../routes/report.ts'
import { lookAt } from './application.ts'
import { done, failed, type Outcome } from './outcome.ts'

/** @param path of the module that exports the application */
export async function routes (path: string, isCheck: boolean): Promise<Outcome> {
  const seen = await lookAt(path, ({ rows, table }) => ({ undecided: undecidedIn(rows), table }))
  if ('fault' in seen) return failed(seen.fault)
  const { undecided, table } = seen.result
  if (!isCheck || undecided.length === 0) return done(table)
  const list = undecided.map(({ method, url }) => `${method} ${url}`).join(', ')
  return {
    code: 1,
    stdout: table,
    stderr: `These routes have neither a guard nor an exemption: ${list}. Add guards, or state in "config.tokenAuth" why they need none.\n`
  }
}
