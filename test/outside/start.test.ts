import { cpSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import t from 'tap'
import { install, name, root } from './installed.ts'

/** What an application pays for the package at its start, and its compiler. benchmarks/suites/start.js measures the time. */

const { project, installed, link, runNode } = await install(t)
cpSync(join(root, 'test/outside/fixtures/consumer'), project, { recursive: true })

t.test('an application that starts loads a few files of the package, and nothing of TypeBox, jose, the command line, the client and what is for tests', async (t) => {
  const files: string[] = JSON.parse((await runNode(['loaded.mjs'])).stdout).map((file: string) => file.replace(/^file:\/\//, ''))
  t.ok(files.some((file) => file.includes('/fast-jwt/')))
  t.strictSame(files.filter((file) => /typebox|\/jose\//.test(file)), [])
  const own = [...new Set(files.filter((file) => file.includes(installed)).map((file) => basename(file)))]
  t.ok(own.includes('plugin.cjs'))
  t.ok(own.length <= 6, own.join(', '))
  t.strictSame(own.filter((file) => !/^(?:index\.c?js|plugin\.cjs|shared-[\w-]+\.cjs)$/.test(file)), [])
})

t.test('a compiler reads at most 60 files more than for Fastify alone', async (t) => {
  link('@types/node')
  const filesOf = async (file: string) => {
    const args = ['--strict', '--module', 'nodenext', '--types', 'node', '--skipLibCheck', '--listFilesOnly', file]
    return (await runNode([join(root, 'node_modules/typescript/bin/tsc'), ...args])).stdout.trim().split('\n')
  }
  const [alone, guarded] = await Promise.all([filesOf('alone.ts'), filesOf('guarded.ts')])
  t.ok(guarded.some((file) => file.includes(`/${name}/`)))
  t.ok(guarded.length - alone.length <= 60, `${guarded.length - alone.length} files`)
})

t.test('with source maps, stack traces name the sources and their lines', async (t) => {
  const { stdout } = await runNode(['--enable-source-maps', 'failing.mjs'])
  const [, line] = /lib\/settings\/check\.ts:(\d+)/.exec(stdout) ?? []
  t.match(readFileSync(join(root, 'lib/settings/check.ts'), 'utf8').split('\n')[Number(line) - 1], 'throw new InvalidConfiguration(', stdout)
  t.notMatch(stdout, /dist\/lib\/[\w-]+\.c?js/)
  t.match((await runNode(['failing.mjs'])).stdout, /at checkSetting \(.*dist\/lib\/plugin\.cjs/, 'without them, they name the functions')
})
