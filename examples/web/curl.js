/** The `curl` commands of the page /curl. */
import { expiredToken } from './api.js'
import { findUser } from './users.js'

/**
 * Returns the commands. They keep the cookies in the file cookies.txt. Like most browsers, curl accepts Secure cookies from
 * http://127.0.0.1.
 */
async function commands ({ tokenAuth, listeningOrigin: address }) {
  const expired = await expiredToken(tokenAuth, findUser(1))
  const json = "-H 'content-type: application/json'"
  const lines = [
    ['Log in. The response sets the tokens as cookies', `curl -si ${address}/auth ${json} -d '{"username":"ada","password":"lovelace"}'`],
    ['Log in as another user, and store the cookies in a file', `curl -s ${address}/auth -c cookies.txt ${json} -d '{"username":"grace","password":"hopper"}'`],
    ['A wrong password: 401', `curl -si ${address}/auth ${json} -d '{"username":"ada","password":"wrong"}'`],
    ['Check whether the token is valid', `curl -s ${address}/auth/verify -b cookies.txt`],
    ['Get the current user', `curl -s ${address}/auth/me -b cookies.txt`],
    ['Call a protected route', `curl -s ${address}/private -b cookies.txt`],
    ['Call it without a token: 401', `curl -si ${address}/private`],
    ['Call a route that requires the scope reports:read', `curl -s ${address}/reports -b cookies.txt`],
    ['Call a route that requires reports:write, which grace does not have: 403', `curl -si ${address}/reports -b cookies.txt ${json} -d '{"title":"April","text":"Rain."}'`],
    ['Exchange the refresh token for new tokens, which the response sets as cookies', `curl -si ${address}/auth/refresh -b cookies.txt -c cookies.txt -X POST`],
    ['List the sessions of the user: one for each login', `curl -s ${address}/auth/sessions -b cookies.txt`],
    ['Log out, which ends the session and clears the cookies: 204', `curl -si ${address}/auth/logout -b cookies.txt -X POST`],
    ['The access token of an ended session: 401', `curl -si ${address}/private -b cookies.txt`],
    ['Check an expired token: 400', `curl -si ${address}/auth/verify -H "authorization: Bearer ${expired}"`]
  ]
  return lines.map(([title, command]) => `# ${title}\n${command}\n`).join('\n')
}

export async function addCommands (app) {
  // The address is that of the server, not the Host header, which a client can choose.
  app.get('/curl', { config: { tokenAuth: false }, schema: { hide: true } }, async (request, reply) => {
    reply.type('text/plain; charset=utf-8')
    return await commands(app)
  })
}
