/** A listener on the loopback interface that tells whether a guard fetches the addresses that tokens name. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Listener {
  readonly address: string
  /** The paths that were requested. */
  readonly fetched: ReadonlySet<string>
  close (): Promise<void>
}

/** @param jwk the key that it answers with, wherever it is asked */
export async function startListener (jwk: Readonly<Record<string, unknown>>): Promise<Listener> {
  const fetched = new Set<string>()
  const server = createServer((request, response) => {
    fetched.add(String(request.url))
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
