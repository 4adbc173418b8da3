/** Rules that concern several settings, for configured and computed values. The rules of paths are in endpoints/table.ts. */
import { InvalidConfiguration } from '../configuration-errors.ts'
import { ownMemberOf, quote } from '../values.ts'
import { registeredClaimNames, type SettingName, type Settings } from './schema.ts'

/** A rule, and the settings that it reads. */
export interface Rule {
  readonly concerns: readonly SettingName[]
  /** @throws {InvalidConfiguration} if the settings contradict each other */
  readonly check: (settings: Readonly<Settings>) => void
}

/** The settings that hold text. */
type NameSetting = {
  [Name in SettingName]: Name extends keyof Settings ? (Settings[Name] extends string ? Name : never) : never
}[SettingName]

type Names = { readonly [K in SettingName]?: string }

/** @throws {InvalidConfiguration} for two settings with the same name or path */
export function checkDistinct (names: Names, what: string): void {
  const taken = new Map<string, string>()
  for (const [setting, name] of Object.entries(names)) {
    const other = taken.get(name)
    if (other !== undefined) {
      throw new InvalidConfiguration(`"${setting}" and "${other}" are both ${JSON.stringify(name)}: ${what}.`, { finding: 'E10' })
    }
    taken.set(name, setting)
  }
}

/** Returns a rule for each pair of settings: their values must differ. */
function distinct (what: string, ...settings: readonly NameSetting[]): Rule[] {
  return settings.flatMap((first, index) => settings.slice(index + 1).map((second): Rule => ({
    concerns: [first, second],
    check: ({ [first]: one, [second]: other }) => checkDistinct({ [first]: one, [second]: other }, what)
  })))
}

/** The claims whose names are settings. */
const claimSettings = ['userId', 'scopesName'] as const

/** Rules for the claims whose names are settings. @param faultOf returns why a name is not allowed; undefined if it is */
const claimRules = (
  concerns: readonly SettingName[],
  faultOf: (name: string, settings: Readonly<Settings>) => string | undefined
): Rule[] =>
  claimSettings.map((setting) => ({
    concerns: [setting, ...concerns],
    check (settings) {
      const fault = faultOf(settings[setting], settings)
      if (fault !== undefined) {
        throw new InvalidConfiguration(`"${setting}" must not be ${JSON.stringify(settings[setting])}${fault}. Choose another name.`, {
          finding: 'E10'
        })
      }
    }
  }))

/** Browsers reject a cookie if the prefix of its name requires attributes that it does not have (RFC 6265bis section 4.1.3). */
const prefixRules = (['cookieAccessTokenName', 'cookieRefreshTokenName', 'cookieSplitSignatureName'] as const).map((setting): Rule => ({
  concerns: ['cookieSet', setting, 'cookieSecure', 'cookieDomain', 'cookiePath'],
  check (settings) {
    if (!settings.cookieSet) return
    const name = settings[setting].toLowerCase()
    const isHostOnly = settings.cookieDomain === '' && settings.cookiePath === '/'
    if (
      ((name.startsWith('__secure-') || name.startsWith('__host-')) && !settings.cookieSecure) ||
      (name.startsWith('__host-') && !isHostOnly)
    ) {
      throw new InvalidConfiguration(
        `"${setting}" is ${JSON.stringify(settings[setting])}, but browsers accept the prefix "__Secure-" only with "cookieSecure": true, and "__Host-" only with "cookiePath": "/" and no "cookieDomain" as well. Change these settings, or choose a name without this prefix.`,
        { finding: 'E09' }
      )
    }
  }
}))

