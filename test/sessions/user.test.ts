import t from 'tap'
import { storedUser, userIdText } from '../../lib/sessions/user.ts'

const none = { claimIss: null, claimAud: null }

t.test('a number and its text are two users', async (t) => {
  const texts = [1, '1', '"1"', true, 'true', 'ada', 'Ada', '\ud800', '[1,null,null]'].map(userIdText)
  t.equal(new Set(texts).size, texts.length)
  t.same([userIdText(42), userIdText('42'), userIdText(true)], ['42', '"42"', 'true'])
})

t.test('registrations with another issuer or audience have other users, so that they may share a store', async (t) => {
  t.equal(storedUser('ada', none), '"ada"')
  t.equal(storedUser('ada', { claimIss: 'i', claimAud: null }), '["ada","i",null]')
  t.equal(storedUser(1, { claimIss: null, claimAud: 'a' }), '[1,null,"a"]')
  t.equal(storedUser(1, { claimIss: 'i', claimAud: 'a' }), '[1,"i","a"]')
})

t.test('a user id of more than 512 bytes is InvalidUserObject, whatever the issuer', async (t) => {
  const limit = 'x'.repeat(510)
  t.equal(storedUser(limit, { claimIss: 'i'.repeat(100), claimAud: null }), JSON.stringify([limit, 'i'.repeat(100), null]))
  for (const write of [userIdText, (id: string) => storedUser(id, none), (id: string) => storedUser(id, { claimIss: 'i', claimAud: null })]) {
    t.throws(() => write(`${limit}x`), { name: 'InvalidUserObject', message: 'The user id has 513 bytes as JSON. Sessions allow at most 512. Use a shorter user id.' })
  }
})
