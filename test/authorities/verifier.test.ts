/** What a verifier of several keys remembers: tokens, and what their headers say of the key. */
import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { joinFinders } from '../../lib/authorities/key-finder.ts'
import { findersOf, ownAuthority, ownFinder } from '../../lib/authorities/own.ts'
import { createRing } from '../../lib/keys/key-ring.ts'
import { signingKey, verifyingKey } from '../../lib/keys/material.ts'
import { readEntries } from '../../lib/keys/ring-entries.ts'
import { Refusal } from '../../lib/refusal.ts'
import { signerOf } from '../../lib/token/codec.ts'
import { verifierOf as verifierOfFinders, type TokenVerifier } from '../../lib/authorities/verifier.ts'
import { algorithms, build, caseOf, claims, forge, keysFor, otherSecret, secret, signature } from '../helper.ts'

const { tokenAuth: { settings } } = await build(t)
const ring = createRing(readEntries([{ key: secret, kid: 'a' }, { key: otherSecret, kid: 'b' }], { ...settings }))
/** Of its own each time, with a memory of its own. */
const verifierOf = (cacheSize: number, keys = ring) => verifierOfFinders(joinFinders(ownFinder(({ alg, kid }) => keys.find(alg, kid ?? undefined)), undefined), cacheSize)

function verified (verify: TokenVerifier, token: string) {
  const outcome = verify(token)
  if (outcome instanceof Refusal || outcome instanceof Promise) throw new Error('refused')
  return outcome
}

/** A token that the helper does not keep. */
function issue (payload: object, header: object = {}): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const input = `${encode({ alg: 'HS256', typ: 'JWT', kid: 'a', ...header })}.${encode(payload)}`
  return `${input}.${signature(input, 'HS256', secret)}`
}

t.test('a remembered token is the same object each time, and nothing of it can be changed', async (t) => {
  const verify = verifierOf(10)
  const token = issue(claims({ list: [{ deep: 1 }] }))
  const first = verified(verify, token)
  t.equal(first.isRemembered, true)
  t.equal(verified(verify, token), first)
  t.throws(() => Object.assign(first.payload, { user_id: 2 }), TypeError)
  t.ok(Object.isFrozen(first.payload.list))
})

const anyPayload = fc.dictionary(fc.oneof(fc.constantFrom('exp', 'nbf', 'iat', 'iss', 'aud', 'sid', 'user_id', 'scopes', '__proto__', 'toJSON', 'constructor'), fc.string({ unit: 'binary' })), fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.nat(), fc.string({ unit: 'binary' })), { maxKeys: 6 })

for (const algorithm of algorithms) {
  t.test(`whatever an ${algorithm} token holds that this process has just signed, it is what the verification of its text finds`, async () => {
    const key = verifyingKey(algorithm, keysFor(algorithm))
    const signing = signingKey(algorithm, keysFor(algorithm))
    // Without the memory, so that each call reads the text.
    const verify = verifierOfFinders(findersOf(algorithm, key), 0)
    await fc.assert(fc.asyncProperty(anyPayload, fc.boolean(), async (given, issuedAt) => {
      const content: Record<string, unknown> = JSON.parse(JSON.stringify(given))
      // The issuer checks these before it signs.
      for (const name of ['exp', 'nbf', 'iat']) if (!(Number.isSafeInteger(content[name]) && Number(content[name]) > 0)) Reflect.deleteProperty(content, name)
      const { token, signedBy } = await signerOf(algorithm, signing, issuedAt)(content)
      const [own, other] = [verify(token, 'access', signedBy), verify(token)]
      if (own instanceof Promise || other instanceof Promise) throw new Error('Own keys are not waited for.')
      if (own instanceof Refusal || other instanceof Refusal) return own === other
      // As JSON too: what is equal by its values may differ in the order of its members.
      return isDeepStrictEqual(own, other) && JSON.stringify(own) === JSON.stringify(other)
    }), { numRuns: algorithm.startsWith('RS') || algorithm.startsWith('PS') ? 20 : 200 })
  })
}