const rules: readonly Rule[] = [
  ...distinct('the fields of a response need different names', 'accessTokenName', 'refreshTokenName'),
  ...distinct('cookies need different names', 'cookieAccessTokenName', 'cookieRefreshTokenName', 'cookieSplitSignatureName'),
  ...distinct('query parameters need different names', 'queryStringAccessTokenName', 'queryStringRefreshTokenName'),
  ...distinct('claims need different names', ...claimSettings),
  ...claimRules([], (name) =>
    registeredClaimNames.includes(name) ? ', which is the name of a registered claim (RFC 7519 section 4.1)' : undefined
  ),
  ...claimRules(['claimAuthTime'], (name, { claimAuthTime }) =>
    claimAuthTime && name === 'auth_time'
      ? ' if "claimAuthTime" is true, because this claim then contains the time of the login'
      : undefined
  ),
  ...prefixRules,
  {
    concerns: ['cookieSet', 'cookieSamesite', 'cookieSecure'],
    check ({ cookieSet, cookieSamesite, cookieSecure }) {
      if (cookieSet && cookieSamesite === 'none' && !cookieSecure) {
        throw new InvalidConfiguration(
          '"cookieSamesite" is "none" and "cookieSecure" is false, so browsers reject the cookies. Set "cookieSecure" to true.',
          { finding: 'E09' }
        )
      }
    }
  },
  {
    concerns: ['cookieSet', 'cookieSamesite', 'cookieSecure', 'cookiePartitioned'],
    check ({ cookieSet, cookieSamesite, cookieSecure, cookiePartitioned }) {
      if (cookieSet && cookiePartitioned && (cookieSamesite !== 'none' || !cookieSecure)) {
        throw new InvalidConfiguration(
          '"cookiePartitioned" is true, so the cookies are for frames on other sites, to which browsers send them only with "cookieSamesite": "none" and "cookieSecure": true. Set both, or remove "cookiePartitioned".',
          { finding: 'E09' }
        )
      }
    }
  }
]

/** The claims of access tokens with a session, and their descriptions for messages. */
const sessionClaims = { sid: 'the id of the session', sgen: 'the generation of its refresh token' }

/** Additional rules with the option `sessions`. */
const rulesOfSessions = claimRules([], (name) => {
  const content = ownMemberOf(sessionClaims, name)
  return content === undefined ? undefined : ` with "sessions", because this claim then contains ${content}`
})

const rulesFor = (hasSessions: boolean) => hasSessions ? [...rules, ...rulesOfSessions] : rules

/** Checks the placeholders of a configured redirect target. Results of getters may have braces. @throws {InvalidConfiguration} */
export function checkTarget (name: string, target: string): void {
  const wrong = target.match(/\{[^}]*\}/g)?.find((text) => text !== '{next}' && text !== '{reason}')
  if (wrong === undefined) return
  throw new InvalidConfiguration(
    `"${name}" has ${quote(wrong)}, but only {next} and {reason} are replaced in it. Remove it, or write its braces as %7B and %7D.`,
    { finding: 'E58' }
  )
}

/** The settings of a registration or a guard, without the parts that no rule reads. */
interface Resolved {
  readonly settings: Readonly<Settings>
  readonly getters: ReadonlyMap<SettingName, unknown>
  readonly hasSessions: boolean
}

/** Checks configured values; rules that read computed settings are checked per request. @throws {InvalidConfiguration} on contradictions */
export function checkTogether ({ settings, getters, hasSessions }: Resolved): void {
  for (const { concerns, check } of rulesFor(hasSessions)) if (!concerns.some((name) => getters.has(name))) check(settings)
  checkTarget('loginRedirectUrl', settings.loginRedirectUrl)
}

/** A rule that reads one or more computed settings. */
export interface ComputedRule extends Pick<Rule, 'check'> {
  readonly computed: readonly SettingName[]
}

/** Returns the rules that read a computed setting. */
export function computedRulesOf (name: SettingName, { getters, hasSessions }: Resolved): readonly ComputedRule[] {
  return rulesFor(hasSessions).filter(({ concerns }) => concerns.includes(name)).map(({ concerns, check }) => ({
    check,
    computed: concerns.filter((other) => getters.has(other))
  }))
}
