/** The tokens that the benchmarks send: about 460 characters, eight claims. */
import { createSigner } from 'fast-jwt'

export const secret = 'a secret for benchmarks only, never for anything else: 0123456789'

const sign = createSigner({ key: secret, algorithm: 'HS256', noTimestamp: true })
const now = Math.floor(Date.now() / 1000)

function token (id, exp = now + 86_400) {
  return sign({
    user_id: id,
    exp,
    iss: 'https://issuer.example',
    aud: 'https://api.example',
    name: 'Ada Lovelace',
    email: 'ada.lovelace@example.com',
    scopes: ['reports:read', 'reports:write', 'users:read'],
    session: '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'
  })
}

const many = (count) => Array.from({ length: count }, (_, index) => token(index))

/** Replaces the signature by another of the same form. */
const spoiled = (valid) => valid.slice(0, valid.lastIndexOf('.') + 1) + 'A'.repeat(43)

/** What clients send: a list of Authorization headers that are used in turn; null for none. */
export const loads = {
  'hot token': () => many(1),
  '1,000 tokens': () => many(1000),
  '100,000 tokens': () => many(100_000),
  'bad signature': () => many(100).map(spoiled),
  expired: () => [token(1, now - 3600)],
  'no token': () => [null]
}
