import assert from 'node:assert/strict'
import fc from 'fast-check'
import { decodeProtectedHeader, jwtVerify, SignJWT } from 'jose'
import { createPrivateKey, createPublicKey, createSecretKey } from 'node:crypto'
import { setImmediate as nextTask } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { noInstance } from '../../lib/challenge.ts'
import { InvalidToken } from '../../lib/errors.ts'
import type { Algorithm } from '../../lib/index.ts'
import type { Credential } from '../../lib/authorities/authority.ts'
import { signingKey, verifyingKey } from '../../lib/keys/material.ts'
import { Refusal } from '../../lib/refusal.ts'
import { signerOf } from '../../lib/token/codec.ts'
import { maximumTokenLength } from '../../lib/token/form.ts'
import { findersOf } from '../../lib/authorities/own.ts'
import { verifierOf, type TokenVerifier } from '../../lib/authorities/verifier.ts'
import { algorithms, bearer, build, caseOf, claims, forge, headerOf, keysFor, login, payloadOf, secret, setClock, signature } from '../helper.ts'

type Keys = ReturnType<typeof keysFor>

const verifier = (algorithm: Algorithm, cacheSize = 0) => verifierOf(findersOf(algorithm, verifyingKey(algorithm, keysFor(algorithm))), cacheSize)
const signer = (algorithm: Algorithm, issuedAt = false) => signerOf(algorithm, signingKey(algorithm, keysFor(algorithm)), issuedAt)
const issue = async (algorithm: Algorithm, content: Record<string, unknown>, issuedAt?: boolean) => (await signer(algorithm, issuedAt)(content)).token
/** A verifier that no other test shares, because no other has its secret. */
const ownVerifier = (name: string, cacheSize: number) => {
  const own = `${secret} ${name}`
  return {
    verify: verifierOf(findersOf('HS256', verifyingKey('HS256', { secret: own })), cacheSize),
    issue: (payload: unknown) => forge(payload, { key: own })
  }
}
const accepts = (verify: TokenVerifier, token: string) => !(verify(token) instanceof Refusal)
const encode = (content: string | Buffer) => Buffer.from(content).toString('base64url')

function verified (verify: TokenVerifier, token: string): Credential {
  const outcome = verify(token)
  if (outcome instanceof Refusal) throw outcome.toError(noInstance)
  if (outcome instanceof Promise) throw new Error('Own keys are not waited for.')
  return outcome
}

/** A validly signed HS256 token of any two texts or byte strings. */
function signed (header: string | Buffer, payload: string | Buffer): string {
  const input = `${encode(header)}.${encode(payload)}`
  return `${input}.${signature(input, 'HS256', secret)}`
}

const header = '{"alg":"HS256","typ":"JWT"}'
const payload = '{"user_id":1}'

