/** The sessions of a registration, prepared: store, keys of refresh tokens, ended sessions. */
import type { FastifyInstance } from 'fastify'
import { InvalidConfiguration } from '../configuration-errors.ts'
import type { WatchSession } from '../request/signal.ts'
import type { SessionCheck } from '../request/verify.ts'
import type { Settings } from '../settings/schema.ts'
import type { SessionFeed } from '../../types/sessions.ts'
import { isHmac } from '../keys/algorithms.ts'
import { hmacKey, type Key } from '../keys/material.ts'
import { createRefreshTokenCodec } from './refresh-token.ts'
import { endedSessionsOf, prepareSessionCheck, releaseEndedSessions, type EndedSessions } from './revocation.ts'
import { SessionService } from './service.ts'
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
  readonly check: SessionCheck
  readonly watch: WatchSession
}

const minimumSecret = 32

/** Reads one entry of `sessions.secret`. @throws {InvalidConfiguration} */
function readSecret (given: unknown): Buffer {
  const { material } = hmacKey('HS256', 'sessions.secret', given, 'sign')
  if (material.length >= minimumSecret) return material
  throw new InvalidConfiguration(`"sessions.secret" has ${material.length} bytes; at least ${minimumSecret} are needed. Generate one with: node -p "crypto.randomBytes(32).toString('base64url')"`, { page: 'sessions.md#settings' })
}

/** The key material of refresh tokens: the secrets of sessions, or what signs access tokens. */
function materialsOf ({ secrets }: SessionSettings, { algorithm }: Settings, signing: Key | undefined): [Buffer, ...Buffer[]] {
  if (secrets !== undefined) {
    const [first, ...others] = secrets
    // An entry that is undefined, such as a variable that is not set, is refused like any other that is no secret.
    return [readSecret(first), ...others.map(readSecret)]
  }
  // A ring changes, and sessions must not change with it.
  if (signing === undefined) throw new InvalidConfiguration('"keys" and "sessions" are given without "sessions.secret". The keys of "keys" change, and with a key that is removed all sessions would end. Give "sessions.secret".', { finding: 'E24', page: 'sessions.md#settings' })
  return [isHmac(algorithm) ? signing.material : signing.keyObject.export({ type: 'pkcs8', format: 'der' })]
}

/**
 * Prepares sessions.
 * @param fingerprints those of the keys that verify access tokens
 * @param signing undefined with `authMode: false`, and with keys that change
 * @throws {InvalidConfiguration} for a secret that does not fit, or a store of users of another key
 */
export function prepareSessions (sessions: SessionSettings, settings: Settings, fingerprints: readonly string[], signing: Key | undefined): PreparedSessions {
  const store = sessions.store ?? memorySessions()
  const codec = settings.authMode ? createRefreshTokenCodec(materialsOf(sessions, settings, signing), settings) : undefined
  const ended = endedSessionsOf(store, fingerprints)
  const service = codec && new SessionService({ settings, sessions, store, ended, codec })
  const userOf = userOfPayload(settings)
  return {
    settings: sessions,
    store,
    isMemory: isMemoryStore(store),
    ended,
    service,
    check: prepareSessionCheck(ended, sessions.refuseAfter, userOf),
    watch: (sid, payload, controller) => ended.watch(sid, userOf(payload), controller)
  }
}

/** An instance of an open application: the fingerprints of the keys that verify its access tokens, and its store, which is undefined without sessions. */
interface OpenInstance { readonly fingerprints: readonly string[], readonly store: SessionFeed | undefined }

const open = new Set<OpenInstance>()

/**
 * Notes an instance until its application closes.
 * @param fingerprints those of the keys that verify access tokens; none where they are computed per request
 * @param store undefined without sessions
 * @returns whether an open instance with the same key has other sessions, so that one accepts tokens that the other refuses
 */
export function noteInstance (fastify: FastifyInstance, fingerprints: readonly string[], store: SessionFeed | undefined): boolean {
  if (fingerprints.length === 0) return false
  const differs = [...open].some((other) => other.store !== store && other.fingerprints.some((fingerprint) => fingerprints.includes(fingerprint)))
  const own = { fingerprints, store }
  open.add(own)
  fastify.addHook('onClose', async () => { open.delete(own) })
  return differs
}

/** Reads the ended sessions from when the application is ready until it closes. */
export function readEnded (fastify: FastifyInstance, { instanceName }: Settings, { ended, store, settings: { rules, poll } }: PreparedSessions): void {
  const reader = { instanceName, log: fastify.log, rules, poll }
  // Fastify does not add its default of 10 seconds here, which is enough.
  const { pluginTimeout = 0 } = fastify.initialConfig
  fastify.addHook('onReady', () => ended.start(reader, pluginTimeout))
  fastify.addHook('onClose', async () => {
    await ended.stop(reader)
    releaseEndedSessions(store)
  })
}
