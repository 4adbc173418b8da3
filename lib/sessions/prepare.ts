/** The sessions of a registration, prepared: store, keys of refresh tokens, ended sessions. */
import type { FastifyInstance } from 'fastify'
import { InvalidConfiguration } from '../errors.ts'
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

export interface PreparedSessions {
  readonly settings: SessionSettings
  readonly store: SessionFeed
  /** Whether sessions end with this process. */
  readonly isMemory: boolean
  readonly ended: EndedSessions
  /** Undefined with `authMode: false`. */
  readonly service: SessionService | undefined
  readonly check: SessionCheck
}

const minimumSecret = 32

/** Reads one entry of `sessions.secret`. @throws {InvalidConfiguration} */
function readSecret (given: unknown): Buffer {
  const { material } = hmacKey('HS256', 'sessions.secret', given, 'sign')
  if (material.length >= minimumSecret) return material
  throw new InvalidConfiguration(`"sessions.secret" has ${material.length} bytes; at least ${minimumSecret} are needed. Generate one with: node -p "crypto.randomBytes(32).toString('base64url')"`, { section: 'sessions' })
}

/** The key material of refresh tokens: the secrets of sessions, or what signs access tokens. */
function materialsOf ({ secrets }: SessionSettings, { algorithm }: Settings, signing: Key): [Buffer, ...Buffer[]] {
  if (secrets !== undefined) {
    const [first, ...others] = secrets
    // An entry that is undefined, such as a variable that is not set, is refused like any other that is no secret.
    return [readSecret(first), ...others.map(readSecret)]
  }
  return [isHmac(algorithm) ? signing.material : signing.keyObject.export({ type: 'pkcs8', format: 'der' })]
}

/**
 * Prepares sessions.
 * @param signing undefined with `authMode: false`
 * @throws {InvalidConfiguration} for a secret that does not fit, or a store of users of another key
 */
export function prepareSessions (sessions: SessionSettings, settings: Settings, verifying: Key, signing: Key | undefined): PreparedSessions {
  const store = sessions.store ?? memorySessions()
  const ended = endedSessionsOf(store, verifying.fingerprint)
  const service = settings.authMode && signing !== undefined
    ? new SessionService({ settings, sessions, store, ended, codec: createRefreshTokenCodec(materialsOf(sessions, settings, signing), settings) })
    : undefined
  return { settings: sessions, store, isMemory: isMemoryStore(store), ended, service, check: prepareSessionCheck(ended, sessions.refuseAfter) }
}

/** Instances of open applications, by the fingerprint of the key that verifies their access tokens. `store` is undefined without sessions. */
const open = new Map<string, Set<{ readonly store: SessionFeed | undefined }>>()

/**
 * Notes an instance until its application closes.
 * @param fingerprint that of the key that verifies access tokens
 * @param store undefined without sessions
 * @returns whether an open instance with the same key has other sessions, so that one accepts tokens that the other refuses
 */
export function noteInstance (fastify: FastifyInstance, fingerprint: string, store: SessionFeed | undefined): boolean {
  const others = open.get(fingerprint) ?? new Set()
  const differs = [...others].some((other) => other.store !== store)
  const own = { store }
  open.set(fingerprint, others.add(own))
  fastify.addHook('onClose', async () => {
    others.delete(own)
    if (others.size === 0 && open.get(fingerprint) === others) open.delete(fingerprint)
  })
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
