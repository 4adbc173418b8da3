/**
 * Runs test files: several in one process, one after the other, and two processes at once. A process that starts costs more
 * than most files do. Each gets its next file when it has ended one, so that all end at about the same time. See
 * CONTRIBUTING.md for the commands.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Parser } from 'tap-parser'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** What the last run found, for scripts/test/repeat.js: the tests that failed, by file. */
export const report = fileURLToPath(new URL('../../node_modules/.cache/tests.json', import.meta.url))

/**
 * How many processes run at once, how many files one of them runs at most, in milliseconds after what silence it hangs, in what folder
 * it runs, and whether nothing is printed.
 */
const defaults = { jobs: 2, filesInProcess: 24, longestSilence: 300_000, root, isQuiet: false }

/** The folders of tests with commands of their own. */
const apart = ['outside', 'limits']
const all = readdirSync(`${root}/test`, { recursive: true, encoding: 'utf8' })
  .map((name) => `test/${name.replaceAll('\\', '/')}`)
  .filter((file) => file.endsWith('.test.ts') && !file.includes('node_modules'))
  .sort()
/** Whether the first line of a file has a mark, such as `// @alone @slow`. */
const isMarked = (file, mark) => {
  const [first] = readFileSync(`${root}/${file}`, 'utf8').split('\n', 1)
  return first.startsWith('// @') && first.split(' ').includes(`@${mark}`)
}

/** The test files of `npm test`, or those of a folder that has a command of its own. */
export const testFiles = (folder) => all.filter((file) => folder === undefined ? !apart.some((name) => file.startsWith(`test/${name}/`)) : file.startsWith(`test/${folder}/`))
/** The test files that `npm run test:quick` leaves out, because they begin with the line `// @slow`. */
export const isSlow = (file) => isMarked(file, 'slow')

/** Files in the order in which they begin: first those that have a process for themselves, which take longest, then those that are slow. */
const inOrder = (files) => {
  const rank = (file) => isMarked(file, 'alone') ? 0 : isSlow(file) ? 1 : 2
  return files.map((file) => ({ file, rank: rank(file) })).sort((a, b) => a.rank - b.rank).map(({ file }) => file)
}

/** Counts the checks of a file, and collects those that fail and the reasons of what is skipped. */
function watch (parser, result) {
  parser.on('child', (child) => watch(child, result))
  parser.on('assert', ({ ok, skip, closingTestPoint, fullname, diag }) => {
    if (skip) result.skipped.push(String(skip))
    if (closingTestPoint) return
    if (ok) result.passed++
    else result.failures.push({ fullname, diag: diag ?? {} })
  })
}

const indent = (text) => text.replace(/^/gm, '    ')
const shown = ([name, value]) => typeof value === 'string' && value.includes('\n') ? `${name}:\n${indent(value)}` : `${name}: ${JSON.stringify(value)}`

function print (result) {
  console.log(`${result.failures.length === 0 ? 'ok  ' : 'FAIL'} ${(result.time / 1000).toFixed(1).padStart(6)} s  ${result.file}`)
  for (const { fullname, diag } of result.failures) console.log(`  not ok: ${fullname}\n${indent(Object.entries(diag).map(shown).join('\n'))}`)
}

// A process that is ended by a signal has no event 'exit', and its children would go on.
for (const [signal, code] of [['SIGINT', 130], ['SIGTERM', 143]]) process.once(signal, () => process.exit(code))

