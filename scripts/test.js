/**
 * `npm test`, after the build: the tests with coverage, and beside them the checks of the sources, which take a fifth of the
 * time. What the checks print comes last. `npm run test:outside` runs the tests that are marked `// @outside`.
 */
import { spawn } from 'node:child_process'
import { outside } from './marked-tests.js'

const start = (args, stdio) => spawn('npm', ['run', ...args], { stdio, shell: process.platform === 'win32' })
const ended = (child) => new Promise((resolve) => child.once('close', resolve))

const checks = start(['check'], ['ignore', 'pipe', 'pipe'])
const output = []
for (const stream of [checks.stdout, checks.stderr]) stream.on('data', (chunk) => output.push(chunk))
const statuses = await Promise.all([ended(checks), ended(start(['test:unit', '--', ...outside.map((file) => `--exclude=${file}`)], 'inherit'))])
process.stdout.write(Buffer.concat(output))
if (statuses.some((status) => status !== 0)) process.exitCode = 1
