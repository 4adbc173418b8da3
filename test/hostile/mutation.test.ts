/** Apart from the other hostile tests, because a quarter of a million tokens take their time. */
import { Verify } from 'node:crypto'
import t from 'tap'
import type { Algorithm } from '../../lib/index.ts'
import { algorithms, alphabet, now, valid, verifying } from '../helper.ts'

/** What a character of a token may be changed into: all of base64url, what other spellings of base64 have, and what parsers skip or split at. */
const characters = [...`${alphabet}.=+/ \n\0~`, '\u00e9', '\uff21', '\ud800']

/** Algorithms of which OpenSSL verifies about a thousand signatures a second. */
const slow: readonly Algorithm[] = ['ES384', 'ES512']

/**
 * For slow algorithms OpenSSL is asked about two of the changes at each position. Any other change counts as refused when the
 * bytes that OpenSSL would see, after all decoding, differ from those that it accepted. Where they do not differ, it is asked.
 */
const openssl = { isSpared: false, spared: 0, accepted: '' }
const inputs = new WeakMap<Verify, string>()
const { update, verify: verifySignature } = Verify.prototype
Object.assign(Verify.prototype, {
  update (this: Verify, input: string) {
    inputs.set(this, `${inputs.get(this) ?? ''}${input}`)
    return Reflect.apply(update, this, [input])
  },
  verify (this: Verify, key: unknown, signature: NodeJS.ArrayBufferView) {
    const question = `${inputs.get(this)} ${Buffer.from(signature.buffer, signature.byteOffset, signature.byteLength).toString('hex')}`
    if (openssl.isSpared && question !== openssl.accepted) {
      openssl.spared++
      return false
    }
    const isRight: boolean = Reflect.apply(verifySignature, this, [key, signature])
    if (isRight) openssl.accepted = question
    return isRight
  }
})
t.teardown(() => { Object.assign(Verify.prototype, { update, verify: verifySignature }) })

for (const algorithm of algorithms) {
  t.test(`no valid token survives the change, loss or insertion of one character: ${algorithm}`, async (t) => {
    const verify = await verifying(t, algorithm)
    const token = valid(algorithm, { user_id: 1, exp: now() + 1800 })
    t.equal(verify(token), 'accepted')
    const outcomes = new Map<string, number>()
    const count = (changed: string) => {
      const outcome = verify(changed)
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    }
    openssl.spared = 0
    for (let at = 0; at < token.length; at++) {
      const [before, after] = [token.slice(0, at), token.slice(at + 1)]
      for (const [index, character] of characters.entries()) {
        if (character === token[at]) continue
        // Another two of the 64 at each position.
        openssl.isSpared = slow.includes(algorithm) && index % 32 !== at % 32
        count(before + character + after)
      }
      openssl.isSpared = false
      count(before + after)
      count(before + (alphabet[at % 64] ?? '') + token.slice(at))
    }
    t.same([...outcomes], [['refused', token.length * (characters.length + 1)]])
    t.equal(openssl.spared > 0, slow.includes(algorithm), `OpenSSL was not asked about ${openssl.spared}`)
    t.equal(verify(token), 'accepted', 'and still is itself')
  })
}
