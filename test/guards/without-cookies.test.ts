// @alone
/** A guard that reads cookies in a process in which no instance writes them. */
import t from 'tap'
import { build, claims, forge } from '../helper.ts'

t.test('a guard may override cookieSet where no instance has cookie mode: cookies that were sent twice are refused, and not cleared', async (t) => {
  const app = await build(t)
  const options = { cookieSet: true, cookieStrict: false }
  app.get('/', { onRequest: app.tokenAuth.protect(options) }, async () => 'reached')
  app.get('/optional', { onRequest: app.tokenAuth.protect({ ...options, optional: true }) }, async () => 'reached')
  app.get('/injected', app.tokenAuth.injectUser(async () => 'reached', options))
  const token = forge(claims())
  for (const url of ['/', '/optional', '/injected']) {
    for (const cookie of ['access_token=a; access_token=b', `access_token=${token}; access_token=${token}`, 'refresh_token=a; refresh_token=b']) {
      const { statusCode, headers } = await app.inject({ url, headers: { cookie, origin: 'http://localhost' } })
      t.ok([200, 401].includes(statusCode), `${url} ${cookie} ${statusCode}`)
      t.equal(headers['set-cookie'], undefined)
    }
    t.equal((await app.inject({ url, headers: { cookie: `access_token=${token}` } })).statusCode, 200)
  }
})
