/** What the small examples have in common, so that each can keep to its subject. */
import { realpathSync } from 'node:fs'
import { AuthenticationFailed } from 'fastify-token-auth'

/**
 * Makes an `authenticate` handler for a list of users. It compares passwords as they stand, which no real service does:
 * password.js shows what to store instead, and how to slow down those who guess.
 */
export const passwordLogin = (users) => async ({ body: { username, password } }) => {
  const user = users.find((candidate) => candidate.name === username && candidate.password === password)
  if (user === undefined) throw new AuthenticationFailed('Wrong name or password.')
  return user
}

/**
 * Starts a service if its file is the program that was called, not when it is imported.
 * @param program `import.meta.filename` of the file
 * @param createService makes the application
 * @param help says what to try; called with the address and the application
 * @param port where the environment variable PORT gives none; 0 takes any that is free
 */
export async function start (program, createService, help, port = 3000) {
  const [, called] = process.argv
  if (called === undefined || realpathSync(called) !== program) return
  const app = await createService()
  const address = await app.listen({ port: Number(process.env.PORT ?? port), host: '127.0.0.1' })
  console.log(await help(address, app))
}

/** A shell line that logs in and keeps the access token. */
export const loginLine = (url, credentials, headers = '') =>
  `TOKEN=$(curl -s ${url}${headers} -H 'content-type: application/json' -d '${JSON.stringify(credentials)}' | sed 's/.*"access_token":"\\([^"]*\\)".*/\\1/')`

/** A shell line that sends the token. */
export const tokenLine = (url, more = '') => `curl -i ${url} -H "authorization: Bearer $TOKEN"${more}`
