/** Measures functions in a tight loop, for parts of a request that are too short to measure in a server. */
import { summary } from './statistics.js'

const batches = 9

/** Results are assigned to this variable, so that the compiler does not remove the computation. */
let sink
export const keep = (value) => { sink = value }
export const kept = () => sink

function run (operation, count) {
  const start = process.hrtime.bigint()
  for (let index = 0; index < count; index++) sink = operation(index)
  return Number(process.hrtime.bigint() - start) / 1000 / count
}

async function runAsync (operation, count) {
  const start = process.hrtime.bigint()
  for (let index = 0; index < count; index++) sink = await operation(index)
  return Number(process.hrtime.bigint() - start) / 1000 / count
}

/** Measures one call in microseconds: median, min and max of batches. A batch takes at least the given milliseconds. */
export async function timeOf (operation, { milliseconds }) {
  const measure = operation(0) instanceof Promise ? runAsync : run
  let count = 1
  while (await measure(operation, count) * count < milliseconds * 1000) count *= 2
  const times = []
  for (let batch = 0; batch < batches; batch++) times.push(await measure(operation, count))
  return summary(times)
}

/** Measures several operations by name. */
export async function timesOf (operations, settings) {
  const rows = []
  for (const [name, operation] of Object.entries(operations)) rows.push({ name, ...await timeOf(operation, settings) })
  return rows
}
