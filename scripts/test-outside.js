/** `npm run test:outside`, after the build: the tests that are marked `// @outside`. They measure no coverage. */
import { spawnSync } from 'node:child_process'
import { outside } from './marked-tests.js'

const { status } = spawnSync('npx', ['tap', '--disable-coverage', '--allow-empty-coverage', ...outside], { stdio: 'inherit', shell: process.platform === 'win32' })
process.exitCode = status ?? 1