// Promise: security/token-unsigned-signed
// Promise: specification/1-signature
t.test('only three non-empty segments of canonical base64url are a token', async (t) => {
  const verify = verifier('HS256')
  const token = signed(header, payload)
  const [head, body, end] = token.split('.') as [string, string, string]
  t.ok(accepts(verify, token))
  const bad: Record<string, string> = {
    nothing: '',
    'one segment': head,
    'two segments': `${head}.${body}`,
    'no signature': `${head}.${body}.`,
    'no payload': `${head}..${end}`,
    'no header': `.${body}.${end}`,
    'four segments': `${token}.${end}`,
    'a dot at the end': `${token}.`,
    'a dot at the start': `.${token}`,
    'only dots': '..',
    'five segments, as of an encrypted token': `${head}.${body}.${body}.${body}.${end}`,
    'padding after the signature': `${token}=`,
    'padding after the header': `${head}=.${body}.${end}`,
    'a space before': ` ${token}`,
    'a space after': `${token} `,
    'a line end after': `${token}\n`,
    'a tab in the payload': `${head}.${body.slice(0, 4)}\t${body.slice(4)}.${end}`,
    'a null character after': `${token}\0`,
    'a full-width letter in it': `${head}.${body}.${end.slice(1)}\uFF21`,
    'quotes around it': `"${token}"`,
    'the scheme before it': `Bearer ${token}`,
    'a segment of impossible length': `${head}.${body}.${end}AA`,
    // 43 characters: 256 bits and two to spare.
    'spare bits in the signature': `${head}.${body}.${end.slice(0, -1)}${String.fromCharCode(end.charCodeAt(end.length - 1) + 1)}`
  }
  for (const [name, text] of Object.entries(bad)) assert.ok(!accepts(verify, text), name)

  // The signature covers the text of header and payload, so these are signed as they stand.
  for (const [length, text] of [[2, `${header} `], [3, `${header}  `]] as const) {
    const canonical = encode(text)
    assert.equal(canonical.length % 4, length, caseOf(length))
    const noncanonical = canonical.slice(0, -1) + 'B'
    for (const [name, input] of [['header', `${noncanonical}.${body}`], ['payload', `${head}.${noncanonical}`]]) {
      assert.ok(!accepts(verify, `${input}.${signature(input!, 'HS256', secret)}`), `spare bits in a ${name} of ${length} characters more than whole bytes`)
    }
  }
  const standard = encode('{"user_id":1,"text":"???>>>ÿÿÿ"}').replaceAll('-', '+').replaceAll('_', '/')
  t.match(standard, /[+/]/)
  t.notOk(accepts(verify, `${head}.${standard}.${signature(`${head}.${standard}`, 'HS256', secret)}`), 'the other alphabet of base64')
})

// Promise: security/3-1-perform
// Promise: security/3-11-use
// Promise: security/9-2-2
// Promise: specification/unusual-tokens-rule
t.test('the header decides nothing and says nothing that is not understood', async (t) => {
  const verify = verifier('HS256')
  const judge = (members: string) => accepts(verify, signed(`{${members}}`, payload))
  const accepted = [
    '"alg":"HS256"', '"alg":"HS256","typ":"JWT"', '"alg":"HS256","typ":"jwt"', '"typ":"Jwt","alg":"HS256"',
    '"alg":"HS256","cty":"json"', '"alg":"HS256","unknown":[1]', ' "alg" : "HS256" ',
    // Hints at keys are not used, so they do no harm (RFC 8725 section 3.10).
    '"alg":"HS256","kid":"../../dev/null"', '"alg":"HS256","kid":1', '"alg":"HS256","jku":"http://127.0.0.1:1/"',
    '"alg":"HS256","x5u":"http://127.0.0.1:1/"', '"alg":"HS256","x5c":["AA=="]', '"alg":"HS256","jwk":{"kty":"oct","k":"AA"}'
  ]
  for (const members of accepted) assert.ok(judge(members), members)
  const refused = [
    '', '"typ":"JWT"', '"alg":"none"', '"alg":"None"', '"alg":"hs256"', '"alg":""', '"alg":null', '"alg":["HS256"]', '"alg":"HS384"', '"alg":"RS256"',
    '"__proto__":{"alg":"HS256"}', '"alg":"HS256","alg":"none"',
    '"alg":"HS256","typ":"at+jwt"', '"alg":"HS256","typ":"JOSE"', '"alg":"HS256","typ":""', '"alg":"HS256","typ":null', '"alg":"HS256","typ":["JWT"]',
    '"alg":"HS256","cty":"JWT"', '"alg":"HS256","cty":"jwt"', '"alg":"HS256","cty":1',
    ...['[]', '["exp"]', '["b64"]', 'null', 'false', '0', '""', '{}'].map((crit) => `"alg":"HS256","crit":${crit}`),
    ...['"A128GCM"', 'null', '""'].map((enc) => `"alg":"HS256","enc":${enc}`),
    ...['true', 'false', 'null'].map((b64) => `"alg":"HS256","b64":${b64}`)
  ]
  for (const members of refused) assert.ok(!judge(members), members)
  for (const text of ['null', '[]', '"HS256"', '1', 'true', '', '{', `${header}x`, '{"alg":"HS256",}', `\uFEFF${header}`]) {
    assert.ok(!accepts(verify, signed(text, payload)), `header ${text}`)
  }
  t.ok(judge('"alg":"HS256","typ":"JWT"'), 'what was refused before changes nothing')
})

