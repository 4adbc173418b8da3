/** The tests that take long, which begin with the line `// @slow`. `npm run test:quick` and `npm run test:nodes` leave them out. */
import { readdirSync, readFileSync } from 'node:fs'

export const slow = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .map((name) => `test/${name.replaceAll('\\', '/')}`)
  .filter((file) => file.endsWith('.test.ts') && readFileSync(file, 'utf8').startsWith('// @slow\n'))
