/** Sends requests over one connection, one after the other, and reads how much CPU time the server used for each. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { fileURLToPath } from 'node:url'

const servers = fileURLToPath(new URL('servers.js', import.meta.url))

const requestOf = (token) => Buffer.from(`GET / HTTP/1.1\r\nHost: localhost\r\n${token === null ? '' : `Authorization: Bearer ${token}\r\n`}\r\n`)

/** Sends `count` requests and waits for as many answers. A new answer is known by its status line: bodies are JSON. */
function send (socket, requests, count, from) {
  return new Promise((resolve, reject) => {
    let answered = 0
    socket.on('data', function onData () {
      // Requests go one by one, so that each packet is one answer; they are far smaller than a segment.
      if (++answered === count) {
        socket.off('data', onData).off('error', reject)
        resolve()
      } else {
        socket.write(requests[(from + answered) % requests.length])
      }
    })
    socket.once('error', reject)
    socket.write(requests[from % requests.length])
  })
}

/** A running server and a connection to it. */
export async function start (name) {
  const child = fork(servers, [name])
  const [{ port }] = await once(child, 'message')
  const socket = connect(port, '127.0.0.1')
  socket.setNoDelay(true)
  await once(socket, 'connect')
  let sent = 0

  async function cpu () {
    child.send('cpu')
    const [message] = await once(child, 'message')
    return message.cpu
  }

  return {
    /** Microseconds of the server's CPU time for each of `count` requests. */
    async measure (tokens, count) {
      const requests = tokens.map(requestOf)
      const before = await cpu()
      await send(socket, requests, count, sent)
      sent += count
      return (await cpu() - before) / count
    },
    async stop () {
      socket.destroy()
      child.disconnect()
      await once(child, 'exit')
    }
  }
}

export const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]
