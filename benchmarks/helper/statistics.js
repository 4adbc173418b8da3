/** Statistics of measurements, and random orders. */

/** Returns median, minimum and maximum. */
export function summary (values) {
  const sorted = values.toSorted((a, b) => a - b)
  const half = sorted.length >> 1
  const median = sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2
  return { median, min: sorted[0], max: sorted.at(-1) }
}

/** Returns a reproducible random number generator (mulberry32). For orders and mixtures, not for secrets. */
export function randomFrom (seed) {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6D2B79F5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

export function shuffled (values, random) {
  const copy = [...values]
  for (let last = copy.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [copy[last], copy[other]] = [copy[other], copy[last]]
  }
  return copy
}