// Promise: security/3-7-use
// Promise: security/token-unsigned-signed
t.test('the payload is a JSON object in UTF-8, whatever signed it', async (t) => {
  const verify = verifier('HS256')
  for (const text of ['{}', payload, ` ${payload} `, '{"name":"Ἀδα \u{1F512}"}', '{"__proto__":{"admin":true}}', '{"x":1e400}']) {
    assert.deepEqual(verified(verify, signed(header, text)).payload, JSON.parse(text), text)
  }
  for (const text of ['null', '[]', '[{"user_id":1}]', '"x"', '1', 'true', ' ', '{', '{"user_id":1', '{"user_id":1}}', "{'user_id':1}", '{"user_id":NaN}', `\uFEFF${payload}`]) {
    assert.ok(!accepts(verify, signed(header, text)), `payload ${text}`)
  }
  const bytes = (hex: string) => Buffer.concat([Buffer.from('{"user_id":"'), Buffer.from(hex, 'hex'), Buffer.from('"}')])
  const badUtf8 = { 'a lone continuation': '80', 'an overlong slash': 'c0af', 'a surrogate': 'eda080', 'a cut sequence': 'e282', 'beyond Unicode': 'f4908080', 'a byte that never is': 'ff' }
  for (const [name, hex] of Object.entries(badUtf8)) {
    assert.ok(!accepts(verify, signed(header, bytes(hex))), `payload with ${name}`)
    const badHeader = Buffer.concat([Buffer.from('{"alg":"HS256","x":"'), Buffer.from(hex, 'hex'), Buffer.from('"}')])
    assert.ok(!accepts(verify, signed(badHeader, payload)), `header with ${name}`)
  }
  t.ok(accepts(verify, signed(header, bytes('c3a9'))))
})

// Promise: specification/size-token-given
t.test('a token of 8,192 characters is accepted, one of 8,193 is not', async (t) => {
  const verify = verifier('HS256')
  const sized = (length: number) => {
    const empty = signed(header, '{"x":""}').length
    for (let filling = Math.floor((length - empty) * 3 / 4) - 3; ; filling++) {
      const token = signed(header, `{"x":"${'y'.repeat(filling)}"}`)
      if (token.length >= length) return token
    }
  }
  t.equal(maximumTokenLength, 8192)
  t.equal(sized(8192).length, 8192)
  t.ok(accepts(verify, sized(8192)))
  t.equal(sized(8193).length, 8193)
  t.notOk(accepts(verify, sized(8193)))
  const app = await build(t, { extendPayload: (payload) => ({ ...payload, x: 'y'.repeat(6200) }) })
  const tooLarge = await login(app)
  t.equal(tooLarge.statusCode, 500, 'and none is issued that would be refused')
  t.match(tooLarge.json(), { exception: 'TokenTooLarge' })
})

