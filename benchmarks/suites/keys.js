/** Compares a guarded route of an instance with four keys, which change over time, without and with three trusted issuers, with one of an instance with a single key. */
import { getRequest } from '../helper/client.js'
import { compare } from '../helper/measure.js'
import { keysOf, ringKid, ringOf, threeIssuers, tokenMaker } from '../tokens.js'

const algorithm = 'HS256'
/** So many times as many rounds as in other comparisons, because the difference is much smaller. */
const rounds = 6

/** @param isWanted returns whether the comparison with a title is measured */
export async function keys ({ windows, ...settings }, isWanted = () => !settings.isQuick) {
  const title = 'guards with keys'
  if (!isWanted(title)) return []
  // The same token for both: an instance with a single key ignores its `kid`.
  const token = tokenMaker(algorithm, { kid: ringKid })(1)
  const options = { algorithm, keys: keysOf(algorithm), ring: ringOf(algorithm), issuers: threeIssuers() }
  const subjects = [['one key', '/one'], ['one key again', '/one'], ['a ring of four', '/ring'], ['a ring of four and three issuers', '/issuers']].map(([name, path]) =>
    ({ name, server: title, process: title, options, requests: [getRequest(token, path)], status: 200, remembers: true }))
  return [await compare(title, subjects, { ...settings, windows: windows * rounds, baseline: 'one key' })]
}
