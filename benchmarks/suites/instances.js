/** Many instances in one application: does a request cost more? Each request goes to the next instance's route. */
import { getRequest } from '../helper/client.js'
import { compare } from '../helper/measure.js'
import { keysOf, manyTokens } from '../tokens.js'

const algorithm = 'HS256'

export async function instances (settings) {
  const [token] = manyTokens(1)
  const requestsTo = (count) => Array.from({ length: count }, (_, index) => getRequest(token, `/${index}`))
  const options = { algorithm, keys: keysOf(algorithm) }
  const subject = (name, server, count) => ({ name, server, options: { ...options, count, routes: count }, requests: requestsTo(count), status: 200 })
  return [await compare('instances, hot token', [
    subject('bare', 'bare with routes', 1),
    subject('bare again', 'bare with routes', 1),
    subject('bare, 1,000 routes', 'bare with routes', 1000),
    ...[1, 10, 100, 1000].map((count) => subject(`${count.toLocaleString('en')} instance${count > 1 ? 's' : ''}`, 'instances', count))
  ], settings)]
}
