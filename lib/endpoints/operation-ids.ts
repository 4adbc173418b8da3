/** The ids of operations in the OpenAPI document, by which generated clients name their functions. */
import type { FastifyInstance } from 'fastify'

/** The ids in use, by the HTTP server of the application: an id must be unique in a document. */
const used = new WeakMap<object, Set<string>>()

/** Returns `<instanceName><Name>`. If instances of one application have the same name, the id of the second one ends in 2. */
export function nameOperation ({ server }: FastifyInstance, instanceName: string, name: string): string {
  const ids = used.get(server) ?? new Set()
  used.set(server, ids)
  const id = `${instanceName}${name[0]!.toUpperCase()}${name.slice(1)}`
  let unique = id
  for (let number = 2; ids.has(unique); number++) unique = `${id}${number}`
  ids.add(unique)
  return unique
}
