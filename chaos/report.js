/** What a run tells. */

/** At most so many violations are printed in full, and so many operations of each. */
const shown = 5
const shownOperations = 40

const seconds = (milliseconds) => (milliseconds / 1000).toFixed(3).padStart(8)

/** An entry of a history in one line. */
export function describe (entry) {
  const { type, name, from, to, ...details } = entry
  const told = Object.entries(details).filter(([, value]) => value !== undefined).map(([key, value]) => `${key}=${typeof value === 'object' && value !== null ? JSON.stringify(value) : value}`)
  return `${seconds(from)} - ${seconds(to ?? from)} ${type === 'operation' ? name : `[${type}${name === undefined ? '' : ` ${name}`}]`} ${told.join(' ')}`
}

const countBy = (values) => {
  const counts = {}
  for (const value of values) counts[value] = (counts[value] ?? 0) + 1
  return Object.entries(counts).map(([value, count]) => `${value} ${count}`).join(', ')
}

/** Prints what was done, and what of it broke a promise. @returns the exit code */
export function reportOf (entries, { violations, causes }, { log }) {
  const [{ kind }] = entries
  const operations = entries.filter(({ type }) => type === 'operation')
  const faults = entries.filter(({ type }) => type === 'fault')
  log(`${kind}: ${operations.length} requests of ${new Set(operations.map(({ client }) => client)).size} clients. ${countBy(operations.map(({ name, status }) => `${name} ${status ?? 'without answer'}`))}.`)
  log(`  Faults: ${countBy(faults.map(({ name }) => name)) || 'none'}. Sessions that ended: ${Object.entries(causes).map(([cause, count]) => `${cause} ${count}`).join(', ') || 'none'}.`)
  log(`  ${violations.length === 0 ? 'No promise was broken.' : `Broken promises: ${countBy(violations.map(({ rule }) => rule))}.`}`)
  for (const { rule, message, operations } of violations.slice(0, shown)) {
    log(`\n  ${rule}: ${message}`)
    const begin = Math.min(...operations.map(({ from }) => from))
    const end = Math.max(...operations.map(({ from, to }) => to ?? from))
    const around = faults.filter(({ from, to }) => from <= end && to >= begin - 10_000)
    for (const entry of [...operations.slice(-shownOperations), ...around].sort((one, other) => one.from - other.from)) log(`    ${describe(entry)}`)
  }
  return violations.length === 0 ? 0 : 1
}
