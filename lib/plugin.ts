/** Registration: settings -> handlers checked -> instance -> decorators -> endpoints. */
import fastifyCookie from '@fastify/cookie'
import type { FastifyInstance, FastifyPluginAsync, FastifyRegisterOptions, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { TokenAuthOptions } from '../types/options.ts'
import type {} from '../types/registry.ts'
import { collectHandlers, handlerNames, type HostHandlers } from './authentication.ts'
import { readCustomClaims } from './custom-claims.ts'
import { authenticateEndpoint } from './endpoints/authenticate.ts'
import { meEndpoint } from './endpoints/me.ts'
import { refreshEndpoint } from './endpoints/refresh.ts'
import { addEndpoint, type Endpoint } from './endpoints/route.ts'
import { verifyEndpoint } from './endpoints/verify.ts'
import { checkViewPaths, viewEndpoint } from './endpoints/views.ts'
import { AuthenticateNotImplemented, InvalidConfiguration, RefreshTokenNotImplemented } from './errors.ts'
import { typeName } from './host.ts'
import { withDefaultSecret } from './keys/default-secret.ts'
import { documentGuards } from './openapi.ts'
import { Responses } from './responses.ts'
import { checkSubclass } from './settings/check.ts'
import { resolveSettings, settingOptionNames, type Resolved } from './settings/configuration.ts'
import type { Settings } from './settings/schema.ts'
import { suggest } from './settings/suggest.ts'
import { requestSlot, TokenAuth } from './token-auth.ts'
import { readClassViews } from './view.ts'
import { warn, warnOfSettings } from './warnings.ts'

/** What Fastify itself takes from the options of a registration. */
const fastifyOptions = ['prefix', 'logLevel', 'logSerializers']
const lists = ['customClaims', 'extraVerifications', 'classViews', 'configurationClass', 'authenticationClass', 'responsesClass']
const optionNames = [...settingOptionNames, ...handlerNames, ...lists]

type Options = Readonly<Record<string, unknown>>

function checkOptionNames (options: Options): void {
  for (const name of Object.keys(options)) {
    if (!optionNames.includes(name) && !fastifyOptions.includes(name)) {
      throw new InvalidConfiguration(`Unknown option "${name}".${suggest(name, optionNames)} Options are the settings, "set<Setting>", "get<Setting>", the handlers, and ${lists.join(', ')}.`, { section: 'settings' })
    }
  }
}

function readResponses ({ responsesClass = Responses }: Options): Responses {
  return new (checkSubclass('responsesClass', responsesClass, Responses, 'responses'))()
}

function readExtraVerifications ({ extraVerifications = [] }: Options) {
  const expected = 'must be a list of functions (payload) => boolean'
  if (!Array.isArray(extraVerifications)) {
    throw new InvalidConfiguration(`Option "extraVerifications" ${expected}; given: ${typeName(extraVerifications)}.`, { section: 'handlers' })
  }
  for (const [index, verification] of extraVerifications.entries()) {
    if (typeof verification !== 'function') {
      throw new InvalidConfiguration(`Option "extraVerifications" ${expected}; entry ${index} is ${typeName(verification)}.`, { section: 'handlers' })
    }
  }
  return extraVerifications
}

/** @throws {AuthenticateNotImplemented} {RefreshTokenNotImplemented} for a handler that the settings need */
function checkHandlers (handlers: Partial<HostHandlers>, settings: Settings): void {
  if (settings.authMode && handlers.authenticate === undefined) {
    throw new AuthenticateNotImplemented('The handler "authenticate" is missing. Give it as an option or as a method of the authentication class, or set "authMode" to false for an instance that only verifies tokens.', { section: 'handlers' })
  }
  const missing = (['storeRefreshToken', 'retrieveRefreshToken'] as const).filter((name) => handlers[name] === undefined)
  if (settings.refreshTokenEnabled && missing.length > 0) {
    const names = missing.map((name) => `"${name}"`).join(' and no ')
    throw new RefreshTokenNotImplemented(`"refreshTokenEnabled" is true, but the host gives no ${names}. Give both handlers as options or as methods of the authentication class.`, { section: 'handlers' })
  }
}

function createInstance (options: Options, resolved: Resolved): TokenAuth {
  const { settings } = resolved
  const handlers = collectHandlers(options)
  checkHandlers(handlers, settings)
  return new TokenAuth({
    resolved,
    handlers,
    responses: readResponses(options),
    customClaims: readCustomClaims(options.customClaims === undefined ? [] : options.customClaims, settings),
    extraVerifications: readExtraVerifications(options)
  })
}

/** Properties of every request of Fastify that a getter would break. */
const requestProperties = ['id', 'params', 'raw', 'query', 'log', 'body']

/** Makes `fastify.<name>` and `request.<name>`. @throws {InvalidConfiguration} where the name is taken */
function decorate (fastify: FastifyInstance, instance: TokenAuth): void {
  const name = instance.settings.instanceName
  const existing: unknown = Reflect.get(fastify, name)
  if (Object.hasOwn(fastify, name) && existing instanceof TokenAuth) {
    throw new InvalidConfiguration(`An instance named "${name}" is registered on this context already. Give this one another "instanceName", and another "urlPrefix" where both have endpoints.`, { section: 'instances' })
  }
  const isOurs = existing instanceof TokenAuth
  if ((existing !== undefined && !isOurs) || requestProperties.includes(name) || (!isOurs && fastify.hasRequestDecorator(name))) {
    throw new InvalidConfiguration(`"instanceName" is "${name}", which is a property of Fastify or of another plugin already. Choose another name.`, { section: 'instances' })
  }
  fastify.decorate(name, instance)
  // The slot is reserved once, so that all requests keep one hidden class.
  if (!fastify.hasRequestDecorator(requestSlot)) fastify.decorateRequest(requestSlot, null)
  // An outer instance of this name has made the getter already; it finds the nearest one.
  if (!fastify.hasRequestDecorator(name)) {
    fastify.decorateRequest(name, {
      getter (this: FastifyRequest) {
        const nearest: TokenAuth = Reflect.get(this.server, name)
        return nearest.of(this)
      }
    })
  }
}

function endpointsOf (instance: TokenAuth, options: Options): Endpoint[] {
  const { settings } = instance
  const views = readClassViews(options.classViews === undefined ? [] : options.classViews, { instance })
  checkViewPaths(views, settings)
  const endpoints: Endpoint[] = views.map(viewEndpoint)
  if (settings.authMode) {
    endpoints.push(authenticateEndpoint(instance), verifyEndpoint(instance), meEndpoint(instance))
    if (settings.refreshTokenEnabled) endpoints.push(refreshEndpoint(instance))
  }
  return endpoints
}

const plugin: FastifyPluginAsync<TokenAuthOptions> = async (fastify, typedOptions) => {
  const options: Options = { ...typedOptions }
  checkOptionNames(options)
  const given = resolveSettings(options, Reflect.get(fastify, 'config'))
  const { resolved, isDefaultSecret } = withDefaultSecret(given)
  const instance = createInstance(options, resolved)
  if (isDefaultSecret) warn('W01', instance.settings.instanceName)
  if (instance.policy.isSecretShort) warn('W02', instance.settings.instanceName)
  warnOfSettings(resolved, instance)

  const setsCookies = instance.settings.cookieSet || resolved.getters.has('cookieSet')
  if (setsCookies && !fastify.hasDecorator('serializeCookie')) await fastify.register(fastifyCookie, { hook: false })
  const endpoints = endpointsOf(instance, options)
  decorate(fastify, instance)
  documentGuards(fastify, instance)
  if (endpoints.length === 0) return
  // A context of their own: hooks and options of these routes are nobody else's.
  const own: FastifyRegisterOptions<object> = Object.fromEntries(fastifyOptions.flatMap((name) => options[name] === undefined ? [] : [[name, options[name]]]))
  await fastify.register(async (context) => {
    for (const endpoint of endpoints) addEndpoint(context, fastify, instance, endpoint)
  }, own)
}

/**
 * The plugin, for `fastify.register(tokenAuth, options)`. Its type is written down, here and in index.ts: an inferred one
 * would be spelled out in the package without the instances that a user declares.
 */
export const tokenAuth: FastifyPluginAsync<TokenAuthOptions> = fp(plugin, { fastify: '>=5.8.5 <6', name: 'fastify-token-auth' })

/** Registers the plugin: the older form of `fastify.register(tokenAuth, options)`. */
export function initialize (fastify: FastifyInstance, options: TokenAuthOptions) {
  return fastify.register(tokenAuth, options)
}
