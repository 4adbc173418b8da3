/** What it costs that guards of pages renew, relative to what does the same without them: `npm run bench:pages`. */
import { randomBytes } from 'node:crypto'
import { createRefreshTokenCodec } from '../../build/lib/sessions/refresh-token.js'
import { fetchOnce, postRequest } from '../helper/client.js'
import { compare } from '../helper/measure.js'
import { keysOf } from '../tokens.js'

const algorithm = 'HS256'
const options = { algorithm, keys: keysOf(algorithm) }
/** So many that a window of a second is over when a session is renewed again. */
const sessions = 20_000
const few = 500

const request = (line, cookies, headers) => Buffer.from(`${line} HTTP/1.1\r\nHost: localhost\r\n${headers}Cookie: ${cookies}\r\n\r\n`)
/** What a browser sends when a page is opened. */
const navigation = (path) => (cookies) => request(`GET ${path}`, cookies, 'Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n')
const refresh = (cookies) => request('POST /auth/refresh', cookies, 'Sec-Fetch-Site: same-origin\r\nContent-Length: 0\r\n')

/** Logs users in, and makes a request of the cookies of each. */
const logIn = (count, requestOf, names) => async (connection) => {
  const requests = []
  for (let id = 1; id <= count; id++) {
    const { status, body } = await fetchOnce(connection, postRequest('/auth', { id }))
    if (status !== 200) throw new Error(`A login was answered with ${status}.`)
    requests.push(requestOf(names.map((name) => `${name}=${body[name]}`).join('; ')))
  }
  return requests
}

const cookieOf = (text) => /^set-cookie: (refresh_token=[^;]+)/im.exec(text)[1]
const renewing = (requestOf) => ({ requests: logIn(sessions, requestOf, ['refresh_token']), next: (text) => requestOf(cookieOf(text)), status: 200 })
const passing = (requestOf) => ({ requests: logIn(few, requestOf, ['access_token', 'refresh_token']), status: 200, remembers: true })

/** Refused requests with refresh tokens of the right form, whose MAC was made with another key. */
function forged (requestOf) {
  const codec = createRefreshTokenCodec([randomBytes(64)], { claimIss: null, claimAud: null })
  const forge = (userId) => codec.write({ sid: randomBytes(16).toString('base64url'), n: 0, authTime: Math.floor(Date.now() / 1000), userId })
  return { requests: Array.from({ length: few }, (_, index) => requestOf(`refresh_token=${forge(index + 1)}`)), status: 401 }
}

/** What is compared, with what, and the CPU time relative to it that is the goal. */
const comparisons = [
  ['a request that passes, with `renew` relative to without', 1.01, passing(navigation('/refuses')), passing(navigation('/renews'))],
  ['a refusal without cookies, with `renew` relative to without', 1.05, { requests: [navigation('/refuses')('a=b')], status: 401 }, { requests: [navigation('/renews')('a=b')], status: 401 }],
  ['a renewal in place relative to `POST /auth/refresh`', 1.1, renewing(refresh), renewing(navigation('/renews'))],
  ['`GET /auth/me?optional=true` relative to `GET /auth/me`', 1.05, passing(navigation('/auth/me')), passing(navigation('/auth/me?optional=true'))],
  ['a forged refresh cookie at a guard that renews relative to a forged refresh', 1, forged(refresh), forged(navigation('/renews'))]
]

/**
 * @param settings of a run
 * @returns the goals, each with what was found
 */
export async function pages (settings) {
  const goals = []
  for (const [what, limit, baseline, subject] of comparisons) {
    const { rows, isVoid } = await compare(what, [
      { name: 'baseline', server: 'pages', options, ...baseline },
      { name: 'baseline again', server: 'pages', options, ...baseline },
      { name: 'subject', server: 'pages', options, ...subject }
    ], { ...settings, baseline: 'baseline' })
    goals.push({ what: `CPU time of ${what}`, limit, found: 1 / rows.find(({ name }) => name === 'subject').ratio.median, isVoid })
  }
  return goals
}
