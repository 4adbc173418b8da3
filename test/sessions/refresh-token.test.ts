import assert from 'node:assert/strict'
import { createHmac, hkdfSync, randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { createRefreshTokenCodec, isSessionId, maximumCounter, newSessionId, type RefreshToken } from '../../lib/sessions/refresh-token.ts'
import { caseOf, mistyped } from '../helper.ts'

const material = Buffer.from('key material for tests only, of more than thirty-two bytes')
const otherMaterial = Buffer.from('other key material for tests, of more than thirty-two bytes')
const binding = { claimIss: 'https://issuer.example', claimAud: null, userId: 'user_id' }
const codec = createRefreshTokenCodec([material], binding)

const sid = Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex').toString('base64url')
const content: RefreshToken = { sid, n: 258, authTime: 1_700_000_000, userId: 'ada', persistent: true, claims: '' }

/** The MAC of a body, by node:crypto alone. */
function macOf (body: Buffer, { key = material, info = 'fastify-token-auth refresh v1', bound = '["https://issuer.example",null]' } = {}): Buffer {
  const derived = Buffer.from(hkdfSync('sha256', key, Buffer.alloc(0), info, 32))
  return createHmac('sha256', derived).update(Buffer.concat([body, Buffer.from(bound)])).digest().subarray(0, 16)
}

/** A token with a valid MAC over these bytes. */
const seal = (body: Buffer) => Buffer.concat([body, macOf(body)]).toString('base64url')
const lengthOf = (text: Buffer) => Buffer.from([text.length >> 8, text.length & 255])
interface Parts { version?: number, flags?: number, claims?: Buffer | string, lengths?: Buffer }
function bodyFor (userText: Buffer | string, { version = 2, flags = 0, claims: claimsText = '', lengths }: Parts = {}): Buffer {
  const [user, claims] = [Buffer.from(userText), Buffer.from(claimsText)]
  return Buffer.concat([
    Buffer.from([version]), Buffer.from(sid, 'base64url'), Buffer.from('000000000102', 'hex'), Buffer.from('006553f100', 'hex'),
    Buffer.from([flags]), lengths ?? Buffer.concat([lengthOf(user), lengthOf(claims)]), user, claims
  ])
}

const userIds = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 60 }), fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }), fc.maxSafeInteger().filter((id) => !Object.is(id, -0)), fc.boolean(),
  fc.constantFrom('\ud800', '\ufeff', '\ufffd', '\u0000', '"', '\\', 'null', '1', '{"a":1}', 'x'.repeat(510))
)
const contents = fc.record({
  sid: fc.uint8Array({ minLength: 16, maxLength: 16 }).map((bytes) => Buffer.from(bytes).toString('base64url')),
  n: fc.nat({ max: maximumCounter }),
  authTime: fc.nat({ max: 2 ** 40 - 1 }),
  userId: userIds,
  persistent: fc.boolean(),
  claims: fc.oneof(fc.constant(''), fc.dictionary(fc.string({ unit: 'binary', minLength: 1, maxLength: 9 }), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 3 }).map((claims) => JSON.stringify(claims))).filter((text) => Buffer.byteLength(text) <= 512)
})

t.test('the format of a refresh token is fixed', async (t) => {
  const token = seal(bodyFor('"ada"'))
  t.equal(codec.write(content), token)
  t.same(codec.read(token), content)
  const whole = { ...content, persistent: false, claims: '{"amr":["otp"]}' }
  const wholeToken = seal(bodyFor('"ada"', { flags: 1, claims: whole.claims }))
  t.equal(codec.write(whole), wholeToken)
  t.same(codec.read(wholeToken), whole)
  // Computed by another program: hkdf and hmac of Python's standard library.
  t.equal(token, 'AgABAgMEBQYHCAkKCwwNDg8AAAAAAQIAZVPxAAAABQAAImFkYSLCrOfqMSwhw7nT-mbX3cQx')
  t.equal(wholeToken, 'AgABAgMEBQYHCAkKCwwNDg8AAAAAAQIAZVPxAAEABQAPImFkYSJ7ImFtciI6WyJvdHAiXX2DjZXtnrQ6XIqOZ1sVjLA9')
})

t.test('what is written is read, whatever the user, the counter and the time', async () => {
  fc.assert(fc.property(contents, (content) => {
    const token = codec.write(content)
    // fast-check makes objects without a prototype.
    assert.deepEqual(codec.read(token), { ...content })
    return /^[\w-]+$/.test(token)
  }), { numRuns: 500 })
})

t.test('all refresh tokens of a session have the same length, so that what a cookie can hold does not change', async (t) => {
  const lengths = [0, 1, 1000, maximumCounter].map((n) => codec.write({ ...content, n }).length)
  t.equal(new Set(lengths).size, 1)
  t.equal(codec.write({ ...content, userId: 1 }).length, 67)
  t.equal(codec.write({ ...content, userId: '123e4567-e89b-12d3-a456-426614174000' }).length, 116)
})

