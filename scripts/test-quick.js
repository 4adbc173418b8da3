/**
/**
 * `npm run test:quick`: the tests without coverage and without the files that take long, which are marked in their first
 * line. Further arguments go to tap.
 */
import { spawnSync } from 'node:child_process'
import { slow } from './marked-tests.js'

const options = ['--disable-coverage', '--allow-empty-coverage', ...slow.map((file) => `--exclude=${file}`)]
// On Windows, tap is a script of the command line.
const { status } = spawnSync('tap', [...options, ...process.argv.slice(2)], { stdio: 'inherit', shell: process.platform === 'win32' })
process.exitCode = status ?? 1
