import t from 'tap'
import { noInstance } from '../../lib/challenge.ts'
import { prepareLoginAge } from '../../lib/token/login-age.ts'
import { setClock } from '../helper.ts'

const leeway = 180
const at = 1_800_000_000

// Promise: security/sensitive-operation-stolen
t.test('a login may be as old as the guard says, to the second and without tolerance; anything but a number in the past is refused', async (t) => {
  const set = setClock(t, at)
  const check = prepareLoginAge(300)
  const rows: [authTime: unknown, reason: string | undefined][] = [
    [at, undefined],
    [at - 300, undefined],
    [at - 300.001, 'the login was more than 300 seconds ago'],
    [at - 301, 'the login was more than 300 seconds ago'],
    [0, 'the login was more than 300 seconds ago'],
    [-1e300, 'the login was more than 300 seconds ago'],
    [at + leeway, undefined],
    [at + leeway + 0.001, '"auth_time" is in the future'],
    [at * 1000, '"auth_time" is in the future'],
    [Infinity, '"auth_time" is in the future'],
    [NaN, '"auth_time" is in the future'],
    ...[undefined, null, true, '', String(at), [at], { valueOf: () => at }, new Date(at * 1000)].map((authTime): [unknown, string] => [authTime, 'the claim "auth_time" is missing or is not a number'])
  ]
  for (const [authTime, reason] of rows) t.equal(check({ auth_time: authTime }, leeway)?.reason, reason, String(authTime))
  t.equal(check({}, leeway)?.reason, 'the claim "auth_time" is missing or is not a number')
  t.ok(check(Object.create({ auth_time: at }), leeway), 'an inherited claim is none')
  set(at + 300)
  t.equal(check({ auth_time: at }, leeway), null)
  set(at + 300.001)
  t.ok(check({ auth_time: at }, leeway), 'decided anew each time')
  set(NaN)
  t.ok(check({ auth_time: at }, leeway), 'a clock without a number refuses')
})

t.test('the refusal names the age in its challenge, and nothing of the token', async (t) => {
  const refusal = prepareLoginAge(60)({ auth_time: 1234567 }, leeway)
  const header = 'Bearer realm="token-auth", error="insufficient_user_authentication", error_description="A more recent login is required.", max_age="60"'
  t.same(refusal?.answer, {
    statusCode: 401,
    headers: { 'www-authenticate': header },
    challenge: { description: 'A more recent login is required.', error: 'insufficient_user_authentication', maxAge: 60, scheme: 'Bearer', header },
    name: 'InsufficientUserAuthentication',
    message: 'A more recent login is required.',
    text: '{"reasons":"A more recent login is required.","exception":"InsufficientUserAuthentication"}'
  })
  t.match(refusal?.toError(noInstance), { maxAge: 60, reason: 'the login was more than 60 seconds ago' })
  t.notMatch(JSON.stringify(refusal?.toError(noInstance)), '1234567')
})
