/**
 * `npm run test:mutants [text]`: makes each mistake of test/repository/mutants.js in a copy of the repository, and runs the tests
 * that must find it. With a text: only those in whose file or code it is. What was found is kept in node_modules/.cache, so a
 * run that was stopped goes on where it was, until the code or the tests change.
 */
import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { mutants } from '../../test/repository/mutants.js'
import { run } from './run.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const cache = join(root, 'node_modules/.cache/mutants.json')
const read = (file) => readFileSync(join(root, file), 'utf8')
/** What is large and not changed is linked. */
const linked = ['node_modules', 'dist', 'build']
const ignored = ['.git', ...linked]

/** Copies the repository without what no test of a mutant needs. */
function copyOf () {
  const copy = mkdtempSync(join(tmpdir(), 'mutants-'))
  for (const name of readdirSync(root)) {
    if (ignored.includes(name)) continue
    cpSync(join(root, name), join(copy, name), { recursive: true, filter: (from) => !from.endsWith('/node_modules') && !from.includes('/docs/.vitepress/') })
  }
  for (const name of linked) symlinkSync(join(root, name), join(copy, name), 'junction')
  return copy
}

let known = {}
try {
  known = JSON.parse(readFileSync(cache, 'utf8'))
} catch {
  // Nothing is known yet.
}

function keyOf ({ file, from, to, tests }) {
  const hash = createHash('sha256')
  for (const part of [file, from, to, read(file), ...tests.flatMap((test) => [test, read(test)])]) hash.update(part).update('\0')
  return hash.digest('base64url')
}

const [text = ''] = process.argv.slice(2)
const left = mutants.filter(({ file, from }) => `${file}: ${from}`.includes(text))
const counts = { found: 0, 'found before': 0, 'NOT FOUND': 0 }

/** Whether one of the tests of a mutant fails in the copy. */
async function isFound (copy, { tests }) {
  const results = await run(tests, { root: copy, jobs: 1, isQuiet: true, longestSilence: 120_000 })
  return results.some(({ failures }) => failures.length > 0)
}

async function work (copy) {
  for (let mutant = left.shift(); mutant !== undefined; mutant = left.shift()) {
    const { file, from, to } = mutant
    const original = read(file)
    if (original.split(from).length !== 2) throw new Error(`Not once in ${file}: ${from}`)
    const key = keyOf(mutant)
    const start = performance.now()
    let result = 'found before'
    if (known[key] !== true) {
      writeFileSync(join(copy, file), original.replace(from, () => to))
      result = await isFound(copy, mutant) ? 'found' : 'NOT FOUND'
      writeFileSync(join(copy, file), original)
    }
    counts[result]++
    if (result === 'found') {
      known[key] = true
      mkdirSync(dirname(cache), { recursive: true })
      writeFileSync(cache, JSON.stringify(known))
    }
    console.log(`${result}, ${Math.round((performance.now() - start) / 1000)} s: ${file}: ${from}`)
  }
}

const copies = [copyOf(), copyOf()]
try {
  // Tests that fail without a mutant, or in a copy, would find everything.
  const files = [...new Set(left.filter((mutant) => known[keyOf(mutant)] !== true).flatMap(({ tests }) => tests))]
  const failing = (await run(files, { root: copies[0], isQuiet: true })).filter(({ failures }) => failures.length > 0)
  if (failing.length > 0) throw new Error(`These fail without a mutant: ${failing.map(({ file }) => file).join(', ')}`)
  await Promise.all(copies.map(work))
} finally {
  for (const copy of copies) rmSync(copy, { recursive: true, force: true })
}
console.log(Object.entries(counts).map(([result, count]) => `${result}: ${count}`).join(', '))
if (counts['NOT FOUND'] > 0) process.exitCode = 1