// Promise: sessions/4-14-2-tokens
// Promise: sessions/7-2-3
// Promise: sessions/id-session-known
t.test('a changed, lost or added bit, byte or character never passes', async () => {
  const token = codec.write(content)
  const bytes = Buffer.from(token, 'base64url')
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const changed = Buffer.from(bytes)
    changed[bit >> 3]! ^= 1 << (bit & 7)
    assert.equal(codec.read(changed.toString('base64url')), undefined, `bit ${bit}`)
  }
  for (let at = 0; at < bytes.length; at++) {
    assert.equal(codec.read(bytes.subarray(0, at).toString('base64url')), undefined, `the first ${at} bytes`)
    assert.equal(codec.read(Buffer.concat([bytes.subarray(0, at), Buffer.from([at]), bytes.subarray(at)]).toString('base64url')), undefined, `a byte more at ${at}`)
    assert.equal(codec.read(Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)]).toString('base64url')), undefined, `a byte less at ${at}`)
  }
  fc.assert(fc.property(fc.nat(token.length), fc.nat(1), fc.string({ unit: 'binary', maxLength: 2 }), (at, less, more) => {
    const changed = token.slice(0, at) + more + token.slice(at + less)
    return changed === token || codec.read(changed) === undefined
  }), { numRuns: 3000 })
})

t.test('a refresh token has one spelling', async (t) => {
  // 46 bytes are 61 characters and two spare bits, which a decoder ignores.
  for (const userId of [1, 12, 123]) {
    const token = codec.write({ ...content, userId })
    const bytes = Buffer.from(token, 'base64url')
    const spellings = [bytes.toString('base64'), `${token}=`, `${token}==`, `${token}\n`, ` ${token}`, `${token}.`, `${token.slice(0, 9)} ${token.slice(9)}`, `${token}\u0000`, `${token}A`]
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    for (const character of alphabet) spellings.push(token.slice(0, -1) + character)
    const others = spellings.filter((text) => text !== token)
    assert.ok(others.some((text) => Buffer.from(text, 'base64url').equals(bytes)), 'some decode to the same bytes')
    for (const text of others) assert.equal(codec.read(text), undefined, JSON.stringify(text))
  }
  const bothAlphabets = Array.from({ length: 50 }, (_, n) => codec.write({ ...content, n })).filter((token) => /[-_]/.test(token))
  t.ok(bothAlphabets.length > 10)
  for (const token of bothAlphabets) assert.equal(codec.read(token.replaceAll('-', '+').replaceAll('_', '/')), undefined, token)
})

t.test('no text is too strange to be refused', async () => {
  for (const text of ['', 'A', '.', '=', '\ud800', '\u0000', 'null', '{}', 'A'.repeat(2048), 'A'.repeat(2049), 'x'.repeat(1_000_000), randomBytes(60).toString('base64url')]) {
    assert.equal(codec.read(text), undefined, text.slice(0, 20))
  }
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => codec.read(text) === undefined))
  fc.assert(fc.property(fc.uint8Array({ minLength: 40, maxLength: 80 }), (bytes) => codec.read(Buffer.from([2, ...bytes]).toString('base64url')) === undefined))
})

t.test('a text of more than 2,048 characters is not even decoded', async (t) => {
  const { from } = Buffer
  t.teardown(() => { Buffer.from = from })
  Buffer.from = () => { throw new Error('decoded') }
  t.equal(codec.read('A'.repeat(2049)), undefined)
  t.throws(() => codec.read('A'.repeat(2048)), { message: 'decoded' })
})

t.test('the version, the lengths and the user are checked, also where the MAC is right', async (t) => {
  t.ok(codec.read(seal(bodyFor('"ada"'))))
  t.ok(codec.read(seal(bodyFor('1'))))
  t.ok(codec.read(seal(bodyFor(`"${'x'.repeat(510)}"`))))
  t.ok(codec.read(seal(bodyFor('1', { claims: `{"a":"${'x'.repeat(504)}"}` }))))
  t.ok(codec.read(seal(bodyFor(`"${'x'.repeat(510)}"`, { flags: 1, claims: `{"a":"${'x'.repeat(504)}"}` }))))
  const wrong: Record<string, Buffer> = {
    'version 0': bodyFor('1', { version: 0 }),
    'version 1': bodyFor('1', { version: 1 }),
    'version 3': bodyFor('1', { version: 3 }),
    'flag 2': bodyFor('1', { flags: 2 }),
    'flag 128': bodyFor('1', { flags: 128 }),
    'claims of 513 bytes': bodyFor('1', { claims: `{"a":"${'x'.repeat(505)}"}` }),
    'claims that are no JSON': bodyFor('1', { claims: 'amr' }),
    'claims that are a list': bodyFor('1', { claims: '[]' }),
    'claims that are null': bodyFor('1', { claims: 'null' }),
    'claims that are no UTF-8': bodyFor('1', { claims: Buffer.from([...Buffer.from('{"a":"'), 0xf0, 0x9f, 0x98, ...Buffer.from('"}')]) }),
    'a user that ends in the claims': bodyFor('1', { claims: '{}', lengths: Buffer.from([0, 2, 0, 1]) }),
    'claims that begin in the user': bodyFor('1{', { claims: '}', lengths: Buffer.from([0, 1, 0, 1]) }),
    'a user without an end': bodyFor('1', { lengths: Buffer.from([255, 255, 0, 0]) }),
    'claims without an end': bodyFor('1', { lengths: Buffer.from([0, 1, 255, 255]) }),
    'no user': bodyFor(''),
    'a user of 513 bytes': bodyFor(`"${'x'.repeat(511)}"`),
    'no JSON': bodyFor('ada'),
    'no UTF-8': bodyFor(Buffer.from([0x22, 0xf0, 0x9f, 0x98, 0x22])),
    'an object': bodyFor('{}'),
    'a list': bodyFor('[1]'),
    null: bodyFor('null'),
    'an empty string': bodyFor('""'),
    'a fraction': bodyFor('1.5'),
    'a number that is not exact': bodyFor('9007199254740993'),
    'another spelling of a number': bodyFor('1.0'),
    'another spelling of a string': bodyFor('"\\u0061da"'),
    'a space': bodyFor(' 1')
  }
  for (const [name, body] of Object.entries(wrong)) assert.equal(codec.read(seal(body)), undefined, name)
})

