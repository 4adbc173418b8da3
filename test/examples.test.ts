import t from 'tap'
import type { FastifyInstance } from 'fastify'

interface Service {
  createService: (options?: { fastify?: object, secret?: string }) => Promise<FastifyInstance>
  instructions: (app: FastifyInstance, address: string) => Promise<string>
}

/** The example uses the built package, as users do. */
const example = new URL('../examples/server.js', import.meta.url).href
const { createService, instructions }: Service = await import(example)

interface Answer { status: number, body: string }

/** Sends what a curl line would send. Shell variables in it are replaced first, as the shell would do. */
async function curl (line: string, variables: Record<string, string>): Promise<Answer> {
  const command = line.replaceAll(/\$([A-Z]+)/g, (_, name: string) => variables[name] ?? '').replaceAll('\\"', '\u0000')
  const words = [...command.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map((match) => (match[1] ?? match[2] ?? match[3] ?? '').replaceAll('\u0000', '"'))
  const headers: Record<string, string> = {}
  let url = ''
  let body: string | undefined
  for (let index = 1; index < words.length; index++) {
    const word = words[index] ?? ''
    if (word === '-H') {
      const [name = '', value = ''] = (words[++index] ?? '').split(/: (.*)/s)
      headers[name] = value
    } else if (word === '-d') {
      body = words[++index]
    } else if (word.startsWith('http')) {
      url = word
    }
  }
  const response = await fetch(url, body === undefined ? { headers } : { method: 'POST', headers, body })
  return { status: response.status, body: await response.text() }
}

t.test('every curl line that the example service prints does what its title says', async (t) => {
  const app = await createService()
  t.teardown(() => app.close())
  const address = await app.listen({ port: 0, host: '127.0.0.1' })
  const steps = (await instructions(app, address)).split('\n\n').map((step) => step.trim().split('\n'))
  const variables: Record<string, string> = {}
  let count = 0
  for (const [title = '', ...lines] of steps) {
    const [first = ''] = lines
    const command = first.replace(/^RESPONSE=\$\((.*)\)$/, '$1')
    const { status, body } = await curl(command, variables)
    if (command !== first) {
      const tokens: Record<string, string> = JSON.parse(body)
      Object.assign(variables, { TOKEN: tokens.access_token, REFRESH: tokens.refresh_token })
    }
    const expected = Number(/: (\d{3})/.exec(title)?.[1] ?? 200)
    t.equal(status, expected, title)
    t.ok(body.startsWith('{') && body.endsWith('}'), `${title}: the answer is JSON`)
    count++
  }
  t.equal(count, 11)
})

t.test('the example greets whom it knows by name, and strangers too', async (t) => {
  const app = await createService()
  t.teardown(() => app.close())
  const login = await app.inject({ method: 'POST', url: '/auth', payload: { username: 'ada', password: 'lovelace' } })
  const headers = { authorization: `Bearer ${login.json().access_token}` }
  t.same((await app.inject({ url: '/hello', headers })).json(), { hello: 'ada' })
  t.same((await app.inject({ url: '/hello' })).json(), { hello: 'stranger' })
  t.same((await app.inject({ url: '/' })).json(), { hello: 'world' })
})

t.test('the example answers an unknown name as it answers a wrong password', async (t) => {
  const app = await createService()
  t.teardown(() => app.close())
  const [unknown, wrong] = await Promise.all([{ username: 'nobody', password: 'nobody' }, { username: 'ada', password: 'x' }]
    .map((payload) => app.inject({ method: 'POST', url: '/auth', payload })))
  t.equal(unknown?.statusCode, 401)
  t.equal(unknown?.payload, wrong?.payload)
})