t.test('of a token that this process has just signed, the signature alone is not verified: its key must be the one that signed it, and count; no other request finds it remembered', (t) => {
  const [first, second] = ring.keys.map(({ verifying }) => verifying.fingerprint)
  const verify = verifierOf(10)
  const withoutSignature = (header: object, payload: object = { user_id: 1 }) => `${issue(payload, header).split('.', 2).join('.')}.${'A'.repeat(43)}`
  const own = withoutSignature({})
  t.match(verify(own, 'access', first), { payload: { user_id: 1 }, isRemembered: false, authority: ownAuthority })
  t.ok(verify(own) instanceof Refusal, 'another request with it')
  t.ok(verify(own, 'access', second) instanceof Refusal, 'another key')
  t.ok(verify(withoutSignature({ kid: 'b' }), 'access', first) instanceof Refusal, 'a header that names another key')
  for (const header of [{ kid: 'c' }, { alg: 'HS384' }, { typ: 'at+jwt' }, { crit: ['x'] }]) assert.ok(verify(withoutSignature(header), 'access', first) instanceof Refusal, JSON.stringify(header))
  t.match(verify(withoutSignature({}, { user_id: 1, exp: 'x' }), 'access', first), { registered: { fault: Refusal } })
  const mortal = createRing(readEntries([{ key: secret, kid: 'a' }], { ...settings }))
  const retired = verifierOf(0, mortal)
  t.notOk(retired(own, 'access', first) instanceof Refusal)
  mortal.keys[0]!.life.until = 0
  t.ok(retired(own, 'access', first) instanceof Refusal, 'a key that is retired')
  t.end()
})

t.test('a token of more than 2,048 characters is remembered where there is room for two', async (t) => {
  const long = issue({ user_id: 1, text: 'x'.repeat(1500) })
  t.ok(long.length > 2048)
  t.equal(verified(verifierOf(1), long).isRemembered, false)
  t.equal(verified(verifierOf(2), long).isRemembered, true)
})

t.test('a header is read once for all tokens that have it, and only the headers of verified tokens are kept', async (t) => {
  const verify = verifierOf(0)
  const { parse } = JSON
  let read = 0
  JSON.parse = (text: string, ...rest: []) => {
    if (text.includes('"kid"')) read++
    return parse(text, ...rest)
  }
  t.teardown(() => { JSON.parse = parse })
  const readFor = (token: string) => {
    read = 0
    verify(token)
    return read
  }
  const [first, second] = [issue({ user_id: 1 }), issue({ user_id: 2 })]
  const whenNew = readFor(first)
  t.equal(readFor(second), whenNew - 1)
  t.equal(readFor(first), whenNew - 1)
  const bad = [forge(claims(), { header: { kid: 'unknown' } }), `${issue(claims(), { n: 1 })}A`, forge(claims(), { key: otherSecret, header: { kid: 'a', n: 2 } })]
  // The verifier of one key reads no header where it expects bad tokens: what is read then is read to find the key.
  for (const token of bad) for (let sight = 0; sight < 3; sight++) assert.ok(readFor(token) > 0, caseOf(token, sight))
})

t.test('no stack trace is captured for a header that is no JSON', async (t) => {
  const verify = verifierOf(0)
  const { parse } = JSON
  const stacks: string[] = []
  JSON.parse = (text: string, ...rest: []) => {
    try {
      return parse(text, ...rest)
    } catch (error) {
      stacks.push(String((error as Error).stack))
      throw error
    }
  }
  t.teardown(() => { JSON.parse = parse })
  t.ok(verify(`${Buffer.from('no JSON').toString('base64url')}.e30.AAAA`) instanceof Refusal)
  t.equal(stacks.length, 1)
  t.notMatch(stacks[0], /\n +at /)
})
