/**
 * The tests with a mark in their first line:
 * - `// @slow`: they take long. `npm run test:quick` and `npm run test:nodes` leave them out.
 * - `// @outside`: they take long, and what they test is around the sources: documents, the packed package, compilers, bundlers,
 *   tools, pages in browsers, and several processes with faults. `npm run test:outside` runs them. They cover no line of
 *   `lib/` that no other test covers.
 */
import { readdirSync, readFileSync } from 'node:fs'

const files = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .map((name) => `test/${name.replaceAll('\\', '/')}`)
  .filter((file) => file.endsWith('.test.ts'))
const marked = (mark) => files.filter((file) => readFileSync(file, 'utf8').startsWith(`// @${mark}\n`))

export const outside = marked('outside')
export const slow = [...marked('slow'), ...outside]
