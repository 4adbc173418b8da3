/** The ES modules of the package, and what `require()` loads instead of them. */
import { readFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { decode, encode } from '@jridgewell/sourcemap-codec'
import { transformSync } from 'esbuild'
import { rollup } from 'rollup'

/** The entries by their files in dist/lib/. The client, which imports nothing, stays as it was compiled. */
const entries = { index: 'build/lib/index.js', testing: 'build/lib/testing.js', cli: 'build/lib/cli.js' }
const client = 'build/lib/client.js'

const typebox = 'node_modules/@sinclair/typebox'
const isTypebox = (path) => path.includes(join(typebox, sep))
const typeboxModules = {
  '@sinclair/typebox': join(typebox, 'build/esm/type/type/index.mjs'),
  '@sinclair/typebox/value': join(typebox, 'build/esm/value/value/index.mjs')
}

const readParts = {
  name: 'parts',
  resolveId: (id) => typeboxModules[id] && join(process.cwd(), typeboxModules[id]),
  load (path) {
    const code = readFileSync(path, 'utf8')
    // Without its comments, to keep the package small.
    if (isTypebox(path)) return { code: transformSync(code, { format: 'esm', target: 'es2022' }).code, map: { mappings: '' } }
    return { code: code.replace(/\n\/\/# sourceMappingURL=.*\n?$/, '\n'), map: readFileSync(`${path}.map`, 'utf8') }
  }
}

/**
 * Reduces a source map to the line in which each line begins, which is what stack traces show: a whole map is larger than the
 * code. The package does not contain the sources, except that of the client, which tools for pages look for.
 */
function linesOf ({ file, sources, sourcesContent, mappings }) {
  const lines = decode(mappings).map(([first]) => first === undefined ? [] : [first])
  return JSON.stringify({ version: 3, file, sources, ...file === 'client.js' && { sourcesContent }, names: [], mappings: encode(lines) })
}

/** `require()` gives the plugin, and the named exports of the other entries. */
const required = (name) => `// Loads the ES module: there is one copy of all state, whether an application uses import, require, or both.\nmodule.exports = require('./${name}.js')${name === 'index' ? '.default' : ''}\n`

/** Returns the modules by their names. */
export async function modules () {
  const bundle = await rollup({
    input: entries,
    external: (id) => !/^[./]/.test(id) && typeboxModules[id] === undefined,
    plugins: [readParts],
    treeshake: { moduleSideEffects: (path) => !isTypebox(path) },
    onwarn (warning) {
      // The helper of TypeScript for `using` reads `this`, in case another module has set it.
      if (warning.code === 'THIS_IS_UNDEFINED') return
      // TypeBox has many of them.
      if (warning.code === 'CIRCULAR_DEPENDENCY' && warning.ids.every(isTypebox)) return
      throw new Error(warning.message)
    }
  })
  const { output } = await bundle.generate({ dir: 'dist/lib', format: 'es', sourcemap: true, chunkFileNames: 'shared-[name].js', hoistTransitiveImports: false, generatedCode: 'es2015' })
  await bundle.close()
  const files = {}
  for (const { fileName, code, map } of output.filter(({ type }) => type === 'chunk')) {
    files[fileName] = code
    files[`${fileName}.map`] = linesOf(map)
  }
  files['client.js'] = readFileSync(client, 'utf8')
  files['client.js.map'] = linesOf({ ...JSON.parse(readFileSync(`${client}.map`, 'utf8')), sourcesContent: [readFileSync('lib/client.ts', 'utf8')] })
  for (const name of ['index', 'client', 'testing']) files[`${name}.cjs`] = required(name)
  files['licenses.txt'] = `The modules of this folder contain parts of @sinclair/typebox, which has this license:\n\n${readFileSync(join(typebox, 'license'), 'utf8')}`
  return files
}
