/**
 * `npm test`, after the build: the tests with their coverage, and beside them the checks of the sources. What the checks
 * print comes last.
 */
import { spawn } from 'node:child_process'

const start = (script, stdio) => spawn('npm', ['run', script], { stdio, shell: process.platform === 'win32' })
const ended = (child) => new Promise((resolve) => child.once('close', resolve))

const checks = start('check', ['ignore', 'pipe', 'pipe'])
const output = []
for (const stream of [checks.stdout, checks.stderr]) stream.on('data', (chunk) => output.push(chunk))
const [checked, tested] = await Promise.all([ended(checks), ended(start('test:unit', 'inherit'))])
if (checked !== 0) process.stdout.write(Buffer.concat(output))
console.log(checked === 0 ? 'The checks of the sources passed.' : 'The checks of the sources failed: see above.')
if (checked !== 0 || tested !== 0) process.exitCode = 1
