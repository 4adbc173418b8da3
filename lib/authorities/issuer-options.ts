/** Reads and checks the option `issuers`: each entry, and all entries together. */
import type { ScopesOfPayload } from '../../types/keys.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { describeGiven, isText, quote } from '../values.ts'
import type { Resolved } from '../settings/configuration.ts'
import {
  either,
  flag,
  func,
  matching,
  listOf,
  named,
  oneOf,
  oneOrMore,
  orNull,
  seconds,
  text,
  textLike,
  Wrong,
  type Kind
} from '../settings/kinds.ts'
import { entryAt, optional, preset, readRecord, readValue, required } from '../settings/records.ts'
import { accessorOf, keyUseSettings, registeredClaimNames } from '../settings/schema.ts'
import { algorithmNamed, algorithms, isHmac, namesOf, type Algorithm } from '../algorithms.ts'

/** Where the tokens of an issuer contain the user id and the scopes. Used after the verification. */
export interface IssuerRules {
  readonly issuer: string
  /** The claim of the user id. */
  readonly userId: string
  /** The claims with the scopes, or a function that finds the scopes in a payload. */
  readonly scopesName: readonly string[] | ScopesOfPayload
  /** Whether scopes are compared as whole strings. */
  readonly exactScopes: boolean
}

/** A trusted issuer, checked. */
export interface IssuerEntry {
  /** Its position in the options, for messages: `issuers[0]`. */
  readonly path: string
  readonly rules: IssuerRules
  /** Undefined: any audience. */
  readonly audiences: ReadonlySet<string> | undefined
  readonly audienceName: string
  /** The algorithms by the values of `alg`. */
  readonly algorithms: ReadonlyMap<string, Algorithm>
  readonly typ: 'at+jwt' | undefined
  /** In milliseconds. */
  readonly staleIfErrorMs: number
  /** Where the keys are fetched from; undefined if `jwks` is configured. */
  readonly jwksUri: string | undefined
  /** The keys, or a function that returns them; undefined if `jwksUri` is configured. */
  readonly jwks: unknown
}

const page = 'issuers.md'
/** In seconds. With a shorter time, keys would become stale before they are read again, every 10 minutes. */
const minimumStale = 600
const defaultStale = 86_400

const pairNames = algorithms.filter((algorithm) => !isHmac(algorithm)).flatMap(namesOf)

/** Maps each value of `alg` that the algorithms may have to its algorithm. */
const byName = (names: readonly string[]) => new Map(names.flatMap((name) => {
  const algorithm = algorithmNamed(name)!
  return namesOf(algorithm).map((known) => [known, algorithm] as const)
}))

/** Keys may be fetched without encryption from a process on the same machine. */
const loopback = ['127.0.0.1', '[::1]', 'localhost']

const keyAddress: Kind<string> = {
  allowed: 'an absolute URL with "https:", or with "http:" for 127.0.0.1, [::1] or localhost, without credentials and fragment',
  read: (value) => {
    const url = isText(value) && URL.canParse(value) ? new URL(value) : undefined
    const isProtected = url?.protocol === 'https:' || (url?.protocol === 'http:' && loopback.includes(url.hostname))
    if (url !== undefined && isProtected && url.username === '' && url.password === '' && !url.href.includes('#')) return url.href
    // Not quoted, because it may contain credentials.
    return new Wrong(isText(value) ? 'a string of another form' : describeGiven(value))
  }
}

/** The name of a claim that is not a registered claim. @param except registered claims that are allowed */
const claimName = (...except: string[]): Kind<string> => textLike(
  'the name of a claim, other than that of a date or the issuer',
  (name) => name.trim() !== '' && name !== '__proto__' && (!registeredClaimNames.includes(name) || except.includes(name)),
  quote
)
const checkName = { advice: 'Check the name.' }

