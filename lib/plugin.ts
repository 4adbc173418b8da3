/** The plugin: one registration, from top to bottom. */
import type { FastifyInstance, FastifyPluginAsync, FastifyRegisterOptions, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { TokenAuthOptions } from '../types/options.ts'
import type {} from '../types/registry.ts'
import type { AnyInstance } from '../types/requests.ts'
import type { StoreStatus } from '../types/sessions.ts'
import { TrustedIssuers } from './authorities/issuers.ts'
import { fixedKeys, isWithoutKeys, listedKeys, type OwnKeys } from './authorities/own.ts'
import { prepareSigner } from './authorities/signer.ts'
import { addEndpoints } from './endpoints/routes.ts'
import { checkPaths, endpointsOf } from './endpoints/table.ts'
import { readClassViews } from './endpoints/view.ts'
import { addViews, checkViewPaths } from './endpoints/views.ts'
import { InvalidConfiguration } from './configuration-errors.ts'
import { isPromise } from './promises.ts'
import { describeOther, isPlainObject, memberOf } from './values.ts'
import { handlerNames } from './host/handlers.ts'
import { collectHost, type Host } from './host/host.ts'
import { adviceOnCopies } from './copies.ts'
import { loadSerializer } from './http/cookies.ts'
import { noteCookies } from './http/old-cookies.ts'
import { Responses } from './http/responses.ts'
import { prepareIssuing } from './issuing/issuing.ts'
import { withDefaultSecret } from './keys/default-secret.ts'
import { jwksMaxAge, LiveKeys } from './keys/live-keys.ts'
import { logIssuerNews, logKeyNews, type KeyNews } from './keys/news.ts'
import { noteInstance } from './neighbours.ts'
import { registrationOf, setRegistration, type Registration } from './registration.ts'
import { prepareChecks } from './request/checks.ts'
import { faceOf } from './request/request-auth.ts'
import { prepareRules } from './request/rules.ts'
import { reserveSlot, stateOf } from './request/slot.ts'
import { prepareTokens } from './request/tokens.ts'
import { prepareSessions, readEnded, type PreparedSessions } from './sessions/prepare.ts'
import { checkSessionOverrides, readSessions, withSessions } from './sessions/settings.ts'
import { bookOf, type RouteBook } from './routes/book.ts'
import { checkSubclass } from './settings/check.ts'
import { overrideSettings, resolveSettings, settingOptionNames, type Resolved } from './settings/configuration.ts'
import { suggest } from './settings/suggest.ts'
import { TokenAuth } from './token-auth.ts'
import { warn, warnOfRegistration } from './warnings.ts'

/** The options of a registration that belong to Fastify itself. */
const fastifyOptions = ['prefix', 'logLevel', 'logSerializers']
/** The options besides settings and handlers. */
const otherOptions = [
  'sessions',
  'keys',
  'issuers',
  'customClaims',
  'extraVerifications',
  'classViews',
  'configurationClass',
  'authenticationClass',
  'responsesClass'
]
const optionNames = [...settingOptionNames, ...handlerNames, ...otherOptions]

type Options = Readonly<Record<string, unknown>>

/** The parts of a registration. */
interface Parts {
  readonly options: Options
  readonly resolved: Resolved
  readonly isDefaultSecret: boolean
  readonly host: Host
  /** Undefined without the option `keys`. */
  readonly live: LiveKeys | undefined
  readonly own: OwnKeys
  readonly issuers: TrustedIssuers | undefined
  readonly sessions: PreparedSessions | undefined
  readonly routes: RouteBook
}

/**
 * Copies the options. Accepts only a plain object: with a promise, a Map or a class instance, options would be missed.
 * @throws {InvalidConfiguration} also for an unknown option
 */
function readOptions (options: unknown): Options {
  if (!isPlainObject(options)) {
    const advice = isPromise(options) ? 'Await it, and pass its result.' : 'Copy your options into a plain object: { ...options }.'
    throw new InvalidConfiguration(`The options of register() must be a plain object; given: ${describeOther(options)}. ${advice}`, {
      page: 'settings.md'
    })
  }
  for (const name of Object.keys(options)) {
    if (!optionNames.includes(name) && !fastifyOptions.includes(name)) {
      throw new InvalidConfiguration(
        `Unknown option "${name}".${suggest(name, optionNames)} Options are the settings, "set<Setting>", "get<Setting>", the handlers, and ${otherOptions.join(', ')}.`,
        { page: 'settings.md' }
      )
    }
  }
  // Without a prototype: properties of a polluted `Object.prototype` are not options.
  return Object.assign(Object.create(null), options)
}

function readResponses ({ responsesClass = Responses }: Options): Responses {
  return new (checkSubclass('responsesClass', responsesClass, Responses, 'reference.md#responses'))()
}

/** Returns why guards may respond with 503; undefined if they never do. */
function outageOf ({ sessions, issuers }: Parts): string | undefined {
  const reasons = [
    ...issuers === undefined ? [] : ['The keys of the issuer of the token are not available at the moment.'],
    ...sessions === undefined || sessions.settings.refuseAfter === null ? [] : ['The session store has been unavailable for too long.']
  ]
  return reasons.length === 0 ? undefined : reasons.join(' ')
}

/** Whether this service issues its tokens itself, and without scopes. */
function lacksScopes ({ resolved: { settings, getters }, host: { handlers }, issuers }: Parts): boolean {
  const { authMode, scopesEnabled } = settings
  const areComputed = getters.has('scopesEnabled') || getters.has('scopesName')
  const comeOtherwise = handlers.extendPayload !== undefined || handlers.overrideScopeValidator !== undefined
  return issuers === undefined && authMode && !scopesEnabled && !areComputed && !comeOtherwise
}

/** The state of an instance without sessions, which knows everything that it needs. */
const freshFrom = (since: Date) => (): StoreStatus => ({ state: 'fresh', since: new Date(since), error: null })

/** Creates the record of a registration. Key material stays in closures: no property of the record leads to it. */
function createRegistration (parts: Parts): Registration {
  const { options, resolved, host, own, issuers, sessions, routes } = parts
  const { settings } = resolved
  const checks = prepareChecks(host, sessions?.check)
  const kinds = [prepareTokens(own.finders, resolved)]
  const rules = prepareRules(resolved, kinds, checks)
  return Object.freeze<Registration>({
    settings,
    host,
    responses: readResponses(options),
    kinds,
    rules,
    logoutRules:
      host.handlers.trusted === undefined
        ? rules
        : prepareRules(resolved, kinds, prepareChecks({ ...host, handlers: {} }, sessions?.check)),
    issuing: prepareIssuing(resolved, host, prepareSigner(own.signing, resolved), sessions !== undefined),
    sessions: sessions?.service,
    watchSession: sessions?.watch,
    feed: sessions && { isMemory: sessions.isMemory, wasRead: () => sessions.ended.wasRead },
    storeStatus: sessions === undefined ? freshFrom(new Date(Date.now())) : () => sessions.ended.status(),
    keys: Object.freeze({ reload: own.reload, status: () => ({ keys: own.status(), issuers: issuers?.status() ?? [] }) }),
    routes,
    outage: outageOf(parts),
    hasLoginPage: resolved.configured.has('loginRedirectUrl') || resolved.getters.has('loginRedirectUrl'),
    hasExactScopes: issuers?.hasExactScopes === true,
    lacksScopes: lacksScopes(parts),
    overrideRules (overrides: Options) {
      const overridden = overrideSettings(resolved, overrides)
      const finders = own.findersFor(overrides, overridden)
      issuers?.checkClaimIss(overridden.settings.claimIss)
      if (sessions !== undefined) checkSessionOverrides(overridden.settings, settings)
      return prepareRules(overridden, [...kinds.slice(0, -1), prepareTokens(finders, overridden)], checks)
    }
  })
}

/** Properties of every request of Fastify that a getter would break. */
const requestProperties = ['id', 'params', 'raw', 'query', 'log', 'body']

/** Creates `fastify.<instanceName>` and `request.<instanceName>`. @throws {InvalidConfiguration} if the name is taken */
function decorate (fastify: FastifyInstance, instance: TokenAuth, registration: Registration): void {
  const name = instance.settings.instanceName
  const existing = memberOf(fastify, name)
  const isOurs = registrationOf(existing) !== undefined
  if (Object.hasOwn(fastify, name) && isOurs) {
    throw new InvalidConfiguration(
      `An instance named "${name}" is already registered on this context. Choose another "instanceName" for this one, and another "urlPrefix" if both have endpoints.`,
      { page: 'instances.md' }
    )
  }
  if ((existing !== undefined && !isOurs) || requestProperties.includes(name) || (!isOurs && fastify.hasRequestDecorator(name))) {
    throw new InvalidConfiguration(
      `"instanceName" is "${name}", which is already a property of Fastify or of another plugin. Choose another name.${adviceOnCopies([existing])}`,
      { page: 'instances.md' }
    )
  }
  fastify.decorate(name, instance)
  reserveSlot(fastify)
  // The getter of an outer instance with this name already finds the nearest instance.
  if (!fastify.hasRequestDecorator(name)) {
    fastify.decorateRequest(name, {
      getter (this: FastifyRequest) {
        const nearest = memberOf(this.server, name)
        return faceOf(stateOf(nearest === instance ? registration : registrationOf(nearest)!, this))
      }
    })
  }
}

/** Calls the function `keys` and checks the dates of the keys regularly, until the application closes. */
function startKeys (fastify: FastifyInstance, live: LiveKeys): void {
  live.start()
  fastify.addHook('onClose', async () => { live.stop() })
}

/** Reads the options of a registration, and prepares its parts. @throws {InvalidConfiguration} {RequiredKeysNotFound} */
async function prepareParts (fastify: FastifyInstance, options: Options): Promise<Parts> {
  const configured = resolveSettings(options, memberOf(fastify, 'config'))
  checkPaths(configured.settings, options)
  const hasKeys = options.keys !== undefined
  const { instanceName } = configured.settings
  const issuers =
    options.issuers === undefined
      ? undefined
      : await TrustedIssuers.read(options.issuers, configured, logIssuerNews(fastify.log, instanceName))
  const needsNoSecret = hasKeys || (issuers !== undefined && isWithoutKeys(configured))
  const { resolved: withSecret, isDefaultSecret } = needsNoSecret
    ? { resolved: configured, isDefaultSecret: false }
    : withDefaultSecret(configured)
  const sessionSettings = readSessions(options.sessions, withSecret)
  const resolved = sessionSettings === undefined ? withSecret : withSessions(withSecret)
  const logNews = logKeyNews(fastify.log, instanceName)
  const report = (news: KeyNews) => {
    if (news.isWeak === true) warn('W02', instanceName)
    if (news.residue !== undefined) warn('W28', instanceName, ` ${news.residue}`)
    logNews(news)
  }
  const live = hasKeys ? await LiveKeys.read(options.keys, resolved, report) : undefined
  const routes = bookOf(fastify)
  const host = collectHost(options, resolved.settings, sessionSettings !== undefined)
  const own = live === undefined ? fixedKeys(resolved, issuers) : listedKeys(live, issuers)
  const sessions = sessionSettings && prepareSessions(sessionSettings, resolved.settings, own.fingerprints, own.signingKey)
  return { options, resolved, isDefaultSecret, host, live, own, issuers, sessions, routes }
}

const plugin: FastifyPluginAsync<TokenAuthOptions> = async (fastify, typedOptions) => {
  const options = readOptions(typedOptions)
  const parts = await prepareParts(fastify, options)
  const registration = createRegistration(parts)
  const { resolved, live, own, issuers, sessions, routes } = parts
  const { settings } = registration
  const { instanceName } = settings
  routes.watch(fastify, instanceName, resolved.configured.has('requireGuards') ? settings.requireGuards : undefined)
  warnOfRegistration(parts)

  if (settings.cookieSet || resolved.getters.has('cookieSet')) {
    await loadSerializer()
    noteCookies(fastify.server, settings)
  }
  const instance = new TokenAuth(registration)
  setRegistration(instance, registration)
  const { classViews = [] } = options
  const views = readClassViews(classViews, { instance })
  const endpoints = endpointsOf(registration, { jwkSet: () => own.jwkSet(), maxAge: jwksMaxAge })
  checkViewPaths(views, endpoints, settings)
  decorate(fastify, instance, registration)
  if (sessions !== undefined) readEnded(fastify, settings, sessions)
  const shared: FastifyRegisterOptions<object> = Object.fromEntries(
    fastifyOptions.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]]))
  )
  await addViews(fastify, registration, views, shared)
  await addEndpoints(fastify, registration, endpoints, shared)
  // Last, so that a registration that fails starts no timer and is not noted as an instance.
  if (live !== undefined) startKeys(fastify, live)
  noteInstance(fastify, own.fingerprints, sessions?.store, resolved)
  if (issuers === undefined) return
  fastify.addHook('onClose', async () => {
    issuers.stop()
  })
  await issuers.start(fastify.server, fastify.initialConfig.pluginTimeout)
}

/**
 * The plugin, for `await fastify.register(tokenAuth, options)`. Its type is explicit, here and in index.ts: the declaration
 * of an inferred type would not contain the instances that an application declares.
 */
export const tokenAuth: FastifyPluginAsync<TokenAuthOptions> = fp(plugin, { fastify: '>=5.8.5 <6', name: 'fastify-token-auth' })

/** Registers the plugin. The older form of `fastify.register(tokenAuth, options)`. */
export function initialize<Registered> (fastify: AnyInstance<Registered>, options: TokenAuthOptions): Registered {
  return fastify.register(tokenAuth, options)
}
