/** The sessions of a registration, prepared: store, keys of refresh tokens, ended sessions. */
import type { FastifyInstance } from 'fastify'
import { InvalidConfiguration } from '../configuration-errors.ts'
import type { SessionCheck, WatchSession } from '../request/checks.ts'
import type { Settings } from '../settings/schema.ts'
import type { SessionFeed } from '../../types/sessions.ts'
import { isHmac } from '../algorithms.ts'
import { hmacKey, type Key, residueIn } from '../keys/material.ts'
import { createRefreshTokenCodec } from './refresh-token.ts'
import { endedSessionsOf, releaseEndedSessions } from './feeds.ts'
import type { EndedSessions } from './revocation.ts'
import { SessionService } from './service.ts'
import { prepareSessionCheck } from './session-check.ts'
import type { SessionSettings } from './settings.ts'
import { isMemoryStore, memorySessions } from './stores/memory.ts'
import { userOfPayload } from './user.ts'

export interface PreparedSessions {
  readonly settings: SessionSettings
  readonly store: SessionFeed
  /** Whether sessions end with this process. */
  readonly isMemory: boolean
  readonly ended: EndedSessions
  /** Undefined with `authMode: false`. */
  readonly service: SessionService | undefined
  /** Whether an entry of `sessions.secret` can be guessed. */
  readonly isWeak: boolean
  /** Characters around the text of an entry of `sessions.secret`, and how to remove them; undefined if there are none. */
  readonly residue: string | undefined
  readonly check: SessionCheck
  readonly watch: WatchSession
}

const minimumSecret = 32

/** Reads one entry of `sessions.secret`. @throws {InvalidConfiguration} */
function readSecret (given: unknown): Key {
  const key = hmacKey('HS256', 'sessions.secret', given, 'sign')
  const { material } = key
  if (material.length >= minimumSecret) return key
  throw new InvalidConfiguration(
    `"sessions.secret" has ${material.length} bytes; at least ${minimumSecret} are needed. Generate one with: node -p "crypto.randomBytes(32).toString('base64url')"`,
    { page: 'sessions-reference.md#settings' }
  )
}

/** Returns the key material of refresh tokens: the secrets of sessions, or the key that signs access tokens. */
function materialsOf (
  { secrets }: SessionSettings,
  { algorithm }: Settings,
  signing: Key | undefined
): { materials: [Buffer, ...Buffer[]]; isWeak: boolean; residue: string | undefined } {
  if (secrets !== undefined) {
    // Refuses undefined entries, too, such as environment variables that are not set.
    const [first, ...others] = [readSecret(secrets[0]), ...secrets.slice(1).map(readSecret)] as const
    return {
      materials: [first.material, ...others.map(({ material }) => material)],
      isWeak: [first, ...others].some(({ isWeak }) => isWeak),
      residue: residueIn([first, ...others])
    }
  }
  // The keys of a ring change, but refresh tokens must stay valid.
  if (signing === undefined) {
    throw new InvalidConfiguration(
      '"keys" and "sessions" are given without "sessions.secret". The keys of "keys" change, and with a key that is removed all sessions would end. Give "sessions.secret": the value of the earlier "secret", or all users have to log in again; a new one if nobody is logged in.',
      { finding: 'E24' }
    )
  }
  return {
    materials: [isHmac(algorithm) ? signing.material : signing.keyObject.export({ type: 'pkcs8', format: 'der' })],
    isWeak: false,
    residue: undefined
  }
}

/**
 * Prepares sessions.
 * @param fingerprints the fingerprints of the keys that verify access tokens
 * @param signing undefined with `authMode: false`, and with the setting "keys"
 * @throws {InvalidConfiguration} for a secret that is not allowed, or a store of an instance with another key
 */
export function prepareSessions (
  sessions: SessionSettings,
  settings: Settings,
  fingerprints: readonly string[],
  signing: Key | undefined
): PreparedSessions {
  const store = sessions.store ?? memorySessions()
  const own = settings.authMode ? materialsOf(sessions, settings, signing) : undefined
  const codec = own && createRefreshTokenCodec(own.materials, settings)
  const ended = endedSessionsOf(store, fingerprints)
  const service = codec && new SessionService({ settings, sessions, store, ended, codec })
  const userOf = userOfPayload(settings)
  return {
    settings: sessions,
    store,
    isMemory: isMemoryStore(store),
    ended,
    service,
    isWeak: own?.isWeak === true,
    residue: own?.residue,
    check: prepareSessionCheck(ended, sessions.refuseAfter, userOf),
    watch: (sid, payload, controller) => ended.watch(sid, userOf(payload), controller)
  }
}

/** Reads the ended sessions while the application is open. Sends waiting items in `preClose`, before `onClose` hooks close the client. */
export function readEnded (
  fastify: FastifyInstance,
  { instanceName }: Settings,
  { ended, store, settings: { rules, poll, refuseAfter } }: PreparedSessions
): void {
  const reader = { instanceName, log: fastify.log, rules, poll, refuseAfter }
  // If the option is missing here, Fastify uses its default of 10 seconds, which is enough.
  const { pluginTimeout = 0 } = fastify.initialConfig
  fastify.addHook('onReady', () => ended.start(reader, pluginTimeout))
  fastify.addHook('preClose', async () => await ended.prepareStop(reader))
  fastify.addHook('onClose', async () => {
    await ended.stop(reader)
    releaseEndedSessions(store)
  })
}
