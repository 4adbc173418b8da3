/** What becomes of a process with postgres.js whose connections are reset while they begin. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { skip } from '../../database.ts'
import { postgresBackend } from '../../sessions/stores/backends.ts'

const program = fileURLToPath(new URL('../fixtures/reset-client.js', import.meta.url))

/** A network that resets one connection after the first message of its client, the next one after the second, and so on up to the fifth. */
async function resettingNetwork (t: Test, target: string): Promise<string> {
  const { port, hostname } = new URL(target)
  let connections = 0
  const server = createServer((client) => {
    let left = ++connections
    const database = connect(Number(port), hostname)
    for (const [from, to] of [[client, database], [database, client]] as const) {
      from.on('error', () => {}).on('close', () => { to.destroy() }).on('data', (bytes) => {
        if (from === client && connections <= 5 && --left === 0) client.resetAndDestroy()
        else to.write(bytes)
      })
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.close() })
  return Object.assign(new URL(target), { port: Object(server.address()).port }).href
}

for (const [options, survives] of [[{ fetch_types: false }, true], [{}, false]] as const) {
  t.test(`postgres.js with ${JSON.stringify(options)}: a process whose connections are reset ${survives ? 'goes on' : 'ends'}`, { skip: skip.postgres }, async (t) => {
    const { server } = await postgresBackend(t)
    const url = await resettingNetwork(t, server.url)
    // No loader of the test runner in there: it is the package that runs, as it was built.
    const { NODE_OPTIONS, ...env } = process.env
    const ended = await promisify(execFile)(process.execPath, [program], { env: { ...env, OPTIONS: JSON.stringify({ url, options }) } })
      .then(({ stdout }) => ({ code: 0, text: stdout }), ({ code, stderr }: { code: number, stderr: string }) => ({ code, text: stderr }))
    if (survives) t.same({ ...ended, text: Number(ended.text) > 0 }, { code: 0, text: true }, ended.text)
    else t.match(ended, { code: 1, text: 'ECONNRESET' })
  })
}
