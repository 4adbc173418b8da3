/**
 * `npm run test:quick`: the unit tests without coverage and without the files that take long. Further arguments go to tap.
 * To leave a file out, add it here.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const slow = [
  'test/diagrams.test.ts', // in a browser
  'test/ecosystem.test.ts',
  'test/hostile/failures.test.ts',
  'test/hostile/mutation.test.ts',
  'test/hostile/tokens.test.ts',
  'test/package.test.ts', // packs the package and runs three compilers
  'test/release.test.ts',
  'test/settings/configuration.test.ts',
  'test/small-examples.test.ts',
  'test/topology.test.ts',
  'test/web.test.ts'
]
