/** The option `issuers`: read and checked, each entry by itself and all of them together. */
import { InvalidConfiguration } from '../configuration-errors.ts'
import { describeOther, isPlainObject, typeName } from '../values.ts'
import type { Resolved } from '../settings/configuration.ts'
import { accessorOf, keySettings, maximumSeconds, registeredClaimNames } from '../settings/schema.ts'
import { suggest } from '../settings/suggest.ts'
import { algorithms, isHmac, type Algorithm } from '../keys/algorithms.ts'

/** What a token of an issuer says, and where: all that is needed of an issuer after the verification. */
export interface IssuerRules {
  readonly issuer: string
  /** The claim of the user id. */
  readonly userId: string
  /** The claims of the scopes. */
  readonly scopesNames: readonly string[]
  /** Whether scopes are compared as whole strings. */
  readonly exactScopes: boolean
}

/** A trusted issuer, checked. */
export interface IssuerEntry {
  /** Its place, for messages. */
  readonly place: string
  readonly rules: IssuerRules
  /** Undefined: any audience. */
  readonly audiences: ReadonlySet<string> | undefined
  readonly audienceName: string
  /** The algorithms, by their names. */
  readonly algorithms: ReadonlyMap<string, Algorithm>
  readonly typ: 'at+jwt' | undefined
  /** In milliseconds. */
  readonly staleIfErrorMs: number
  /** Where the keys are fetched from; undefined where `jwks` is given. */
  readonly jwksUri: string | undefined
  /** The keys, or a function that returns them; undefined where `jwksUri` is given. */
  readonly jwks: unknown
}

const members = ['issuer', 'audience', 'jwksUri', 'jwks', 'algorithms', 'userId', 'scopesName', 'exactScopes', 'typ', 'audienceName', 'staleIfError']
const page = 'keys.md#trust-other-issuers'
/** In seconds. Keys that age before they are read again, every 10 minutes, would come and go. */
const minimumStale = 600
const defaultStale = 86_400

const isText = (value: unknown): value is string => typeof value === 'string' && value.trim() !== ''
const isTexts = (value: unknown): value is string[] => Array.isArray(value) && value.length > 0 && value.every(isText)

function readIssuer (place: string, value: unknown): string {
  if (isText(value)) return value
  throw new InvalidConfiguration(`"${place}.issuer" must be the "iss" of the issuer's tokens, a non-empty string; given: ${value === '' ? 'an empty string' : typeName(value)}.`, { page })
}

function readAudiences (place: string, value: unknown): ReadonlySet<string> | undefined {
  if (value === null) return undefined
  if (isText(value)) return new Set([value])
  if (isTexts(value)) return new Set(value)
  throw new InvalidConfiguration(`"${place}.audience" must be the audience of your service, a non-empty string or a list of such strings, or null for tokens for anybody; given: ${typeName(value)}. Without it, tokens that the issuer made for others would be accepted: give it.`, { finding: 'E17', page })
}

/** A process may fetch the keys of another process of its machine without encryption. */
const loopback = ['127.0.0.1', '[::1]', 'localhost']

function readUri (place: string, value: unknown): string {
  const url = typeof value === 'string' && URL.canParse(value) ? new URL(value) : undefined
  const isProtected = url?.protocol === 'https:' || (url?.protocol === 'http:' && loopback.includes(url.hostname))
  if (url !== undefined && isProtected && url.username === '' && url.password === '' && !url.href.includes('#')) return url.href
  // Not quoted: credentials may be a part of it.
  throw new InvalidConfiguration(`"${place}.jwksUri" must be an absolute URL with "https:", or with "http:" for 127.0.0.1, [::1] or localhost, without credentials and fragment; given: ${typeof value === 'string' ? 'a string of another form' : typeName(value)}. Give the address of the issuer's keys.`, { finding: 'E17', page })
}

const pairAlgorithms = algorithms.filter((name) => !isHmac(name))

function readAlgorithms (place: string, list: unknown = ['RS256']): ReadonlyMap<string, Algorithm> {
  const names: unknown[] = Array.isArray(list) ? list : []
  const known = names.flatMap((name) => pairAlgorithms.find((one) => one === name) ?? [])
  if (known.length > 0 && known.length === names.length) return new Map(known.map((name) => [name, name]))
  throw new InvalidConfiguration(`"${place}.algorithms" must be a non-empty list of ${pairAlgorithms.join(', ')}: not of algorithms with a secret, with which everybody who verifies tokens can issue them; given: ${Array.isArray(list) ? 'another list' : typeName(list)}. Give the algorithms with which the issuer signs.`, { finding: 'E17', page })
}

function readClaim (place: string, name: string, claim: unknown): string {
  if (isText(claim) && claim !== '__proto__' && (!registeredClaimNames.includes(claim) || (name === 'audienceName' && claim === 'aud'))) return claim
  throw new InvalidConfiguration(`"${place}.${name}" must be the name of a claim, other than that of a date or the issuer; given: ${typeof claim === 'string' ? JSON.stringify(claim.slice(0, 60)) : typeName(claim)}. Check the name.`, { page })
}

