#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { main } from '../dist/lib/cli.cjs'

let isWritten = false
// An application may end the process, with the exit code 0, before the command has finished.
process.on('exit', () => {
  if (isWritten) return
  process.stderr.write('The command did not finish, because the process ended.\n')
  process.exitCode = 1
})

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
const { code, stdout, stderr } = await main(process.argv.slice(2), process.stdin, version)
process.stderr.write(stderr)
process.stdout.write(stdout, () => {
  isWritten = true
  // An application may keep the process alive.
  process.exit(code)
})
