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

/** Returns a function that measures a batch, which takes at least the given milliseconds. */
async function batchOf (operation, { milliseconds }) {
  const measure = operation(0) instanceof Promise ? runAsync : run
  let count = 1
  while (await measure(operation, count) * count < milliseconds * 1000) count *= 2
  return () => measure(operation, count)
}

/** Measures one call of several operations in microseconds: median, min and max of batches, in turn, so that all get the same load of the machine. */
export async function timesOf (operations, settings) {
  const measured = []
  for (const [name, operation] of Object.entries(operations)) measured.push({ name, batch: await batchOf(operation, settings), times: [] })
  for (let count = 0; count < batches; count++) {
    for (const { batch, times } of measured) times.push(await batch())
  }
  return measured.map(({ name, times }) => ({ name, ...summary(times) }))
}

/** Measures one call of an operation in microseconds. */
export async function timeOf (operation, settings) {
  const [{ median, min, max }] = await timesOf({ operation }, settings)
  return { median, min, max }
}