/** An entry of the option `issuers`. */
export const trustedIssuer = {
  members: {
    issuer: required(named('the "iss" of the issuer\'s tokens, a non-empty string', text)),
    audience: required(
      named(
        'the audience of your service, a non-empty string or a list of such strings, or null for any audience',
        orNull(oneOrMore(text.allowed, text))
      ),
      { finding: 'E17', advice: 'Without it, tokens that the issuer made for other services would be accepted: set it.' }
    ),
    jwksUri: optional(keyAddress, { finding: 'E17', advice: "Give the address of the issuer's keys." }),
    // Its content is checked later; for a function, on each call.
    jwks: optional(matching<unknown>('a JWK set, { keys: [...] }, or a function that returns one')),
    algorithms: preset(
      listOf(
        `a non-empty list of ${pairNames.join(', ')}: not of algorithms with a secret, because every service that verifies such tokens could issue them`,
        oneOf(pairNames)
      ),
      ['RS256'],
      { finding: 'E17', advice: 'Give the algorithms with which the issuer signs.' }
    ),
    userId: preset(claimName(), 'sub', checkName),
    scopesName: preset(
      either(
        func<ScopesOfPayload>('a function of the payload that returns a list of strings'),
        oneOrMore(`${claimName().allowed}, or a non-empty list of such names`, claimName())
      ),
      ['scope'],
      checkName
    ),
    exactScopes: preset(flag, true),
    typ: optional(oneOf<'at+jwt'>(['at+jwt']), { advice: 'Leave it out to require no type.' }),
    audienceName: preset(claimName('aud'), 'aud', checkName),
    staleIfError: preset(seconds(minimumStale), defaultStale)
  },
  example: '{ issuer, audience, jwksUri }',
  page
} as const

function readEntry (value: unknown, index: number): IssuerEntry {
  const path = `issuers[${index}]`
  const { issuer, audience, jwksUri, jwks, userId, scopesName, exactScopes, audienceName, typ, staleIfError, ...entry } = readRecord(
    entryAt(path),
    value,
    trustedIssuer
  )
  if ((jwksUri === undefined) === (jwks === undefined)) {
    throw new InvalidConfiguration(
      `"${path}" has ${jwks === undefined ? 'neither "jwksUri" nor "jwks"' : '"jwksUri" and "jwks"'}. Give one of them: "jwksUri", the address of the issuer's keys, or "jwks", the keys or a function that returns them.`,
      { finding: 'E17' }
    )
  }
  return {
    path,
    rules: Object.freeze({ issuer, userId, scopesName, exactScopes }),
    audiences: audience === null ? undefined : new Set(audience),
    audienceName,
    algorithms: byName(entry.algorithms),
    typ,
    staleIfErrorMs: staleIfError * 1000,
    jwksUri,
    jwks
  }
}

/** Checks that `claimIss`, the issuer of this instance's tokens, is not a trusted issuer. @throws {InvalidConfiguration} */
export function checkOwnIssuer (issuers: readonly string[], claimIss: string | null): void {
  if (claimIss === null || !issuers.includes(claimIss)) return
  throw new InvalidConfiguration(
    '"claimIss" is the issuer of an entry of "issuers". "claimIss" is the issuer of your own tokens, and tokens of trusted issuers are never verified with your own keys. Remove the entry, or choose another "claimIss".',
    { finding: 'E17' }
  )
}

const issuerList = required(listOf('a non-empty list of issuers such as [{ issuer, audience, jwksUri }]', matching<unknown>('an issuer')))

/**
 * Reads the list of trusted issuers.
 * @throws {InvalidConfiguration} also for getters that an instance with `issuers` must not have
 */
export function readIssuerEntries (list: unknown, { settings, getters }: Resolved): readonly IssuerEntry[] {
  const entries = readValue('"issuers"', list, issuerList, trustedIssuer).map(readEntry)
  const names = entries.map(({ rules }) => rules.issuer)
  for (const [index, name] of names.entries()) {
    const first = names.indexOf(name)
    if (first !== index) {
      throw new InvalidConfiguration(
        `"issuers[${index}]" and "issuers[${first}]" have the same "issuer", so it would not be clear which entry applies to a token. Remove one of them; "audience" may be a list.`,
        { finding: 'E17' }
      )
    }
  }
  checkOwnIssuer(names, settings.claimIss)
  const getter = [...keyUseSettings, 'tokenCacheSize' as const].find((name) => getters.has(name))
  if (getter !== undefined) {
    throw new InvalidConfiguration(
      `"issuers" and "${accessorOf('get', getter)}" are given. With "issuers", all requests have the same keys and remembered tokens: remove "${accessorOf('get', getter)}".`,
      { finding: 'E11' }
    )
  }
  return entries
}
