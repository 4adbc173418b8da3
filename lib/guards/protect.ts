/** Guards that require a valid access token. */
import type { FastifyRequest } from 'fastify'
import type { Guard } from '../../types/instance.ts'
import type { Registration } from '../registration.ts'
import { optionsOfGuards, prepareGuard, readOptions, withAnonymous, type ReadOptions } from './options.ts'
import { prepareRenewal } from './renew.ts'
import { makeHook } from './run.ts'

type ProtectValues = ReadOptions<typeof optionsOfGuards.protect>

const withoutOptions = readOptions('protect', optionsOfGuards.protect, {})

/** Makes a guard that requires a valid access token. @throws {InvalidConfiguration} for options that contradict the registration */
export function makeProtectGuard (registration: Registration, options: ProtectValues = withoutOptions): Guard {
  const guard = prepareGuard(registration, options)
  return makeHook(options.optional ? withAnonymous(guard) : guard, [], options.optional)
}

/**
 * Makes the guard of an endpoint. If a request asks who is logged in (`isAsked`), the guard renews tokens, if the instance
 * can, and lets the request pass without a valid token.
 */
export function makeAskedGuard (registration: Registration, isAsked: (request: FastifyRequest) => boolean): Guard {
  const renew = prepareRenewal(registration, registration.rules, undefined, true, {})
  return makeHook({
    ...prepareGuard(registration, withoutOptions),
    renew: renew && (async (state, refusal, reply) => isAsked(state.request) ? await renew(state, refusal, reply) : undefined),
    isAnonymous: ({ request }, { answer }) => answer.statusCode === 401 && isAsked(request)
  })
}
