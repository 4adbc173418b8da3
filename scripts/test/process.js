/**
 * Runs test files in this process, one after the other: each becomes a subtest of the root of tap, named by its path. A
 * process that starts costs more than most files do.
 */
import { register } from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import fc from 'fast-check'

// tap names folders of tests after the arguments.
const files = process.argv.splice(2)
const { default: root } = await import('tap')
// After tap was loaded, whose many modules would pass through the hooks as well.
if (!process.features.typescript) register('../../test/typescript-hooks.mjs', import.meta.url)
// This process has read it. A program that a test starts is not measured.
delete process.env.NODE_V8_COVERAGE

// The same cases each time, so that nothing but a change makes a test fail. `npm run test:repeat` gives other seeds.
fc.configureGlobal({ seed: Number(process.env.FC_SEED ?? 1) })

/** What a test file calls on the root of tap, outside of its tests. */
const methods = ['test', 'teardown', 'beforeEach', 'fail']
const own = Object.fromEntries(methods.map((name) => [name, root[name].bind(root)]))

for (const file of files) {
  own.test(file, async (t) => {
    for (const name of methods) root[name] = t[name].bind(t)
    Object.defineProperty(root, 'jobs', { configurable: true, get: () => t.jobs, set: (jobs) => { t.jobs = jobs } })
    t.teardown(() => { Object.assign(root, own) })
    await import(pathToFileURL(resolve(file)).href)
  })
}
