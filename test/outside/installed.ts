/**
 * The package as a user gets it: packed, unpacked into a project that has nothing but what the package asks for. The project
 * is outside of this folder, in whose node_modules a dependency that is not declared would be found.
 */
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Test } from 'tap'

export const run = promisify(execFile)
export const root = fileURLToPath(new URL('../..', import.meta.url))
export const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
export const name: string = manifest.name

/**
 * The folder of a package that the repository, or test/outside/ in addition, has installed.
 * @param folder another folder with packages of its own
 */
export function folderOf (dependency: string, folder = 'test/outside'): string {
  const own = join(root, folder, 'node_modules', dependency)
  return existsSync(own) ? own : join(root, 'node_modules', dependency)
}

interface Packed { filename: string, files: { path: string }[], size: number, unpackedSize: number }

/**
 * Packs the package and installs it in a new project.
 * @param peers packages that the application has beside the dependencies of the package
 * @param folder where they are installed, as {@link folderOf} takes it
 */
export async function install (t: Test, peers: readonly string[] = Object.keys(manifest.peerDependencies), folder?: string) {
  // `npm test` builds first; a test never does.
  if (!existsSync(join(root, 'dist/lib/index.js'))) throw new Error('There is no dist/: run "npm run build" first.')
  const project = mkdtempSync(join(realpathSync(tmpdir()), `${name}-`))
  t.teardown(() => rmSync(project, { recursive: true, force: true }))
  writeFileSync(join(project, 'package.json'), '{ "private": true, "type": "module" }')
  const installed = join(project, 'node_modules', name)

  /** Puts a package of ours into the project, in the place of another one of this name. */
  function link (dependency: string, name = dependency) {
    const path = join(project, 'node_modules', name)
    mkdirSync(dirname(path), { recursive: true })
    rmSync(path, { force: true, recursive: true })
    symlinkSync(folderOf(dependency, folder), path, 'junction')
  }

  const { stdout } = await run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', project], { cwd: root, shell: process.platform === 'win32' })
  const [packed]: [Packed] = JSON.parse(stdout)
  const tarball = join(project, packed.filename)
  mkdirSync(installed, { recursive: true })
  await run('tar', ['-xzf', tarball, '-C', installed, '--strip-components', '1'])
  for (const dependency of [...Object.keys(manifest.dependencies), ...peers]) link(dependency)
  return {
    project,
    /** The folder of the package. */
    installed,
    tarball,
    packed,
    link,
    /** Runs a program in the project, or a folder of it, without the hooks of the test runner: they change how modules are loaded. */
    runNode: (args: string[], folder = '') => run(process.execPath, args, { cwd: join(project, folder), env: { ...process.env, NODE_OPTIONS: undefined } })
  }
}
