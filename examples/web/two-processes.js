/**
 * Two processes of the service of server.js with one store of sessions: `npm run start:redis` and `npm run start:postgres`
 * build the package and run this program. Environment variables:
 *
 * - REDIS_URL or DATABASE_URL: the address of the server
 * - PORT: the port of the first process (default 3000). The second one has the next. 0 selects two free ports.
 * - SECRET: the secret that signs the tokens, of at least 32 bytes. With it, users are still logged in after a restart.
 *   Default: random. The sessions of earlier starts are then still listed on the page "Your devices", but cannot be used.
 * - COOKIE_SECURE: see server.js
 */
import { fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { stores } from './stores.js'

const { PORT = '3000', SECRET = randomBytes(32).toString('base64') } = process.env

/** Ends this process, and the others with it. */
function fail (message) {
  console.error(message)
  process.exit(1)
}

async function startProcess (settings) {
  // The secret is sent as a message, because the arguments of a process are visible to all users of a machine.
  const child = fork(new URL('service-process.js', import.meta.url))
  child.once('exit', () => fail('One of the two processes has ended, so the other one is ended, too.'))
  child.send(settings)
  const [{ address, failure }] = await once(child, 'message')
  return address ?? fail(`The service cannot start: ${failure}.`)
}

/** The `curl` commands that the program prints. They keep the cookies in the file cookies.txt, which ports of one host share. */
function instructions (first, second) {
  const lines = [
    ['Log in at the first process, and store the cookies in a file', `curl -s ${first}/auth -c cookies.txt -H 'content-type: application/json' -d '{"username":"ada","password":"lovelace"}'`],
    ['Refresh at the second process, which sets the new tokens as cookies', `curl -si ${second}/auth/refresh -b cookies.txt -c cookies.txt -X POST`],
    ['List the sessions of the user at the second process', `curl -s ${second}/auth/sessions -b cookies.txt`],
    ['Log out at the first process, which clears the cookies. The file still has them: 204', `curl -si ${first}/auth/logout -b cookies.txt -X POST`],
    ['The second process refuses the refresh token at once, because it asks the store: 401', `curl -si ${second}/auth/refresh -b cookies.txt -X POST`],
    ['It refuses the access token within 2 seconds, the default of the setting `poll`: 401', `curl -si ${second}/private -b cookies.txt`]
  ]
  return lines.map(([title, command]) => `# ${title}\n${command}\n`).join('\n')
}

// A program that forked this one, such as a test, ends it also when it is killed.
process.once('disconnect', () => process.exit())

const [, , name] = process.argv
if (!Object.hasOwn(stores, name ?? '')) fail(`Name the store, ${Object.keys(stores).join(' or ')}, as in: node examples/web/two-processes.js redis`)
const { database, variable, example, prepare } = stores[name]
const url = process.env[variable]
if (!url) fail(`Set ${variable} to the address of a ${database} server, as in: ${variable}=${example} npm run start:${name}`)
try {
  await prepare(url)
} catch (error) {
  // Where a name has several addresses, none of which answers, the error has no message.
  fail(`The ${database} server of ${variable} cannot be used: ${error.message || error.code}.`)
}

const port = Number(PORT)
const [first, second] = await Promise.all([port, port && port + 1].map((port) => startProcess({ name, url, secret: SECRET, port })))
console.log(`Open ${first} and ${second} in a browser. Press Ctrl-C to stop.
ada (password lovelace) may read and write reports, grace (password hopper) may only read them.

Cookies belong to a host, not to a port: who logs in at one process is logged in at the other. Log in with another browser,
too, and end its session on the page ${second}/devices.html.

Or use curl:

${instructions(first, second)}`)
