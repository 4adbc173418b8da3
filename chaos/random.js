/** Random numbers that depend on a seed and a name, so that one more client does not change what the others do. */

/** FNV-1a, then mulberry32. */
export function randomOf (seed, name) {
  let state = 0x811c9dc5
  for (const byte of Buffer.from(`${seed} ${name}`)) state = Math.imul(state ^ byte, 0x01000193)
  const next = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return {
    /** From `low` to below `high`. */
    between: (low, high) => low + next() * (high - low),
    /** True with this probability. */
    is: (probability) => next() < probability,
    oneOf: (list) => list[Math.floor(next() * list.length)]
  }
}
