/** How tests measure: each doubles its input, and compares what that costs with what the half of it did. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Microseconds of CPU time: what else runs on the machine takes none of this process. */
export async function cpuTimeOf (work: () => unknown): Promise<number> {
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  return user + system
}

/** Work below this, in microseconds, is repeated: the clock could not tell it from nothing. */
const leastTime = 4000
/** The input is doubled so many times at once: where an engine stores a longer text or list in another way, one step costs more. */
const doublings = 3
/** Twice the input costs twice the time where it is linear, and four times where it is quadratic. */
const mostForTwice = 3.4

/**
 * How many times as much time twice the input takes as the input, on average of the steps: the least of several rounds, in
 * which both take turns.
 * @param make the work for an input of a size
 */
export async function timesForTwice (make: (size: number) => () => unknown, size: number): Promise<number> {
  const [small, large] = [make(size), make(2 ** doublings * size)]
  const repeated = (work: () => unknown, count: number) => async () => { for (let index = 0; index < count; index++) await work() }
  let count = 1
  while (await cpuTimeOf(repeated(small, count)) < leastTime) count *= 2
  const costs = [Infinity, Infinity]
  for (let round = 0; round < 5; round++) {
    // As many for both, of the large one a part: it takes long enough.
    for (const [index, [work, times]] of ([[small, count], [large, Math.ceil(count / 2 ** doublings)]] as const).entries()) {
      costs[index] = Math.min(costs[index]!, await cpuTimeOf(repeated(work, times)) / times)
    }
  }
  return (costs[1]! / costs[0]!) ** (1 / doublings)
}

/** The names of the works whose time grows faster than their input. */
export async function notLinear (works: Readonly<Record<string, (size: number) => () => unknown>>, size: number): Promise<string[]> {
  const found: string[] = []
  for (const [name, make] of Object.entries(works)) {
    const times = await timesForTwice(make, size)
    if (times > mostForTwice) found.push(`${name}: ${times.toFixed(1)} times the time for twice the input`)
  }
  return found
}

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

/** Bytes of the heap that something keeps: after it, compared with before, without garbage. */
export async function keptBy (work: () => unknown): Promise<number> {
  const used = () => { collectGarbage(); return process.memoryUsage().heapUsed }
  const before = used()
  await work()
  return used() - before
}

/**
 * Bytes that each further unit of an input keeps: the median of several rounds of what twice the input keeps more than the
 * input. What a process keeps once, such as compiled code, is not counted.
 */
export async function keptByEach (make: (count: number) => () => unknown, count: number): Promise<number> {
  const rounds: number[] = []
  for (let round = -1; round < 5; round++) {
    const once = await keptBy(make(count))
    const twice = await keptBy(make(2 * count))
    if (round >= 0) rounds.push((twice - once) / count)
  }
  return rounds.sort((one, other) => one - other)[2]!
}

export { collectGarbage }
