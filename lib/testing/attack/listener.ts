/** A listener on the loopback interface that records whether a guard fetches the addresses that tokens name. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The paths of the listener, named after the part of the token that has its address. */
export type Trap = '/jku' | '/x5u' | '/iss'

/** Guards fetch metadata and keys of an issuer from various paths, so any path but the other two is a trap of the issuer. */
const trapOf = (path: string): Trap => (['/jku', '/x5u'] as const).find((trap) => path.startsWith(trap)) ?? '/iss'

export interface Listener {
  readonly address: string
  /** The traps that were requested. */
  readonly fetched: ReadonlySet<Trap>
  close (): Promise<void>
}

/** @param jwk the key in every response */
export async function startListener (jwk: Readonly<Record<string, unknown>>): Promise<Listener> {
  const fetched = new Set<Trap>()
  const server = createServer((request, response) => {
    fetched.add(trapOf(String(request.url)))
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ issuer: `${address}/iss`, jwks_uri: `${address}/iss/jwks`, keys: [{ ...jwk, kid: 'attack' }] }))
  })
  await new Promise<void>((resolve, reject) => { server.once('error', reject).listen(0, '127.0.0.1', resolve) })
  const { port } = server.address() as AddressInfo
  const address = `http://127.0.0.1:${port}`
  return {
    address,
    fetched,
    close: async () => {
      const closed = new Promise<void>((resolve) => { server.close(() => resolve()) })
      server.closeAllConnections()
      await closed
    }
  }
}
