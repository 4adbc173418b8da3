import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { algorithms, algorithmTable, isHmac } from '../lib/algorithms.ts'
import { allowedValues } from '../lib/settings/check.ts'
import { algorithms as expected, keysFor } from './helper.ts'

const root = new URL('../lib/', import.meta.url)
const sources = readdirSync(root, { recursive: true, encoding: 'utf8' }).map((name) => name.replaceAll('\\', '/'))
  .filter((name) => name.endsWith('.ts') && name !== 'algorithms.ts')

t.test('thirteen algorithms have a row, and the setting allows them and no others', async (t) => {
  t.equal(expected.length, 13)
  t.same(algorithms, expected)
  t.same([...allowedValues('algorithm').matchAll(/"([^"]+)"/g)].map(([, name]) => name), expected)
})

t.test('a row says what its name says', async () => {
  const families: Record<string, string> = { HS: 'HMAC', RS: 'RSA', PS: 'RSA-PSS', ES: 'EC', Ed: 'Ed25519' }
  for (const name of algorithms) {
    const { signatureType, hash, hashLength, isSlowToSign } = algorithmTable[name]
    assert.equal(signatureType, families[name.slice(0, 2)], name)
    const bits = name === 'EdDSA' ? 512 : Number(name.slice(2))
    assert.deepEqual([hash, hashLength], [`sha${bits}`, bits / 8], name)
    assert.equal(isSlowToSign, /^[RP]S/.test(name), name)
    assert.equal(isHmac(name), 'secret' in keysFor(name), name)
  }
})

t.test('no other file of lib/ lists the algorithms or takes their names apart', async (t) => {
  t.ok(sources.length > 30)
  // attack() is a witness of its own, which must not read the table of what it attacks.
  for (const name of sources.filter((source) => !source.startsWith('testing/attack/'))) {
    const code = readFileSync(new URL(name, root), 'utf8').replace(/\/\*[^]*?\*\/|\/\/.*$/gm, '')
    assert.doesNotMatch(code, /startsWith\('(?:HS|RS|PS|ES|Ed)|algorithm\.slice|'(?:HS|RS|PS|ES)(?:384|512)'|'EdDSA'/, name)
  }
})