/** Runs files in one process, which takes them from those that are left. Resolves with a result for each. */
function runProcess (left, { filesInProcess, node = process.execPath, args = [], env = {}, root, longestSilence, isQuiet }) {
  const show = (result) => { if (!isQuiet) print(result) }
  const limit = isMarked(left[0], 'alone') ? 1 : filesInProcess
  const results = new Map()
  const child = spawn(node, [...args, join(root, 'scripts/test/process.js')], {
    cwd: root, detached: process.platform !== 'win32', stdio: ['ignore', 'pipe', 'pipe', 'ipc'], env: { ...process.env, TAP_TIMEOUT: '0', ...env }
  })
  let errors = ''
  const kill = () => { try { process.kill(process.platform === 'win32' ? child.pid : -child.pid, 'SIGKILL') } catch {} }
  const silence = setTimeout(kill, longestSilence)
  process.once('exit', kill)
  child.stdout.on('data', () => silence.refresh())
  child.stderr.setEncoding('utf8').on('data', (text) => { errors += text })
  const parser = new Parser()
  const open = new Set()
  const give = () => {
    const file = left.shift()
    results.set(file, { file, tests: [], passed: 0, failures: [], skipped: [], time: 0 })
    open.add(file)
    // A process that has just ended does not get it: then the file has failed.
    child.send(file, () => {})
  }
  give()
  child.on('message', (message) => {
    // tap has messages of its own.
    if (message !== 'ended') return
    if (left.length > 0 && results.size < limit) give()
    else child.send('end', () => {})
  })
  parser.on('child', (file) => {
    const result = results.get(file.name)
    if (result === undefined) return
    file.on('assert', ({ name, ok }) => result.tests.push({ name, ok }))
    watch(file, result)
  })
  parser.on('assert', ({ name, ok, time, fullname, diag }) => {
    const result = results.get(name)
    if (result === undefined) return
    open.delete(name)
    result.time = time ?? 0
    if (!ok && result.failures.length === 0) result.failures.push({ fullname, diag: diag ?? {} })
    if (ok && result.tests.length === 0) result.failures.push({ fullname, diag: { reason: 'The file has no tests.' } })
    show(result)
  })
  child.stdout.pipe(parser)
  return new Promise((resolve) => {
    child.once('close', (code, signal) => {
      clearTimeout(silence)
      process.off('exit', kill)
      const given = [...results.values()]
      for (const file of open) {
        const result = results.get(file)
        result.failures.push({ fullname: file, diag: { reason: `The process ended before the file did: ${signal ?? code}` } })
        show(result)
      }
      const isFailed = given.some(({ failures }) => failures.length > 0)
      if (code !== 0 && !isFailed) {
        const last = given.at(-1)
        last.failures.push({ fullname: last.file, diag: { reason: `The process failed after its tests: ${signal ?? code}` } })
        show(last)
      }
      if ((isFailed || code !== 0) && !isQuiet && errors !== '') console.log(indent(errors))
      resolve(given)
    })
  })
}

/** Runs test files. Resolves with a result for each: its checks that passed and failed, what it skipped, its time in milliseconds. */
export async function run (files, given = {}) {
  const options = { ...defaults, ...given }
  const waiting = inOrder(files.filter((file) => isMarked(file, 'waits')))
  const others = inOrder(files.filter((file) => !isMarked(file, 'waits')))
  const results = []
  const runAllOf = async (...lists) => {
    for (const left of lists) while (left.length > 0) results.push(...await runProcess(left, options))
  }
  // Files that wait most of the time leave the processor to the others.
  await Promise.all([runAllOf(waiting), ...Array.from({ length: options.jobs }, () => runAllOf(others, waiting))])
  return results
}

const failed = ({ failures }) => failures.length > 0
const failedTests = ({ tests, failures }) => {
  const names = tests.filter(({ ok }) => !ok).map(({ name }) => name)
  return names.length > 0 ? names : failures.map(({ fullname }) => fullname)
}

/**
 * Runs test files, and in CI those that fail once more, alone: what passes then is unsteady. Prints what was left out, and
 * the number of checks as .ci/run reads it. Sets the exit code.
 */
export async function runAll (files, options) {
  let results = await run(files, options)
  const unsteady = []
  if (process.env.CI === 'true') {
    for (const first of results.filter(failed)) {
      console.log(`Once more, alone: ${first.file}`)
      const [again] = await run([first.file], { ...options, jobs: 1 })
      results = results.map((result) => result === first ? again : result)
      if (!failed(again)) unsteady.push(...failedTests(first).map((test) => `unsteady: ${first.file}: ${test}`))
    }
  }
  const sum = (count) => results.reduce((total, result) => total + count(result), 0)
  for (const reason of new Set(results.flatMap(({ skipped }) => skipped))) console.log(`Left out: ${reason}`)
  for (const line of unsteady) console.log(line)
  mkdirSync(dirname(report), { recursive: true })
  writeFileSync(report, JSON.stringify(Object.fromEntries(results.filter(failed).map((result) => [result.file, failedTests(result)]))))
  console.log(`# { files: ${results.length}, tests: ${sum(({ tests }) => tests.length)}, pass: ${sum(({ passed }) => passed)}, fail: ${sum(({ failures }) => failures.length)} }`)
  if (results.length === 0 || results.some(failed)) process.exitCode = 1
  return results
}
