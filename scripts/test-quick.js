/**
 * `npm run test:quick`: the tests without coverage and without the files that take long. Further arguments go to tap. To
 * leave a file out, add it to the list.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'

const slow = [
  'test/chaos.test.ts',
  'test/cli.test.ts',
  'test/client-page.test.ts',
  'test/client.test.ts',
  'test/counted-work.test.ts',
  'test/cross-origin.test.ts',
  'test/diagrams.test.ts',
  'test/ecosystem.test.ts',
  'test/examples.test.ts',
  'test/guards/protect.test.ts',
  'test/guards/scoped.test.ts',
  'test/host/handlers.test.ts',
  'test/hostile/budget.test.ts',
  'test/hostile/clock.test.ts',
  'test/hostile/failures.test.ts',
  'test/hostile/http.test.ts',
  'test/hostile/isolation.test.ts',
  'test/hostile/mutation.test.ts',
  'test/hostile/startup.test.ts',
  'test/hostile/timing.test.ts',
  'test/hostile/tokens.test.ts',
  'test/keys/disguised-keys.test.ts',
  'test/keys/material.test.ts',
  'test/keys/processes.test.ts',
  'test/logs.test.ts',
  'test/long-lived.test.ts',
  'test/package.test.ts',
  'test/pictures.test.ts',
  'test/readme.test.ts',
  'test/registration.test.ts',
  'test/release.test.ts',
  'test/remembered-tokens.test.ts',
  'test/sessions/abuse.test.ts',
  'test/sessions/documentation.test.ts',
  'test/sessions/failures.test.ts',
  'test/sessions/races.test.ts',
  'test/sessions/refresh-token.test.ts',
  'test/sessions/revocation.test.ts',
  'test/sessions/settings.test.ts',
  'test/sessions/stores/faults.test.ts',
  'test/sessions/stores/memory.test.ts',
  'test/sessions/stores/operation.test.ts',
  'test/sessions/stores/processes.test.ts',
  'test/sessions/stores/writes.test.ts',
  'test/settings/configuration.test.ts',
  'test/settings/sources.test.ts',
  'test/site.test.ts',
  'test/small-examples.test.ts',
  'test/testing/attack.test.ts',
  'test/testing/own-routes.test.ts',
  'test/testing/session-store.test.ts',
  'test/token/codec.test.ts',
  'test/topology.test.ts',
  'test/tutorial.test.ts',
  'test/two-processes.test.ts',
  'test/web.test.ts'
]

const missing = slow.filter((file) => !existsSync(file))
if (missing.length > 0) {
  console.error(`There is no ${missing.join(', ')}. Correct the list in scripts/test-quick.js.`)
  process.exit(1)
}

const options = ['--disable-coverage', '--allow-empty-coverage', ...slow.map((file) => `--exclude=${file}`)]
// On Windows, tap is a script of the command line.
const { status } = spawnSync('tap', [...options, ...process.argv.slice(2)], { stdio: 'inherit', shell: process.platform === 'win32' })
process.exitCode = status ?? 1
