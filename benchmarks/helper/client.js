/** A client with little overhead: requests are prepared bytes, and it reads only the status and the length of responses. */
import { once } from 'node:events'
import { connect } from 'node:net'

export function getRequest (token, path = '/') {
  const authorization = token === null ? '' : `Authorization: Bearer ${token}\r\n`
  return Buffer.from(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n${authorization}\r\n`)
}

export function postRequest (path, body, token = null) {
  const text = JSON.stringify(body)
  const authorization = token === null ? '' : `Authorization: Bearer ${token}\r\n`
  return Buffer.from(`POST ${path} HTTP/1.1\r\nHost: localhost\r\n${authorization}Content-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`)
}

/** Returns whether the received text is a complete response. */
function isComplete (text) {
  const end = text.indexOf('\r\n\r\n')
  if (end === -1) return false
  if (text.startsWith('HTTP/1.1 204')) return true
  const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, end + 2))
  return length === null ? text.endsWith('0\r\n\r\n') : text.length >= end + 4 + Number(length[1])
}

class Connection {
  #socket
  #text = ''
  /** @type {(status: number, text: string) => void} */
  #answered

  constructor (port) {
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true })
    this.#socket.setEncoding('latin1')
    // Otherwise the benchmark would wait forever for the response.
    this.#socket.on('close', () => { throw new Error('A server closed a connection.') })
    this.#socket.on('data', (text) => {
      this.#text += text
      if (!isComplete(this.#text)) return
      const answer = this.#text
      this.#text = ''
      this.#answered(Number(answer.slice(9, 12)), answer)
    })
  }

  open () { return once(this.#socket, 'connect') }

  close () {
    this.#socket.removeAllListeners('close')
    this.#socket.destroy()
  }

  send (request, answered) {
    this.#answered = answered
    this.#socket.write(request)
  }
}

export async function openConnections (port, count) {
  const connections = Array.from({ length: count }, () => new Connection(port))
  await Promise.all(connections.map((connection) => connection.open()))
  return connections
}

/**
 * Sends `count` requests over several connections, one after the other on each, and waits for all responses.
 * @param requestOf returns the request with a given number
 * @param check throws if a response is not the expected one
 */
export function exchange (connections, requestOf, count, check) {
  return new Promise((resolve, reject) => {
    let sent = 0
    let answered = 0
    const next = (connection) => {
      if (sent === count) return
      const number = sent++
      connection.send(requestOf(number), (status, text) => {
        try {
          check(status, number, text)
        } catch (error) {
          return reject(error)
        }
        if (++answered === count) resolve()
        else next(connection)
      })
    }
    connections.forEach(next)
  })
}

/** Sends one request and returns its response. */
export async function fetchOnce ([connection], request) {
  let answer
  await exchange([connection], () => request, 1, (status, _number, text) => { answer = { status, body: JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4)) } })
  return answer
}
