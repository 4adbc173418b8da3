import { build } from 'esbuild'
import { cpSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { folderOf, install, root } from './installed.ts'

/** Applications as serverless hosts bundle them, without the optional jose: they are built without an error, and run. */

const { project, runNode } = await install(t, ['fastify'])
cpSync(join(root, 'test/outside/fixtures/consumer'), project, { recursive: true })
/** What service.mjs and service.cjs print: a guard refuses, and an issuer whose keys jose would fetch is refused with E18. */
const printed = '[401,"TOKEN_AUTH_E18"]\n'

t.test('jose is not installed', async (t) => {
  t.notOk(existsSync(join(project, 'node_modules/jose')))
  t.equal((await runNode(['service.mjs'])).stdout, printed, 'unbundled')
})

// Fastify and the package are CommonJS, which needs require() in an ES module, as docs/deployment.md says.
const banner = { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" }
for (const [kind, options] of Object.entries({
  CommonJS: { entryPoints: ['service.cjs'], outfile: 'esbuild/service.cjs', format: 'cjs' },
  'ES modules': { entryPoints: ['service.mjs'], outfile: 'esbuild/service.mjs', format: 'esm', banner }
} as const)) {
  t.test(`esbuild, ${kind}`, async (t) => {
    const { warnings } = await build({ ...options, entryPoints: [...options.entryPoints], absWorkingDir: project, bundle: true, platform: 'node', target: 'node20', logLevel: 'silent' })
    t.strictSame(warnings, [])
    t.equal((await runNode([options.outfile])).stdout, printed)
  })
}

for (const [file, result] of [['service.cjs', 'index.cjs'], ['service.mjs', 'index.mjs']] as const) {
  t.test(`ncc, ${file}`, async (t) => {
    await runNode([join(folderOf('@vercel/ncc'), 'dist/ncc/cli.js'), 'build', file, '--out', `ncc-${file}`, '--quiet'])
    t.equal((await runNode([join(`ncc-${file}`, result)])).stdout, printed)
  })
}
