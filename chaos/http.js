/** Requests, each over a connection of its own. */
import { request } from 'node:http'

/** Sends a request. @param patience milliseconds @returns `{ status, body, incarnation }`; the status is null where no whole answer arrived in time */
export async function send (port, { method, path, token, body, patience }) {
  const text = body === undefined ? undefined : JSON.stringify(body)
  const headers = {
    ...token !== undefined && { authorization: `Bearer ${token}` },
    ...text !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
  }
  return await new Promise((resolve) => {
    const outgoing = request({ host: '127.0.0.1', port, method, path, headers, agent: false })
    const finish = (result) => {
      clearTimeout(timer)
      outgoing.destroy()
      resolve(result)
    }
    const timer = setTimeout(() => finish({ status: null }), patience)
    outgoing.on('error', () => finish({ status: null }))
    outgoing.on('response', (response) => {
      let received = ''
      response.setEncoding('utf8').on('data', (part) => { received += part })
      response.on('error', () => finish({ status: null }))
      response.on('close', () => { if (!response.complete) finish({ status: null }) })
      response.on('end', () => finish({ status: response.statusCode, body: parse(received), incarnation: response.headers['x-incarnation'] }))
    })
    outgoing.end(text)
  })
}

function parse (text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
