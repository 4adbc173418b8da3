/** The package before confirmations, as it was packed, to compare with. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const pathOf = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url))

/** Unpacks it. @returns the address of its module, and a function that removes it */
export function unpackBefore () {
  const folder = mkdtempSync(join(tmpdir(), 'token-auth-before-'))
  execFileSync('tar', ['-xzf', pathOf('test/outside/fixtures/before-confirmations.tar.gz'), '-C', folder])
  symlinkSync(pathOf('node_modules'), join(folder, 'node_modules'), 'junction')
  return { library: pathToFileURL(join(folder, 'package/dist/lib/index.js')).href, remove: () => rmSync(folder, { recursive: true, force: true }) }
}
