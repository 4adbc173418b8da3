/**
 * `npm run test:unit [--quick] [file ...]`: the tests of `npm test`. Measures the coverage unless files are named, or `--quick`
 * leaves out those that begin with the line `// @slow`.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isSlow, runAll, testFiles } from './run.js'

const names = process.argv.slice(2)
const isQuick = names[0] === '--quick'
const files = isQuick ? testFiles().filter((file) => !isSlow(file)) : names
if (files.length > 0) {
  await runAll(files)
} else {
  const folder = mkdtempSync(join(tmpdir(), 'coverage-'))
  try {
    await runAll(testFiles(), { env: { NODE_V8_COVERAGE: folder } })
    // Statements, branches, functions and lines of all files, also those that no test loads.
    const c8 = fileURLToPath(new URL('../../node_modules/c8/bin/c8.js', import.meta.url))
    const args = ['report', '--check-coverage', '--100', '--all', '--src', 'lib', '--include', 'lib/**', '--reporter', 'text', '--skip-full', '--temp-directory', folder]
    const { status } = spawnSync(process.execPath, [c8, ...args], { stdio: 'inherit' })
    if (status !== 0) process.exitCode = 1
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
