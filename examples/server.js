/**
 * A small service: it knows two users, issues tokens to them and guards two routes. Built and started by `npm start`.
 * The port can be given in the environment variable PORT; 0 takes any that is free.
 */
import { randomBytes, scryptSync, timingSafeEqual } from 'node:crypto'
import { pathToFileURL } from 'node:url'
import Fastify from 'fastify'
import tokenAuth, { AuthenticationFailed } from 'fastify-token-auth'

/** A password is never stored, only what scrypt makes of it. */
const hash = (password, salt) => scryptSync(password, salt, 32)

function makeUser (id, name, password, scopes) {
  const salt = randomBytes(16)
  return { user_id: id, name, scopes, salt, hash: hash(password, salt) }
}

const users = [
  makeUser(1, 'ada', 'lovelace', ['reports']),
  makeUser(2, 'grace', 'hopper', ['reports:read'])
]
const stranger = makeUser(0, '', 'nobody', [])

/** What clients may see of a user. */
const shown = ({ salt, hash, ...user }) => user

/** The user with a name and password; a wrong name costs as much time as a wrong password. */
function findUser ({ username, password }) {
  const user = users.find(({ name }) => name === username) ?? stranger
  const isRight = timingSafeEqual(user.hash, hash(String(password), user.salt))
  return isRight && user !== stranger ? user : undefined
}

/** Makes the application. Without `secret`, the process makes a random one. */
export async function createService (options = {}) {
  const app = Fastify(options.fastify)
  const refreshTokens = new Map()

  await app.register(tokenAuth, {
    secret: options.secret ?? randomBytes(32),
    refreshTokenEnabled: true,
    scopesEnabled: true,
    async authenticate (request) {
      const user = findUser(request.body)
      if (user === undefined) throw new AuthenticationFailed('Wrong name or password.')
      return shown(user)
    },
    retrieveUser (request, payload) {
      const user = users.find((candidate) => candidate.user_id === payload.user_id)
      return user && shown(user)
    },
    addScopesToPayload: (user) => user.scopes,
    storeRefreshToken: (userId, token) => { refreshTokens.set(userId, token) },
    retrieveRefreshToken: (userId) => refreshTokens.get(userId)
  })

  app.get('/', async () => ({ hello: 'world' }))
  app.get('/private', { preHandler: app.tokenAuth.protect() }, async (request) => request.tokenAuth.payload)
  app.get('/reports', { preHandler: app.tokenAuth.scoped('reports:read') }, async () => ({ reports: ['January', 'February'] }))
  app.get('/reports/new', { preHandler: app.tokenAuth.scoped('reports:write') }, async () => ({ draft: true }))
  app.get('/hello', app.tokenAuth.injectUser(async (request, reply, user) => ({ hello: user?.name ?? 'stranger' })))
  return app
}

/** What to try with curl, in the order in which it makes sense. */
export async function instructions (app, address) {
  const expired = await app.tokenAuth.generateAccessToken(shown(users[0]), {
    extendPayload: (payload) => ({ ...payload, exp: Math.floor(Date.now() / 1000) - 3600 })
  })
  const json = "-H 'content-type: application/json'"
  const lines = [
    ['Log in', `curl -s ${address}/auth ${json} -d '{"username":"ada","password":"lovelace"}'`],
    ['Log in as another user and keep both tokens', [
      `RESPONSE=$(curl -s ${address}/auth ${json} -d '{"username":"grace","password":"hopper"}')`,
      'TOKEN=$(echo "$RESPONSE" | sed \'s/.*"access_token":"\\([^"]*\\)".*/\\1/\')',
      'REFRESH=$(echo "$RESPONSE" | sed \'s/.*"refresh_token":"\\([^"]*\\)".*/\\1/\')'
    ].join('\n')],
    ['A wrong password: 401', `curl -si ${address}/auth ${json} -d '{"username":"ada","password":"wrong"}'`],
    ['Is the token valid?', `curl -s ${address}/auth/verify -H "authorization: Bearer $TOKEN"`],
    ['Who am I?', `curl -s ${address}/auth/me -H "authorization: Bearer $TOKEN"`],
    ['A protected route', `curl -s ${address}/private -H "authorization: Bearer $TOKEN"`],
    ['Without a token: 401', `curl -si ${address}/private`],
    ['A route that needs the scope reports:read', `curl -s ${address}/reports -H "authorization: Bearer $TOKEN"`],
    ['A route that needs reports:write, which grace lacks: 403', `curl -si ${address}/reports/new -H "authorization: Bearer $TOKEN"`],
    ['A new access token for the refresh token', `curl -s ${address}/auth/refresh ${json} -H "authorization: Bearer $TOKEN" -d "{\\"refresh_token\\":\\"$REFRESH\\"}"`],
    ['A token that has expired: 400', `curl -si ${address}/auth/verify -H "authorization: Bearer ${expired}"`]
  ]
  return lines.map(([title, command]) => `# ${title}\n${command}\n`).join('\n')
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const app = await createService()
  const address = await app.listen({ port: Number(process.env.PORT ?? 3000), host: '127.0.0.1' })
  console.log(`Listening on ${address}. The users are ada (password lovelace) and grace (password hopper). Stop with Ctrl-C. Try:\n`)
  console.log(await instructions(app, address))
}
