/** Functions that the small examples share. */
import { realpathSync } from 'node:fs'
import { AuthenticationFailed } from 'fastify-token-auth'

/**
 * Creates an `authenticate` handler for a list of users. It compares plain-text passwords, which a real service must not do:
 * password.js shows how to store passwords and limit login attempts.
 */
export const passwordLogin = (users) => async ({ body: { username, password } }) => {
  const user = users.find((candidate) => candidate.name === username && candidate.password === password)
  if (user === undefined) throw new AuthenticationFailed('Wrong name or password.')
  return user
}

/**
 * Starts a service if its file is the program that was started. Does nothing if the file is imported.
 * @param program `import.meta.filename` of the file
 * @param createService creates the application
 * @param help returns what to try; called with the address and the application
 * @param port used if the environment variable PORT is not set; 0 selects a free port
 */
export async function start (program, createService, help, port = 3000) {
  const [, called] = process.argv
  if (called === undefined || realpathSync(called) !== program) return
  const app = await createService()
  const address = await app.listen({ port: Number(process.env.PORT ?? port), host: '127.0.0.1' })
  console.log(await help(address, app))
}

/** Returns a shell command that logs in and stores the access token in a variable. */
export const loginLine = (url, credentials, headers = '') =>
  `TOKEN=$(curl -s ${url}${headers} -H 'content-type: application/json' -d '${JSON.stringify(credentials)}' | sed 's/.*"access_token":"\\([^"]*\\)".*/\\1/')`

/** Returns a shell command that sends the access token. */
export const tokenLine = (url, more = '') => `curl -i ${url} -H "authorization: Bearer $TOKEN"${more}`
