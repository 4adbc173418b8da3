/** The form of a token (RFC 7515 section 7.1), and what its header may say. fast-jwt accepts more than the RFCs do. */

/** The longest token that is verified, in characters. A longer one would cost time before it can be refused. */
export const maximumTokenLength = 8192

const alphabet = /^[\w-]+$/
/** The last characters that a segment may have, by its length modulo 4: their spare bits are zero (RFC 4648 section 3.5). */
const lastCharacters: Record<number, string | undefined> = { 2: 'AQgw', 3: 'AEIMQUYcgkosw048' }

/** Whether a segment is the only text for its bytes. A segment without the alphabet of base64url fails elsewhere. */
function isCanonical (token: string, start: number, end: number): boolean {
  const rest = (end - start) % 4
  return rest === 0 || (lastCharacters[rest]?.includes(token[end - 1]!) ?? false)
}

/** The positions of the two dots; undefined where a text is not three non-empty segments of canonical base64url. */
export function findDots (token: string): [number, number] | undefined {
  if (token.length > maximumTokenLength) return undefined
  const first = token.indexOf('.')
  const second = token.indexOf('.', first + 1)
  if (first < 1 || second < first + 2 || second + 1 === token.length) return undefined
  if (!isCanonical(token, 0, first) || !isCanonical(token, first + 1, second) || !isCanonical(token, second + 1, token.length)) return undefined
  // A third dot is not in the alphabet.
  if (!alphabet.test(token.slice(0, first)) || !alphabet.test(token.slice(first + 1, second)) || !alphabet.test(token.slice(second + 1))) return undefined
  return [first, second]
}

/** The types of tokens, in lower case. A media type may be written without `application/` (RFC 7515 section 4.1.9). */
const ownTypes = ['jwt']
const accessTokenTypes = ['at+jwt', 'application/at+jwt']
const issuerTypes = [...ownTypes, ...accessTokenTypes]

const isOneOf = (types: readonly string[], typ: unknown) => typeof typ === 'string' && types.includes(typ.toLowerCase())

/** Whether a header says that a token is an access token (RFC 9068 section 2.1). */
export const isAccessToken = (typ: unknown) => isOneOf(accessTokenTypes, typ)

/**
 * Whether a header says nothing that must be understood (RFC 7515 section 4.1.11) or that makes the token another kind of
 * token (RFC 8725 section 3.11). Hints at keys (jwk, jku, x5u, x5c) are allowed, because they are never used; `kid` only chooses among known keys. `alg`
 * was compared with the algorithm of the key before the signature was verified.
 * @param isForeign whether the token is one of a trusted issuer
 */
export function isHeaderAcceptable (header: Readonly<Record<string, unknown>>, isForeign: boolean): boolean {
  if (Object.hasOwn(header, 'crit') || Object.hasOwn(header, 'enc') || Object.hasOwn(header, 'b64')) return false
  if (Object.hasOwn(header, 'typ') && !isOneOf(isForeign ? issuerTypes : ownTypes, header.typ)) return false
  // The claims of a nested token (RFC 7519 section 5.2) are not in its payload.
  return !Object.hasOwn(header, 'cty') || (typeof header.cty === 'string' && header.cty.toUpperCase() !== 'JWT')
}