t.test('a refresh token of another issuer, audience, name of user ids or key is refused', async () => {
  const bindings = [
    binding, ...[
      { claimIss: null, claimAud: null }, { claimIss: null, claimAud: 'https://issuer.example' },
      { claimIss: 'https://issuer.example', claimAud: 'a' }, { claimIss: 'https://issuer.example/', claimAud: null }
    ].map((other) => ({ ...other, userId: 'user_id' })),
    { ...binding, userId: 'staff_id' }, { ...binding, userId: 'customer_id' }
  ]
  const codecs = [...bindings.map((bound) => createRefreshTokenCodec([material], bound)), createRefreshTokenCodec([otherMaterial], binding)]
  for (const [index, writer] of codecs.entries()) {
    for (const [other, reader] of codecs.entries()) {
      assert.deepEqual(reader.read(writer.write(content)), index === other ? content : undefined, `written by ${index}, read by ${other}`)
    }
  }
})

// Promise: sessions/4-14-2-tokens
t.test('the key is derived: the key material itself, and what it signs elsewhere, are of no use', async (t) => {
  const body = bodyFor('1')
  t.ok(codec.read(seal(body)))
  t.equal(codec.read(Buffer.concat([body, macOf(body, { info: '' })]).toString('base64url')), undefined)
  const raw = createHmac('sha256', material).update(body).update('["https://issuer.example",null]').digest().subarray(0, 16)
  t.equal(codec.read(Buffer.concat([body, raw]).toString('base64url')), undefined)
})

t.test('of a list of keys the first signs and all verify; tokens of a dropped key are refused', async (t) => {
  const rotated = createRefreshTokenCodec([otherMaterial, material], binding)
  const announced = createRefreshTokenCodec([material, otherMaterial], binding)
  const dropped = createRefreshTokenCodec([otherMaterial], binding)
  const old = codec.write(content)
  const renewed = rotated.write(content)
  t.equal(announced.write(content), old)
  t.equal(dropped.write(content), renewed)
  for (const reader of [rotated, announced]) for (const token of [old, renewed]) assert.deepEqual(reader.read(token), content, caseOf(reader, token))
  t.equal(dropped.read(old), undefined)
  t.equal(codec.read(renewed), undefined)
})

t.test('a user id of more than 512 bytes is InvalidUserObject, and no token is made', async (t) => {
  for (const userId of ['x'.repeat(511), 'ü'.repeat(256), '"'.repeat(256), '\u0000'.repeat(86)]) {
    t.throws(() => codec.write({ ...content, userId }), { name: 'InvalidUserObject' })
  }
  for (const userId of ['x'.repeat(510), 'ü'.repeat(255), '"'.repeat(255), '\u0000'.repeat(85)]) assert.equal(codec.read(codec.write({ ...content, userId }))?.userId, userId, userId)
})

t.test('a counter or time that does not fit is no token', async (t) => {
  for (const wrong of [{ n: maximumCounter + 1 }, { n: -1 }, { authTime: 2 ** 40 }, { authTime: -1 }]) t.throws(() => codec.write({ ...content, ...wrong }), RangeError)
})

// Promise: sessions/7-2-3
t.test('the id of a session has 128 random bits, and one spelling', async (t) => {
  const ids = Array.from({ length: 1000 }, newSessionId)
  t.equal(new Set(ids).size, 1000)
  t.ok(ids.every((id) => isSessionId(id) && Buffer.from(id, 'base64url').length === 16 && Buffer.from(id, 'base64url').toString('base64url') === id))
  for (const other of ['', sid.slice(1), `${sid}A`, `${sid}\n`, `${sid.slice(0, -1)}B`, sid.replace('A', '+'), sid.replace('A', '.'), 1, null, undefined, [sid], { sid }]) assert.ok(!isSessionId(mistyped(other)), JSON.stringify(other))
  t.ok(isSessionId(codec.read(codec.write({ ...content, sid: newSessionId() }))?.sid))
})
