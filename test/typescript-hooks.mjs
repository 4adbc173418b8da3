/**
 * The hook of typescript.cjs: replaces types by spaces, as later versions of Node.js do, so that each line and column stays
 * where it is. What it has read is kept in node_modules/.cache, under a digest of all that it depends on.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const cache = new URL('../node_modules/.cache/stripped/', import.meta.url)
const setup = ['../node_modules/ts-blank-space/package.json', 'typescript-hooks.mjs'].map((file) => readFileSync(new URL(file, import.meta.url)))
mkdirSync(cache, { recursive: true })

// Loaded when something has changed, because it loads the compiler.
let strip
async function prepare () {
  const { default: blankSpace } = await import('ts-blank-space')
  return (fileName, source) => blankSpace(source, (node) => { throw new SyntaxError(`${fileName} has TypeScript that is more than types: ${node.getText()}`) })
}

async function javaScriptOf (fileName) {
  const source = readFileSync(fileName, 'utf8')
  const hash = createHash('sha256')
  for (const part of [...setup, source]) hash.update(part)
  const stripped = new URL(hash.digest('base64url'), cache)
  try {
    return readFileSync(stripped, 'utf8')
  } catch {
    strip ??= await prepare()
    const output = strip(fileName, source)
    // Renamed when it is complete, because several processes run at the same time.
    const draft = new URL(`${stripped.href}.${process.pid}`)
    writeFileSync(draft, output)
    renameSync(draft, stripped)
    return output
  }
}

export async function load (url, context, nextLoad) {
  if (!url.startsWith('file:') || !/\.ts(?:\?|$)/.test(url)) return nextLoad(url, context)
  return { format: 'module', shortCircuit: true, source: await javaScriptOf(fileURLToPath(url)) }
}
