#!/usr/bin/env node
import { main } from '../dist/lib/cli.js'

const { code, stdout, stderr } = await main(process.argv.slice(2), process.stdin)
process.stderr.write(stderr)
// An application may keep the process alive.
process.stdout.write(stdout, () => process.exit(code))
