/** The hook of typescript.cjs. What it has transpiled is kept in node_modules/.cache, under a digest of all that it depends on. */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const cache = new URL('../node_modules/.cache/transpiled/', import.meta.url)
const configuration = fileURLToPath(new URL('../tsconfig.json', import.meta.url))
const setup = [configuration, fileURLToPath(new URL('../node_modules/typescript/package.json', import.meta.url)), fileURLToPath(import.meta.url)].map((file) => readFileSync(file))
mkdirSync(cache, { recursive: true })

// Loaded when something has changed.
let compile
function prepareCompiler () {
  const ts = createRequire(import.meta.url)('typescript')
  const { options } = ts.convertCompilerOptionsFromJson(ts.readConfigFile(configuration, ts.sys.readFile).config.compilerOptions, '.')
  // The imports keep their `.ts`, because each file is loaded from where it is.
  const compilerOptions = { ...options, module: ts.ModuleKind.ESNext, rewriteRelativeImportExtensions: false, inlineSourceMap: true, inlineSources: true }
  return (fileName, source) => ts.transpileModule(source, { fileName, compilerOptions }).outputText
}

function transpile (fileName) {
  const source = readFileSync(fileName, 'utf8')
  const hash = createHash('sha256')
  for (const part of [...setup, fileName, '\0', source]) hash.update(part)
  const transpiled = new URL(hash.digest('base64url'), cache)
  try {
    return readFileSync(transpiled, 'utf8')
  } catch {
    compile ??= prepareCompiler()
    const output = compile(fileName, source)
    // Renamed when it is complete, because test files run at the same time.
    const draft = new URL(`${transpiled.href}.${process.pid}`)
    writeFileSync(draft, output)
    renameSync(draft, transpiled)
    return output
  }
}

export async function load (url, context, nextLoad) {
  if (!url.startsWith('file:') || !/\.ts(?:\?|$)/.test(url)) return nextLoad(url, context)
  return { format: 'module', shortCircuit: true, source: transpile(fileURLToPath(url)) }
}
