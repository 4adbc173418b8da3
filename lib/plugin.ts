/** The plugin: one registration, from top to bottom. */
import fastifyCookie from '@fastify/cookie'
import type { FastifyInstance, FastifyPluginAsync, FastifyRegisterOptions, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { TokenAuthOptions } from '../types/options.ts'
import type {} from '../types/registry.ts'
import { authenticateEndpoint } from './endpoints/authenticate.ts'
import { addEndpoints, type Endpoint } from './endpoints/endpoint.ts'
import { meEndpoint } from './endpoints/me.ts'
import { logoutEndpoint } from './endpoints/logout.ts'
import { refreshEndpoint } from './endpoints/refresh.ts'
import { sessionRefreshEndpoint } from './endpoints/session-refresh.ts'
import { sessionEndpoints } from './endpoints/sessions.ts'
import { jwksEndpoint } from './endpoints/jwks.ts'
import { verifyEndpoint } from './endpoints/verify.ts'
import { readClassViews } from './endpoints/view.ts'
import { checkViewPaths, viewEndpoint } from './endpoints/views.ts'
import { InvalidConfiguration } from './configuration-errors.ts'
import { publishKeys } from './events.ts'
import { describeOther, isPlainObject } from './values.ts'
import { handlerNames } from './host/handlers.ts'
import { collectHost, type Host } from './host/host.ts'
import { Responses } from './http/responses.ts'
import { prepareIssuing } from './issuing/issuing.ts'
import { withDefaultSecret } from './keys/default-secret.ts'
import { jwksMaxAge, LiveKeys, type KeyNews } from './keys/live-keys.ts'
import { TrustedIssuers, type IssuerNews } from './keys/trusted-issuer.ts'
import { registrationOf, setRegistration, type Registration } from './registration.ts'
import { hostChecks } from './request/checks.ts'
import { prepareRules } from './request/rules.ts'
import { reserveSlot, stateOf } from './request/slot.ts'
import { noteInstance, prepareSessions, readEnded } from './sessions/prepare.ts'
import { checkSessionOverrides, readSessions, withSessions, type SessionSettings } from './sessions/settings.ts'
import { bookOf, type RouteBook } from './routes/book.ts'
import { checkSubclass } from './settings/check.ts'
import { overrideSettings, resolveSettings, settingOptionNames, type Resolved } from './settings/configuration.ts'
import { suggest } from './settings/suggest.ts'
import { CodecCache } from './token/codec-cache.ts'
import { isWithoutKeys, fixedKeyUse, liveKeyUse, type KeyUse } from './token/key-use.ts'
import { TokenAuth } from './token-auth.ts'
import { warn, warnOfSettings } from './warnings.ts'

/** The options of a registration that belong to Fastify itself. */
const fastifyOptions = ['prefix', 'logLevel', 'logSerializers']
const lists = ['sessions', 'keys', 'issuers', 'customClaims', 'extraVerifications', 'classViews', 'configurationClass', 'authenticationClass', 'responsesClass']
const optionNames = [...settingOptionNames, ...handlerNames, ...lists]

type Options = Readonly<Record<string, unknown>>

/**
 * Copies the options. Only a plain object is accepted: a promise, a Map or an instance of a class would have fewer options
 * than it seems to have.
 * @throws {InvalidConfiguration} also for an unknown option
 */
function readOptions (options: unknown): Options {
  if (!isPlainObject(options)) {
    const advice = options instanceof Promise ? 'Await it, and pass its result.' : 'Copy your options into a plain object: { ...options }.'
    throw new InvalidConfiguration(`The options of register() must be a plain object; given: ${describeOther(options)}. ${advice}`, { page: 'settings.md' })
  }
  for (const name of Object.keys(options)) {
    if (!optionNames.includes(name) && !fastifyOptions.includes(name)) {
      throw new InvalidConfiguration(`Unknown option "${name}".${suggest(name, optionNames)} Options are the settings, "set<Setting>", "get<Setting>", the handlers, and ${lists.join(', ')}.`, { page: 'settings.md' })
    }
  }
  // Without a prototype: properties of a polluted `Object.prototype` are not options.
  return Object.assign(Object.create(null), options)
}

function readResponses ({ responsesClass = Responses }: Options): Responses {
  return new (checkSubclass('responsesClass', responsesClass, Responses, 'reference.md#responses'))()
}

/** Returns why guards answer 503; undefined where they never do. */
function outageOf (sessions: SessionSettings | undefined, issuers: TrustedIssuers | undefined): string | undefined {
  const reasons = [
    ...issuers === undefined ? [] : ['The keys of the issuer of the token are not available at the moment.'],
    ...sessions === undefined || sessions.refuseAfter === null ? [] : ['The session store has been unavailable for too long.']
  ]
  return reasons.length === 0 ? undefined : reasons.join(' ')
}

/** Creates the record of a registration. Key material stays in closures: no property of the record leads to it. */
function createRegistration (options: Options, resolved: Resolved, sessionSettings: SessionSettings | undefined, live: LiveKeys | undefined, issuers: TrustedIssuers | undefined, routes: RouteBook) {
  const { settings } = resolved
  const hasSessions = sessionSettings !== undefined
  const host = collectHost(options, settings, hasSessions)
  // Created for the first computed key: most registrations never compute one.
  let made: CodecCache | undefined
  const codecs = () => {
    made ??= new CodecCache()
    return made
  }

  const keys = live === undefined ? fixedKeyUse(resolved, issuers) : liveKeyUse(live, issuers)
  const sessions = sessionSettings && prepareSessions(sessionSettings, settings, keys.fingerprints, keys.signing)
  // Tokens of others have no claims of this application.
  const checksOf = (asked: Host) => ({ session: sessions?.check, checks: hostChecks(asked), ofIssuers: issuers && hostChecks({ ...asked, customClaims: [] }) })
  const checks = checksOf(host)
  const verifier = keys.verifierOf(resolved)
  const rules = prepareRules(resolved, verifier, checks, codecs)
  const registration: Registration = Object.freeze({
    settings,
    host,
    responses: readResponses(options),
    rules,
    logoutRules: host.handlers.trusted === undefined ? rules : prepareRules(resolved, verifier, checksOf({ ...host, handlers: {} }), codecs),
    issuing: prepareIssuing(resolved, host, keys.signers, codecs, hasSessions),
    sessions: sessions?.service,
    watchSession: sessions?.watch,
    keys: keys.control,
    routes,
    outage: outageOf(sessionSettings, issuers),
    overrideRules (overrides: Options) {
      const overridden = overrideSettings(resolved, overrides)
      keys.checkOverrides(overrides, overridden)
      if (hasSessions) checkSessionOverrides(overridden.settings, settings)
      return prepareRules(overridden, keys.verifierOf(overridden), checks, codecs)
    }
  })
  return { registration, sessions, keys }
}

/** Properties of every request of Fastify that a getter would break. */
const requestProperties = ['id', 'params', 'raw', 'query', 'log', 'body']

/** Creates `fastify.<instanceName>` and `request.<instanceName>`. @throws {InvalidConfiguration} where the name is taken */
function decorate (fastify: FastifyInstance, instance: TokenAuth, registration: Registration): void {
  const name = instance.settings.instanceName
  const existing: unknown = Reflect.get(fastify, name)
  const isOurs = registrationOf(existing) !== undefined
  if (Object.hasOwn(fastify, name) && isOurs) {
    throw new InvalidConfiguration(`An instance named "${name}" is already registered on this context. Choose another "instanceName" for this one, and another "urlPrefix" if both have endpoints.`, { page: 'instances.md' })
  }
  if ((existing !== undefined && !isOurs) || requestProperties.includes(name) || (!isOurs && fastify.hasRequestDecorator(name))) {
    throw new InvalidConfiguration(`"instanceName" is "${name}", which is already a property of Fastify or of another plugin. Choose another name.`, { page: 'instances.md' })
  }
  fastify.decorate(name, instance)
  reserveSlot(fastify)
  // A getter of an outer instance with this name finds the nearest instance already.
  if (!fastify.hasRequestDecorator(name)) {
    fastify.decorateRequest(name, {
      getter (this: FastifyRequest) {
        const nearest: unknown = Reflect.get(this.server, name)
        return stateOf(nearest === instance ? registration : registrationOf(nearest)!, this).face
      }
    })
  }
}

function endpointsOf (registration: Registration, instance: TokenAuth, keys: KeyUse, { classViews = [] }: Options): Endpoint[] {
  const { settings, sessions } = registration
  const views = readClassViews(classViews, { instance })
  const endpoints: Endpoint[] = []
  if (settings.authMode) endpoints.push(authenticateEndpoint(registration), verifyEndpoint(registration), meEndpoint(registration))
  if (sessions !== undefined) endpoints.push(sessionRefreshEndpoint(registration, sessions), logoutEndpoint(registration, sessions), ...sessionEndpoints(registration, sessions))
  else if (settings.authMode && settings.refreshTokenEnabled) endpoints.push(refreshEndpoint(registration))
  if (settings.pathToJwks !== null) endpoints.push(jwksEndpoint(settings.pathToJwks, () => keys.jwkSet(), jwksMaxAge))
  checkViewPaths(views, endpoints, settings)
  return [...views.map(viewEndpoint), ...endpoints]
}

/** Tells what happens to keys: in an event, and in one log line for each change of state. */
const tellOfKeys = (fastify: FastifyInstance, instanceName: string) => ({ type, kid, error, isNew }: KeyNews) => {
  if (type === 'switched') fastify.log.info(`${instanceName}: the key ${kid} signs from now on.`)
  if (type === 'reloaded') fastify.log.info(`${instanceName}: the keys were reloaded.`)
  if (type === 'late') fastify.log.warn(`${instanceName}: the key ${kid} signs before all services that keep the published keys have seen it. Add keys with a later "signFrom".`)
  if (type === 'reload-failed' && isNew) fastify.log.error({ err: error }, `${instanceName}: the keys could not be reloaded. Those from before stay.`)
  publishKeys({ instanceName, type, ...(kid !== undefined && { kid }) })
}

/** As {@link tellOfKeys}, for trusted issuers. */
const tellOfIssuers = (fastify: FastifyInstance, instanceName: string) => ({ type, issuer, error }: IssuerNews) => {
  if (type === 'issuer-failed') fastify.log.warn({ err: error }, `${instanceName}: the keys of the issuer ${issuer} could not be read. Those from before count for "staleIfError" seconds. Without them, its tokens are answered with 503.`)
  if (type === 'issuer-recovered') fastify.log.info(`${instanceName}: the keys of the issuer ${issuer} could be read again.`)
  if (type === 'no-key') fastify.log.warn(`${instanceName}: no key of the issuer ${issuer} is for the algorithms of its entry in "issuers", so all of its tokens are refused. Give the algorithms with which it signs as "algorithms".`)
  else publishKeys({ instanceName, type, issuer })
}

/** Calls the function of keys regularly, and notices switches, until the application closes. */
function startKeys (fastify: FastifyInstance, live: LiveKeys): void {
  live.start()
  fastify.addHook('onClose', async () => { live.stop() })
}

/** In milliseconds: how long the start of an application waits for the keys of issuers, all of its registrations together. */
const issuersTime = 5000
/** Until when applications wait, by their servers. */
const waiting = new WeakMap<object, number>()

/** Reads the keys of trusted issuers until the application closes. One that cannot be reached does not keep the application from starting. */
async function startIssuers (fastify: FastifyInstance, issuers: TrustedIssuers): Promise<void> {
  fastify.addHook('onClose', async () => { issuers.stop() })
  // 0 means no limit.
  const halfTimeout = Number(fastify.initialConfig.pluginTimeout) / 2 || issuersTime
  const now = performance.now()
  const until = waiting.get(fastify.server) ?? now + Math.min(issuersTime, halfTimeout)
  waiting.set(fastify.server, until)
  let timer: NodeJS.Timeout | undefined
  await Promise.race([issuers.start(), new Promise((resolve) => { timer = setTimeout(resolve, until - now) })])
  clearTimeout(timer)
}

/** Whether a token may have a user id that belongs to another user under another issuer. */
function mayMixUsers (resolved: Resolved, { handlers }: Host, { size }: TrustedIssuers, hasKeys: boolean): boolean {
  return handlers.retrieveUser === undefined && handlers.trusted === undefined && (size > 1 || hasKeys || !isWithoutKeys(resolved))
}

const plugin: FastifyPluginAsync<TokenAuthOptions> = async (fastify, typedOptions) => {
  const options = readOptions(typedOptions)
  const configured = resolveSettings(options, Reflect.get(fastify, 'config'))
  const hasKeys = options.keys !== undefined
  const { instanceName } = configured.settings
  const issuers = options.issuers === undefined ? undefined : await TrustedIssuers.read(options.issuers, configured, tellOfIssuers(fastify, instanceName))
  const needsNoSecret = hasKeys || (issuers !== undefined && isWithoutKeys(configured))
  const { resolved: given, isDefaultSecret } = needsNoSecret ? { resolved: configured, isDefaultSecret: false } : withDefaultSecret(configured)
  const sessionSettings = readSessions(options.sessions, given)
  const resolved = sessionSettings === undefined ? given : withSessions(given)
  const live = hasKeys ? await LiveKeys.read(options.keys, resolved, tellOfKeys(fastify, instanceName)) : undefined
  const book = bookOf(fastify)
  const { registration, sessions, keys } = createRegistration(options, resolved, sessionSettings, live, issuers, book)
  const { settings, host } = registration
  if (settings.requireGuards) book.requireGuards(fastify)
  if (isDefaultSecret) warn('W01', instanceName)
  if (keys.isShort) warn('W02', instanceName)
  if (keys.isMixed) warn('W17', instanceName)
  if (issuers?.hasAnyAudience === true) warn('W18', instanceName)
  if (issuers !== undefined && mayMixUsers(resolved, host, issuers, hasKeys)) warn('W21', instanceName)
  if (issuers !== undefined && sessions !== undefined && keys.fingerprints.length === 0) warn('W25', instanceName)
  warnOfSettings(resolved, host, sessions)

  const setsCookies = settings.cookieSet || resolved.getters.has('cookieSet')
  if (setsCookies && !fastify.hasDecorator('serializeCookie')) await fastify.register(fastifyCookie, { hook: false })
  const instance = new TokenAuth(registration)
  setRegistration(instance, registration)
  const endpoints = endpointsOf(registration, instance, keys, options)
  decorate(fastify, instance, registration)
  if (sessions !== undefined) readEnded(fastify, settings, sessions)
  const own: FastifyRegisterOptions<object> = Object.fromEntries(fastifyOptions.flatMap((name) => options[name] === undefined ? [] : [[name, options[name]]]))
  await addEndpoints(fastify, registration, endpoints, own)
  // Last: a registration that fails is no instance.
  if (live !== undefined) startKeys(fastify, live)
  if (noteInstance(fastify, keys.fingerprints, sessions?.store)) warn('W22', instanceName)
  if (issuers !== undefined) await startIssuers(fastify, issuers)
}

/**
 * The plugin, for `await fastify.register(tokenAuth, options)`. Its type is written down, here and in index.ts: an inferred
 * type would be spelled out in the package without the instances that a user declares.
 */
export const tokenAuth: FastifyPluginAsync<TokenAuthOptions> = fp(plugin, { fastify: '>=5.8.5 <6', name: 'fastify-token-auth' })

/** Registers the plugin. The older form of `fastify.register(tokenAuth, options)`. */
export function initialize (fastify: FastifyInstance, options: TokenAuthOptions) {
  return fastify.register(tokenAuth, options)
}
