/**
 * The modules of the package: CommonJS, as Fastify and its plugins are, which Jest loads, too. What `import` loads gives the
 * same values, so that there is one copy of all state. The client, which browsers load, is an ES module. It has no state, so
 * that there is a second copy of it for `require()`.
 */
import { readFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { decode, encode } from '@jridgewell/sourcemap-codec'
import { transformSync } from 'esbuild'
import { rollup } from 'rollup'

/** The modules of CommonJS by their names in dist/lib/. */
const entries = { plugin: 'build/lib/require.js', testing: 'build/lib/testing.js', cli: 'build/lib/cli.js' }
/**
 * What `require()` of the package loads. In two steps: for an `import`, Node.js would search a file that exports
 * `require()` for names, in 660 KB, although index.js lists them.
 */
const index = "const plugin = require('./plugin.cjs')\nmodule.exports = plugin\n"
/** It imports nothing, and stays as it was compiled. */
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
  // In a bundle, a module of CommonJS may have no folder.
  resolveImportMeta: (property) => property === 'dirname' ? "(typeof __dirname === 'string' ? __dirname : 'a bundle')" : null,
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

/** Returns what `import` loads: the exports of a module of CommonJS. */
async function imported (name) {
  const names = Object.keys(await import(`../../build/lib/${name}.js`)).filter((exported) => exported !== 'default')
  const lines = [`import required from './${name}.cjs'`, `export const { ${names.join(', ')} } = required`, ...name === 'index' ? ['export default required'] : []]
  return `${lines.join('\n')}\n`
}

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
  const { output } = await bundle.generate({
    dir: 'dist/lib',
    format: 'cjs',
    sourcemap: true,
    entryFileNames: '[name].cjs',
    chunkFileNames: 'shared-[name].cjs',
    hoistTransitiveImports: false,
    // Without the marks of compiled ES modules, as if it had been written as CommonJS.
    generatedCode: { preset: 'es2015', symbols: false },
    esModule: false,
    // The default import of a package is what it exports, as in Node.js.
    interop: 'default'
  })
  await bundle.close()
  const files = {}
  for (const { fileName, code, map } of output.filter(({ type }) => type === 'chunk')) {
    files[fileName] = code
    files[`${fileName}.map`] = linesOf(map)
  }
  files['client.js'] = readFileSync(client, 'utf8')
  files['client.js.map'] = linesOf({ ...JSON.parse(readFileSync(`${client}.map`, 'utf8')), sourcesContent: [readFileSync('lib/client.ts', 'utf8')] })
  files['index.cjs'] = index
  files['client.cjs'] = transformSync(files['client.js'], { format: 'cjs', target: 'es2022' }).code
  for (const name of ['index', 'testing']) files[`${name}.js`] = await imported(name)
  files['licenses.txt'] = `The modules of this folder contain parts of @sinclair/typebox, which has this license:\n\n${readFileSync(join(typebox, 'license'), 'utf8')}`
  return files
}