for (const algorithm of algorithms) {
  t.test(`${algorithm}: what is signed here is accepted here and by jose, and what jose signs is accepted here`, async (t) => {
    const keys: Keys = keysFor(algorithm)
    const joseKeys = 'secret' in keys
      ? { sign: createSecretKey(Buffer.from(keys.secret)), verify: createSecretKey(Buffer.from(keys.secret)) }
      : { sign: createPrivateKey(keys.privateKey), verify: createPublicKey(keys.publicKey) }
    const content = { user_id: 'Ἀδα', exp: 4102444800, scopes: ['a:b'], nested: { list: [null, true, 1.5] } }

    const ours = await issue(algorithm, content)
    t.strictSame(headerOf(ours), { alg: algorithm, typ: 'JWT' })
    t.strictSame(verified(verifier(algorithm), ours).payload, content)
    const theirView = await jwtVerify(ours, joseKeys.verify, { algorithms: [algorithm], typ: 'JWT' })
    t.strictSame(theirView.payload, content)

    const theirs = await new SignJWT(content).setProtectedHeader({ alg: algorithm, typ: 'JWT' }).sign(joseKeys.sign)
    t.strictSame(verified(verifier(algorithm), theirs).payload, content)
    t.strictSame(decodeProtectedHeader(theirs).alg, algorithm)

    const others = algorithms.filter((other) => other !== algorithm)
    t.strictSame(others.filter((other) => accepts(verifier(other), theirs)), [], 'no other algorithm takes it')

    const app = await build(t, { ...keys })
    app.get('/', { onRequest: app.tokenAuth.protect() }, async (request) => request.tokenAuth.payload)
    const { access_token: issued } = (await login(app)).json()
    t.equal((await app.inject({ url: '/', headers: bearer(issued) })).statusCode, 200)
    t.match((await jwtVerify(issued, joseKeys.verify, { algorithms: [algorithm] })).payload, { user_id: 1 })
  })
}

t.test('RSA signs once in a turn of the event loop, whoever asks: others are served in between', async (t) => {
  let turns = 0
  let isOver = false
  const count = () => { turns++; if (!isOver) setImmediate(count) }
  setImmediate(count)
  const tokens = await Promise.all((['RS256', 'PS512', 'RS256', 'PS512'] as const).map(async (algorithm) => {
    const token = await issue(algorithm, { user_id: 1 })
    return { token, algorithm, turns }
  }))
  isOver = true
  t.ok(tokens.every(({ token, algorithm }) => accepts(verifier(algorithm), token)))
  t.equal(new Set(tokens.map(({ turns }) => turns)).size, tokens.length)
})

t.test('any JSON object comes back from a token as it went in', async () => {
  const registered = ['exp', 'nbf', 'iat']
  const objects = fc.dictionary(fc.string().filter((key) => !registered.includes(key)), fc.jsonValue({ maxDepth: 3 }), { maxKeys: 8 })
  const verify = verifier('HS256')
  await fc.assert(fc.asyncProperty(objects, async (given) => {
    const content = JSON.parse(JSON.stringify(given))
    const token = await issue('HS256', content)
    const outcome = verify(token)
    return outcome instanceof Refusal ? token.length > maximumTokenLength : isDeepStrictEqual(Reflect.get(outcome, 'payload'), content)
  }))
})

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

for (const algorithm of ['HS256', 'ES256'] as const) {
  t.test(`every change, insertion or deletion of one character of a valid ${algorithm} token is refused`, async (t) => {
    const verify = verifier(algorithm, 10)
    const token = await issue(algorithm, { user_id: 1 })
    const survivors: string[] = []
    let tried = 0
    const attempt = (changed: string) => {
      tried++
      if (changed !== token && accepts(verify, changed)) survivors.push(changed)
    }
    t.ok(accepts(verify, token))
    for (let at = 0; at <= token.length; at++) {
      const [before, after] = [token.slice(0, at), token.slice(at)]
      for (const character of `${alphabet}=+/. \n\0é`) if (after !== '') attempt(before + character + after.slice(1))
      for (const character of '.=A_ \n') attempt(before + character + after)
      attempt(before + after.slice(1))
    }
    t.strictSame(survivors, [])
    t.ok(tried > 79 * token.length - 100)
    t.ok(accepts(verify, token), 'and the token itself still is accepted')
  })
}

/** Lone surrogates included. */
const codeUnit = fc.nat(0xFFFF).map((code) => String.fromCharCode(code))

