/**
 * Prints the size of the package, of what it installs and of the client for browsers, and fails if they exceed the limits
 * below. The dependencies are those in package-lock.json. Fastify, which is a peer dependency, and its own dependencies do
 * not count. Requires a build.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { minify } from 'terser'

const [{ size, unpackedSize }] = JSON.parse(execFileSync('npm', ['pack', '--dry-run', '--ignore-scripts', '--json'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], shell: process.platform === 'win32' }))
const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'))
const direct = Object.keys(packages[''].dependencies)
const all = Object.keys(packages).filter((path) => path !== '' && !packages[path].dev && !packages[path].devOptional && !packages[path].peer)

/** Returns the size of a folder in bytes, without nested packages, which the lock file lists separately. */
function bytesOf (folder) {
  return readdirSync(folder, { withFileTypes: true }).reduce((sum, entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return entry.name === 'node_modules' ? sum : sum + bytesOf(path)
    return sum + statSync(path).size
  }, 0)
}

const client = await minify(readFileSync('dist/lib/client.js', 'utf8'), { module: true })

const kilobytes = (bytes) => Math.ceil(bytes / 1000)
const rows = [
  ['Tarball, kB', kilobytes(size), 545],
  ['Unpacked, kB', kilobytes(unpackedSize), 1800],
  ['Installed with its dependencies, kB', kilobytes(all.reduce((sum, path) => sum + bytesOf(path), unpackedSize)), 2850],
  ['Client, minified and gzipped, bytes', gzipSync(client.code).length, 3000],
  ['Direct dependencies', direct.length, 3],
  ['All dependencies', all.length, 16]
]

for (const [what, amount, limit] of rows) {
  console.log(`${what.padEnd(36)}${String(amount).padStart(5)}, at most ${limit}`)
  if (amount > limit) {
    console.error(`Too much: ${what}`)
    process.exitCode = 1
  }
}