function readScopesNames (place: string, given: unknown = 'scope'): readonly string[] {
  const names: unknown[] = Array.isArray(given) ? given : [given]
  if (names.length > 0) return names.map((name) => readClaim(place, 'scopesName', name))
  throw new InvalidConfiguration(`"${place}.scopesName" must be the name of a claim, or a non-empty list of names; given: an empty list. Leave it out for "scope".`, { page })
}

function readFlag (place: string, value: unknown = true): boolean {
  if (typeof value === 'boolean') return value
  throw new InvalidConfiguration(`"${place}.exactScopes" must be true or false; given: ${typeName(value)}.`, { page })
}

function readTyp (place: string, value: unknown): 'at+jwt' | undefined {
  if (value === undefined || value === 'at+jwt') return value
  throw new InvalidConfiguration(`"${place}.typ" must be "at+jwt", or absent where the type of tokens is not to be required; given: ${typeof value === 'string' ? 'another string' : typeName(value)}.`, { page })
}

function readStale (place: string, seconds: unknown = defaultStale): number {
  if (typeof seconds === 'number' && Number.isInteger(seconds) && seconds >= minimumStale && seconds <= maximumSeconds) return seconds * 1000
  throw new InvalidConfiguration(`"${place}.staleIfError" must be a whole number of seconds from ${minimumStale} to ${maximumSeconds}; given: ${typeof seconds === 'number' ? seconds : typeName(seconds)}.`, { page })
}

function readEntry (given: unknown, index: number): IssuerEntry {
  const place = `issuers[${index}]`
  if (!isPlainObject(given)) throw new InvalidConfiguration(`"${place}" must be a plain object, such as { issuer, audience, jwksUri }; given: ${describeOther(given)}.`, { page })
  const unknown = Object.keys(given).find((name) => !members.includes(name))
  if (unknown !== undefined) throw new InvalidConfiguration(`"${place}" has the unknown member "${unknown}".${suggest(unknown, members)} An issuer has ${members.join(', ')}.`, { page })
  // Without a prototype, so that members of a polluted `Object.prototype` do not count. Each is read once.
  const entry: Record<string, unknown> = Object.assign(Object.create(null), given)
  const { jwksUri, jwks } = entry
  if ((jwksUri === undefined) === (jwks === undefined)) {
    throw new InvalidConfiguration(`"${place}" has ${jwks === undefined ? 'neither "jwksUri" nor "jwks"' : '"jwksUri" and "jwks"'}. Give one of them: "jwksUri", the address of the issuer's keys, or "jwks", the keys or a function that returns them.`, { finding: 'E17', page })
  }
  return {
    place,
    rules: Object.freeze({
      issuer: readIssuer(place, entry.issuer),
      userId: entry.userId === undefined ? 'sub' : readClaim(place, 'userId', entry.userId),
      scopesNames: readScopesNames(place, entry.scopesName),
      exactScopes: readFlag(place, entry.exactScopes)
    }),
    audiences: readAudiences(place, entry.audience),
    audienceName: entry.audienceName === undefined ? 'aud' : readClaim(place, 'audienceName', entry.audienceName),
    algorithms: readAlgorithms(place, entry.algorithms),
    typ: readTyp(place, entry.typ),
    staleIfErrorMs: readStale(place, entry.staleIfError),
    jwksUri: jwksUri === undefined ? undefined : readUri(place, jwksUri),
    jwks
  }
}

/** Checks that no issuer is that of own tokens. @throws {InvalidConfiguration} */
export function checkOwnIssuer (issuers: readonly string[], claimIss: string | null): void {
  if (claimIss === null || !issuers.includes(claimIss)) return
  throw new InvalidConfiguration('"claimIss" is the issuer of an entry of "issuers". "claimIss" is the issuer of your own tokens, and tokens of trusted issuers are never verified with your own keys. Remove the entry, or choose another "claimIss".', { finding: 'E17', page })
}

/**
 * Reads the list of trusted issuers.
 * @throws {InvalidConfiguration} also for what an instance must not have beside it
 */
export function readIssuerEntries (list: unknown, { settings, getters }: Resolved): readonly IssuerEntry[] {
  if (!Array.isArray(list) || list.length === 0) {
    throw new InvalidConfiguration(`"issuers" must be a non-empty list of issuers such as [{ issuer, audience, jwksUri }]; given: ${Array.isArray(list) ? 'an empty list' : typeName(list)}.`, { page })
  }
  const entries = Array.from(list, readEntry)
  const names = entries.map(({ rules }) => rules.issuer)
  for (const [index, name] of names.entries()) {
    const first = names.indexOf(name)
    if (first !== index) throw new InvalidConfiguration(`"issuers[${index}]" and "issuers[${first}]" have the same "issuer", so a token would not say whose rules count. Remove one of them; "audience" may be a list.`, { finding: 'E17', page })
  }
  checkOwnIssuer(names, settings.claimIss)
  const getter = [...keySettings, 'algorithm' as const, 'tokenCacheSize' as const].find((name) => getters.has(name))
  if (getter !== undefined) throw new InvalidConfiguration(`"issuers" and "${accessorOf('get', getter)}" are given. With "issuers", all requests have the same keys and remembered tokens: remove "${accessorOf('get', getter)}".`, { finding: 'E11', page })
  return entries
}