t.test('a verifier that has met bad tokens decides as one that has not', async () => {
  for (const algorithm of ['HS256', 'HS512', 'ES256'] as const) {
    const wary = verifier(algorithm)
    const other = verifier(algorithm, 1)
    const good = await issue(algorithm, { user_id: 1 })
    const index = fc.nat(good.length - 1)
    const spoilt = fc.tuple(index, fc.constantFrom(...alphabet)).map(([at, character]) => good.slice(0, at) + character + good.slice(at + 1))
    const cut = index.map((at) => good.slice(0, at))
    const tokens = fc.array(fc.oneof(fc.constant(good), spoilt, cut), { maxLength: 30 })
    fc.assert(fc.property(tokens, (list) => list.every((token) => {
      // The other one meets a hundred and more good tokens before each, and expects the best.
      for (let met = 0; met < 101; met++) other(good)
      return accepts(wary, token) === accepts(other, token) && accepts(wary, token) === (token === good)
    })), { numRuns: algorithm === 'ES256' ? 20 : 100 })
  }
})

t.test('a verifier refuses random text, and never throws', async () => {
  const segment = fc.oneof(fc.string(), fc.base64String(), fc.json().map(encode), fc.constantFrom('', encode(header), encode(payload)))
  const anything = fc.oneof(fc.string(), fc.string({ unit: codeUnit }), fc.tuple(segment, segment, segment).map((segments) => segments.join('.')))
  const verifiers = algorithms.map((algorithm) => verifier(algorithm, 10))
  fc.assert(fc.property(anything, (text) => verifiers.every((verify) => verify(text) instanceof Refusal)), { numRuns: 300 })
  // Validly signed, so that header and payload are looked at as well.
  const verify = verifier('HS256', 10)
  fc.assert(fc.property(fc.string(), fc.string(), (head, body) => verify(signed(head, body)) instanceof Refusal), { numRuns: 300 })
})

t.test('a refusal holds nothing of the token and leaves the process as it was', async (t) => {
  const limit = Error.stackTraceLimit
  const bad = `${forge(claims()).slice(0, -4)}AAAA`
  const outcome = verifier('HS256')(bad)
  const refusal = outcome instanceof Refusal && outcome.toError(noInstance)
  t.ok(refusal instanceof InvalidToken)
  const text = JSON.stringify(refusal, Object.getOwnPropertyNames(refusal))
  for (const part of bad.split('.')) assert.ok(!text.includes(part.slice(0, 10)), part)
  t.equal(Error.stackTraceLimit, limit)

  t.teardown(() => Object.defineProperty(Error, 'stackTraceLimit', { value: limit, writable: true }))
  Object.defineProperty(Error, 'stackTraceLimit', { value: limit, writable: false, configurable: true })
  t.ok(verifier('HS256')(bad) instanceof Refusal, 'also where the process runs with frozen intrinsics')
  t.ok(accepts(verifier('HS256'), forge(claims())))
})

// Promise: specification/claim-iat
// Promise: specification/iat-2
t.test('iat is written when it is asked for, from the payload, and never otherwise', async () => {
  const content = { user_id: 1, iat: 1000 }
  for (const algorithm of ['HS256', 'RS256'] as const) {
    assert.deepEqual(payloadOf(await issue(algorithm, content, true)), content, algorithm)
    assert.deepEqual(payloadOf(await issue(algorithm, content, false)), { user_id: 1 }, algorithm)
    assert.ok(!('iat' in payloadOf(await issue(algorithm, { user_id: 1 }, false))), algorithm)
  }
})

t.test('what has no JSON form is not signed', async (t) => {
  const cycle: Record<string, unknown> = {}
  cycle.self = cycle
  t.throws(() => signer('HS256')(cycle), TypeError)
  t.throws(() => signer('HS256')({ user_id: 1n }), TypeError)
})

