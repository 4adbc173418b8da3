/**
 * Runs the test files that scripts/test/run.js names, in this process, one after the other: each becomes a subtest of the root
 * of tap, named by its path.
 */
import { register } from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import fc from 'fast-check'

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

process.on('message', async (file) => {
  if (file === 'end') return process.disconnect()
  await own.test(file, async (t) => {
    for (const name of methods) root[name] = t[name].bind(t)
    Object.defineProperty(root, 'jobs', { configurable: true, get: () => t.jobs, set: (jobs) => { t.jobs = jobs } })
    t.teardown(() => { Object.assign(root, own) })
    await import(pathToFileURL(resolve(file)).href)
  })
  process.send('ended')
  // tap lets the process end while it waits for a message.
  process.channel.ref()
})
