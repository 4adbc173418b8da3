/** `node scripts/with-node.js <line> <file> [argument ...]`: runs a file with the newest release of a line of Node.js, such as 24. */
import { spawnSync } from 'node:child_process'
import { installNode } from './nodes.js'

const [line, ...args] = process.argv.slice(2)
process.exitCode = spawnSync(await installNode(line), args, { stdio: 'inherit' }).status ?? 1
