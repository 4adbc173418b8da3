/** Returns the Levenshtein distance of two names: the number of characters to insert, remove or replace. */
function distance (a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const substitution = previous[column - 1]! + (a[row - 1] === b[column - 1] ? 0 : 1)
      current.push(Math.min(substitution, previous[column]! + 1, current[column - 1]! + 1))
    }
    previous = current
  }
  return previous[b.length]!
}

/**
 * Returns ` Did you mean "...?"` with the valid name that is most similar to an unknown one, or an empty string if none is
 * similar. It is slow, so it is only for errors in the code of the application, never for input of clients.
 */
export function suggest (name: string, valid: Iterable<string>): string {
  let best = ''
  const wanted = name.slice(0, 64).toLowerCase()
  let least = Math.max(3, Math.ceil(wanted.length / 3))
  for (const candidate of valid) {
    const edits = distance(wanted, candidate.toLowerCase())
    if (edits < least) [least, best] = [edits, candidate]
  }
  return best === '' ? '' : ` Did you mean "${best}"?`
}