t.test('the memory of tokens', async (t) => {
  await t.test('a hit and a miss give the same answer for any token, good or bad', async () => {
    const remembering = ownVerifier('same answer', 8)
    const forgetful = ownVerifier('same answer', 0)
    const contents = fc.oneof(fc.record({ user_id: fc.nat(20) }), fc.jsonValue({ maxDepth: 2 }))
    const tokens = fc.tuple(contents, fc.boolean()).map(([content, good]) => {
      const token = remembering.issue(content)
      return good ? token : `${token.slice(0, -2)}AA`
    })
    const view = (outcome: ReturnType<TokenVerifier>) => outcome instanceof Refusal ? `refused: ${outcome.reason}` : Reflect.get(outcome, 'payload')
    fc.assert(fc.property(fc.array(tokens, { maxLength: 40 }), (sequence) => {
      return sequence.every((token) => isDeepStrictEqual(view(remembering.verify(token)), view(forgetful.verify(token))))
    }), { numRuns: 200 })
  })

  await t.test('size 0 remembers nothing', async (t) => {
    const { verify, issue } = ownVerifier('none', 0)
    const token = issue(claims())
    t.not(verified(verify, token), verified(verify, token))
    t.equal(verified(verify, token).isRemembered, false)
  })

  await t.test('the signature of a remembered token below another text is refused', async (t) => {
    const { verify, issue } = ownVerifier('borrowed signature', 8)
    const token = issue({ user_id: 1 })
    t.ok(accepts(verify, token))
    const end = token.slice(token.lastIndexOf('.'))
    t.notOk(accepts(verify, `${encode(header)}.${encode('{"user_id":2}')}${end}`))
    t.strictSame(verified(verify, token).payload, { user_id: 1 })
  })

  await t.test('bad tokens push out nothing, however many come', async (t) => {
    const { verify, issue } = ownVerifier('no eviction', 2)
    const token = issue({ user_id: 1 })
    const remembered = verified(verify, token)
    for (let user = 0; user < 500; user++) {
      assert.ok(!accepts(verify, forge({ user_id: user })), caseOf(user))
      assert.ok(!accepts(verify, `${token.slice(0, -5)}${user.toString().padStart(5, '0')}`), caseOf(user))
    }
    t.equal(verified(verify, token), remembered)
  })

  await t.test('good tokens that come once do not push out the one that comes often', async (t) => {
    const { verify, issue } = ownVerifier('frequent', 4)
    const often = issue({ user_id: 'often' })
    const remembered = verified(verify, often)
    for (let user = 0; user < 200; user++) {
      assert.equal(verified(verify, issue({ user_id: user })).payload.user_id, user, caseOf(user))
      assert.equal(verified(verify, often), remembered, caseOf(user))
    }
    const late = issue({ user_id: 'late' })
    t.equal(verified(verify, late).isRemembered, false)
    t.equal(verified(verify, late).isRemembered, true, 'a new one is remembered at its second sight')
    t.equal(verified(verify, late), verified(verify, late))
  })

  await t.test('tokens that come in turns, far more than it holds, are not remembered only to be forgotten', async (t) => {
    const size = 4
    const { verify, issue } = ownVerifier('turns', size)
    const tokens = Array.from({ length: 100 * size }, (_, user) => issue({ user_id: user }))
    const remembered = () => tokens.filter((token) => verified(verify, token).isRemembered).length
    t.equal(remembered(), size, 'while there is room')
    for (let turn = 0; turn < 5; turn++) assert.equal(remembered(), size, 'those that found room stay')
    const other = tokens.at(-1)!
    t.equal(verified(verify, other).isRemembered, true, 'one that comes again soon is')
    t.equal(remembered(), size + 1)
  })

  await t.test('what follows from a token alone is read once while it is remembered', async (t) => {
    const { verify, issue } = ownVerifier('read once', 2)
    const token = issue({ user_id: 1, exp: 5, aud: 'one' })
    const { registered } = verified(verify, token)
    t.match(registered, { exp: 5, aud: ['one'], nbf: undefined, iss: undefined, fault: undefined })
    t.equal(verified(verify, token).registered, registered)
  })

  await t.test('a token counts once for each 2,048 characters that it has begun, so that the bytes stay bounded', async (t) => {
    const sized = (issue: (payload: unknown) => string, length: number) => issue({ user_id: 1, text: 'x'.repeat(Math.floor((length - 81) * 3 / 4) - '{"user_id":1,"text":""}'.length) })
    for (const [length, weight] of [[2047, 1], [2048, 1], [2049, 2], [4096, 2], [maximumTokenLength, 4]] as const) {
      for (const [size, isRemembered] of [[weight - 1, false], [weight, true]] as const) {
        const { verify, issue } = ownVerifier(`${length} ${size}`, size)
        const token = sized(issue, length)
        assert.equal(token.length, length, caseOf(length))
        assert.equal(verified(verify, token).isRemembered, isRemembered, `${length} characters, size ${size}`)
      }
    }
    const { verify, issue } = ownVerifier('weights', 8)
    const tokens = [1, 2, 3].map((id) => issue({ user_id: id, text: 'x'.repeat(5000) }))
    t.same(tokens.map((token) => verified(verify, token).isRemembered), [true, true, false], 'each counts four times, and the third waits until it comes again')
  })

  await t.test('a remembered token expires to the second, and what one request changes no other sees', async (t) => {
    const issued = 2_000_000_000
    const tick = setClock(t, issued)
    const app = await build(t, { leeway: 10, customClaims: [{ key: 'tenant', setup: () => 'a', verify: (value) => value === tenant }] })
    let tenant = 'a'
    app.get('/', { onRequest: app.tokenAuth.protect() }, async (request) => {
      const { payload } = request.tokenAuth
      const seen = structuredClone(payload)
      Object.assign(payload ?? {}, { user_id: 99, tenant: 'b', added: true })
      return seen
    })
    const { access_token: token } = (await login(app)).json()
    const ask = () => app.inject({ url: '/', headers: bearer(token) })
    const expected = { user_id: 1, exp: issued + 1800, tenant: 'a' }
    for (let round = 0; round < 3; round++) assert.deepEqual((await ask()).json(), expected, caseOf(round))
    tenant = 'z'
    t.equal((await ask()).statusCode, 401, 'a custom claim is asked each time')
    tenant = 'a'
    tick(issued + 1809)
    t.strictSame((await ask()).json(), expected)
    tick(issued + 1810)
    t.match((await ask()).json(), { reasons: 'Signature has expired', exception: 'TokenExpired' })
    tick(issued - 7200)
    t.strictSame((await ask()).json(), expected, 'a clock that jumps back')
    tick(issued + 30 * 365 * 86400)
    t.equal((await ask()).statusCode, 401, 'a clock that jumps far ahead')
  })
})

