/** The results of the last full run and of the last soak, with the machine and the versions. README.md and chart.svg are generated from them. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, totalmem, type } from 'node:os'
import { writeReport } from './report.js'

const file = new URL('results.json', import.meta.url)

export const readResults = () => existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {}

/** Replaces a part of the results and generates the report. */
export function updateResults (part) {
  const results = { ...readResults(), ...part }
  writeFileSync(file, `${JSON.stringify(results, rounded, 1)}\n`)
  writeReport(results)
}

/** More digits than the measurement supports would only add noise to the history. */
const rounded = (_key, value) => typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value

function system () {
  try {
    return /^PRETTY_NAME="(.*)"$/m.exec(readFileSync('/etc/os-release', 'utf8'))[1]
  } catch {
    return type()
  }
}

export const machine = () => ({
  processor: cpus()[0].model,
  cores: cpus().length,
  memory: `${Math.round(totalmem() / 2 ** 30)} GB`,
  system: system(),
  node: process.version
})

const versionOf = (url) => JSON.parse(readFileSync(url, 'utf8')).version

/** The installed versions: fastify, fast-jwt and the clients of databases as the library is tested with them, the others as the benchmarks use them. */
export function versions () {
  const own = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'))
  const found = { 'fastify-token-auth': versionOf(new URL('../package.json', import.meta.url)) }
  for (const name of ['fastify', 'fast-jwt', 'ioredis', 'redis', 'pg']) found[name] = versionOf(new URL(`../node_modules/${name}/package.json`, import.meta.url))
  for (const name of Object.keys(own.dependencies)) found[name] = versionOf(new URL(`node_modules/${name}/package.json`, import.meta.url))
  return found
}
