/** What is around the text of a secret. */
import assert from 'node:assert/strict'
import { createSecretKey, randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { residueOf } from '../../lib/keys/residue.ts'
import type { TokenAuthOptions } from '../../lib/index.ts'
import { bearer, build, caseOf, claims, forge, secret, warnings } from '../helper.ts'

const bom = '\ufeff'
const around: Array<[text: string, told: RegExp]> = [
  [`${secret}\n`, /^It ends with a line feed, .*tr -d '\\n'"\.$/],
  [`${secret}\r\n`, /^It has Windows line ends \(CRLF\).*$/],
  [`${bom}${secret}`, /^It begins with a byte order mark/],
  [`"${secret}"`, /^It is in quotation marks/],
  [`'${secret}'\n`, /It ends with a line feed.*It is in quotation marks/],
  [`\`${secret}\``, /^It is in quotation marks/],
  // Reported of other programs: akhilrex/hammond#59.
  [`${secret} `, /^It begins or ends with a blank: remove it\.$/],
  [` ${secret}`, /^It begins or ends with a blank/],
  [`\t"${secret}" \n`, /line feed.*a blank.*quotation marks/],
  [`${bom}"${secret}"\r\n`, /byte order mark.*CRLF.*quotation marks/]
]

t.test('what editors, shells and environment files leave around a secret is named, with how to remove it', async (t) => {
  for (const [text, told] of around) t.match(residueOf(Buffer.from(text)), told, caseOf(text))
  for (const text of [secret, `a ${secret}`, `"${secret}`, `${secret}"`, 'a "quoted" word', `'${secret}"`, '']) t.equal(residueOf(Buffer.from(text)), undefined, caseOf(text))
})

t.test('of bytes nothing is said, however they begin and end', async () => {
  fc.assert(fc.property(fc.uint8Array({ minLength: 32, maxLength: 64 }), (bytes) => {
    // A byte that no text in ASCII has.
    const random = Buffer.from([...bytes, 0x80, 0x0d, 0x0a])
    return residueOf(random) === undefined
  }))
})

// Promise: security/secret-residue
t.test('a secret is read as it is, and one warning (W28) says what is around it, wherever it is given', async (t) => {
  const codes = warnings(t, 'W28')
  const messages: string[] = []
  const listen = (warning: Error & { code?: string }) => { if (warning.code === 'TOKEN_AUTH_W28') messages.push(warning.message) }
  process.on('warning', listen)
  t.teardown(() => { process.removeListener('warning', listen) })
  const path = `${t.testdir({})}/secret`
  for (const [text] of around) {
    writeFileSync(path, text)
    const places: Array<Partial<TokenAuthOptions>> = [
      { secret: { path } }, { secret: text }, { secret: Buffer.from(text) }, { secret: undefined, keys: [{ key: { path } }] }, { secret: `${secret} own`, sessions: { secret: { path } as never } }
    ]
    for (const options of places) {
      codes.splice(0)
      const app = await build(t, options)
      await turn()
      assert.deepEqual(codes, ['TOKEN_AUTH_W28'], caseOf(options))
      if (options.sessions === undefined) {
        app.get('/', { onRequest: app.tokenAuth.protect() }, async () => 'ok')
        const ask = async (key: string) => (await app.inject({ url: '/', headers: bearer(forge(claims(), { key })) })).statusCode
        assert.deepEqual([await ask(text), await ask(secret)], [200, 401], 'read as it is')
      }
      await app.close()
    }
  }
  for (const message of messages) assert.ok(!message.includes(secret.slice(0, 10)))
  codes.splice(0)
  for (const key of [createSecretKey(Buffer.from(`${secret}\n`)), Buffer.concat([randomBytes(63), Buffer.from('\n')])]) await build(t, { secret: key })
  await turn()
  t.same(codes, [])
})

t.test('a reload that brings such a secret warns once', async (t) => {
  const codes = warnings(t, 'W28')
  let keys = [{ key: secret }]
  const app = await build(t, { secret: undefined, keys: async () => keys })
  keys = [{ key: secret }, { key: `${secret}\n` }]
  for (let round = 0; round < 2; round++) await app.tokenAuth.reloadKeys()
  await turn()
  t.same(codes, ['TOKEN_AUTH_W28'])
})
