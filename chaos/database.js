/** A database server, started by scripts/database.js, which ends with this process. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const script = fileURLToPath(new URL('../scripts/database.js', import.meta.url))

export async function startDatabase (kind, ...parameters) {
  const child = spawn(process.execPath, [script, kind, ...parameters], { stdio: ['pipe', 'pipe', 'inherit'] })
  const exit = once(child, 'exit')
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const read = async () => {
    const { value, done } = await lines.next()
    if (done) throw new Error(`The server of the kind "${kind}" failed.`)
    return JSON.parse(value)
  }
  const command = async (name) => {
    child.stdin.write(`${name}\n`)
    await read()
  }
  const { url, urls = [url] } = await read()
  return {
    url,
    urls,
    /** As a crash would. */
    kill: async () => await command('kill'),
    start: async () => await command('start'),
    async end () {
      child.stdin.end()
      await exit
    }
  }
}

/** `{ host, port }` of a URL. */
export const placeOf = (url) => {
  const { hostname, port } = new URL(url)
  return { host: hostname, port: Number(port) }
}
