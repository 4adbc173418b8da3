/** Other versions of Node.js than the one that runs this: npm brings the programs, into node_modules/.cache/nodes. */
import { execFile } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** The release lines on which scripts/test/nodes.js tests the package. `npm test` runs on any, in CI also on 20. */
export const testedLines = ['22', '24', '26']

const root = fileURLToPath(new URL('..', import.meta.url))

/** Installs the newest release of a line of Node.js. Resolves with the path of its program. */
export async function installNode (line) {
  const name = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`
  const folder = join(root, 'node_modules/.cache/nodes', line)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n')
  await promisify(execFile)('npm', ['install', '--no-save', '--no-package-lock', '--no-audit', '--no-fund', '--prefer-online', '--prefix', folder, `${name}@${line}`], { shell: process.platform === 'win32' })
  return join(folder, 'node_modules', name, 'bin', process.platform === 'win32' ? 'node.exe' : 'node')
}
