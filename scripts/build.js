/**
 * `npm run build`: writes what the package contains to dist/.
 *
 * TypeScript compiles lib/ and types/ to build/, one file each, which is what scripts and benchmarks read parts of. Of these
 * files, each entry of the package becomes one module, with modules that entries share: an application reads a few files at
 * its start and not hundreds. The part of TypeBox that the schemas need is in it, too. The declarations become a few files
 * in the same way.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { declarations } from './build/declarations.js'
import { modules } from './build/modules.js'

const root = fileURLToPath(new URL('..', import.meta.url))
process.chdir(root)

for (const folder of ['build', 'dist']) rmSync(folder, { recursive: true, force: true })
try {
  // By its path: several compilers are installed, and each has a command `tsc`.
  execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json'], { stdio: 'inherit' })
} catch {
  // The compiler has said what is wrong.
  process.exit(1)
}
mkdirSync('dist/lib', { recursive: true })
for (const [file, text] of Object.entries({ ...await modules(), ...await declarations() })) writeFileSync(`dist/lib/${file}`, text)
