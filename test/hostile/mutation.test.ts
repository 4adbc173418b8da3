// @slow
/** Apart from the other hostile tests, because tens of thousands of tokens take their time. */
import t from 'tap'
import { alphabet, now, valid, verifying } from '../helper.ts'

/** What a character of a token may be changed into: all of base64url, what other spellings of base64 have, and what parsers skip or split at. */
const characters = [...`${alphabet}.=+/ \n\0~`, '\u00e9', '\uff21', '\ud800']

/** One of each family: the same code reads the tokens of a family, and OpenSSL verifies its signatures alike. */
const families = ['HS256', 'RS256', 'ES256'] as const

for (const algorithm of families) {
  // Promise: security/3-3-validate
  // Promise: security/9-1-1
  // Promise: security/valid-token-character
  // Promise: specification/1-signature
  t.test(`no valid token survives the change, loss or insertion of one character: ${algorithm}`, async (t) => {
    const verify = await verifying(t, algorithm)
    const token = valid(algorithm, { user_id: 1, exp: now() + 1800 })
    t.equal(verify(token), 'accepted')
    const outcomes = new Map<string, number>()
    const count = (changed: string) => {
      const outcome = verify(changed)
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    }
    for (let at = 0; at < token.length; at++) {
      const [before, after] = [token.slice(0, at), token.slice(at + 1)]
      for (const character of characters) if (character !== token[at]) count(before + character + after)
      count(before + after)
      count(before + (alphabet[at % 64] ?? '') + token.slice(at))
    }
    t.same([...outcomes], [['refused', token.length * (characters.length + 1)]])
    t.equal(verify(token), 'accepted', 'and still is itself')
  })
}