t.test('signers and verifiers', async (t) => {
  await t.test('instances with the same key share one verifier and one signer', async (t) => {
    t.equal(verifier('RS256', 10), verifier('RS256', 10))
    t.equal(signer('RS256'), signer('RS256'))
    t.not(verifier('RS256', 10), verifier('RS256', 11))
    t.not(verifier('RS256', 10), verifier('PS256', 10))
    t.not(signer('RS256', true), signer('RS256', false))
    t.not(ownVerifier('a', 10).verify, ownVerifier('b', 10).verify)
  })

  await t.test('the ones that nobody uses any more are forgotten, and no others', async (t) => {
    setFlagsFromString('--expose-gc')
    const collectGarbage: () => void = runInNewContext('gc')
    const make = () => ownVerifier('short-lived', 10).verify
    const collected = async (reference: WeakRef<object>) => {
      for (let turn = 0; turn < 100 && reference.deref() !== undefined; turn++) {
        await nextTask()
        collectGarbage()
      }
      return reference.deref() === undefined
    }
    t.ok(await collected(new WeakRef(make())))
    // Made while the end of the first is known to the collector and not yet to the library.
    const second = make()
    t.ok(await collected(new WeakRef(ownVerifier('gone for good', 10).verify)))
    t.equal(make(), second)
    t.ok(accepts(make(), forge(claims(), { key: `${secret} short-lived` })))
  })
})
