/** Measures whether many instances in one application, with the same secret, make a request slower. Requests go to their routes in turn, or all to one. */
import { getRequest } from '../helper/client.js'
import { compare } from '../helper/measure.js'
import { keysOf, manyTokens } from '../tokens.js'

const algorithm = 'HS256'

/** @param isWanted returns whether the comparison with a title is measured */
export async function instances (settings, isWanted = () => !settings.isQuick) {
  const title = 'instances, hot token'
  if (!isWanted(title)) return []
  const [token] = manyTokens(1)
  const requestsTo = (count) => Array.from({ length: count }, (_, index) => getRequest(token, `/${index}`))
  const options = { algorithm, keys: keysOf(algorithm) }
  const subject = (name, server, count) => ({ name, server, options: { ...options, count, routes: count }, requests: requestsTo(count), status: 200 })
  return [await compare(title, [
    subject('bare', 'bare with routes', 1),
    subject('bare again', 'bare with routes', 1),
    subject('1 context with a hook', 'bare with contexts', 1),
    subject('1,000 contexts with a hook', 'bare with contexts', 1000),
    { ...subject('1,000 instances, one asked', 'instances', 1000), requests: [getRequest(token, '/500')] },
    ...[1, 10, 100, 1000].map((count) => subject(`${count.toLocaleString('en')} instance${count > 1 ? 's' : ''}`, 'instances', count))
  ], settings)]
}
