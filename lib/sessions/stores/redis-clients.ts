/** One interface for the Redis clients that applications use. */
import { createHash } from 'node:crypto'
import type { IoredisLike, NodeRedisLike } from '../../../types/sessions.ts'
import { InvalidConfiguration } from '../../configuration-errors.ts'
import { isPromise } from '../../promises.ts'
import { memberOf, typeName } from '../../values.ts'
import { storeTimeoutMs } from './store-clock.ts'

export interface Script { readonly text: string, readonly sha: string }

export const scriptOf = (text: string): Script => ({ text, sha: createHash('sha1').update(text).digest('hex') })

/** A connection to a server, or to a cluster. */
export interface Connection {
  /** Executes a script. All keys are in one bucket, so that a cluster finds their node by any of them. */
  execute (script: Script, keys: readonly string[], values: ReadonlyArray<string | number>): Promise<unknown>
  /** Opens another connection with the options of the client. Missing for clusters and sentinels. */
  open?: (() => OwnConnection) | undefined
}

/** A connection that this package opens. It does not keep the process alive, so it does not reconnect: the timers would do so. */
export interface OwnConnection {
  readonly connection: Connection
  /** Resolves when the connection can be used, and rejects if it was closed before. */
  readonly ready: Promise<unknown>
  /** Whether the connection is closed. */
  isOver (): boolean
  close (): void
}

const isMissingScript = (error: unknown) => String(memberOf(error, 'message')).startsWith('NOSCRIPT')

/** Executes a script by its digest. If the server does not know the script, sends its text. */
async function byDigest (call: (isKnown: boolean) => PromiseLike<unknown>): Promise<unknown> {
  try {
    return await call(true)
  } catch (error) {
    if (!isMissingScript(error)) throw error
    return await call(false)
  }
}

/**
 * Client libraries queue commands while they are not connected, and send them later. A refresh that is executed after its
 * time limit would retire the token that the browser still has.
 */
function requireConnection (isConnected: boolean, state: string): void {
  if (!isConnected) {
    throw new Error(
      `The Redis client is not connected: ${state}. It connects again by itself, but if it never was connected, call its method connect().`
    )
  }
}

/** Ignores connection errors, which calls report, too. Without a listener, node-redis would end the process, and ioredis log them. */
const ignore = () => {}

function ioredisConnection (client: IoredisLike): Connection {
  const { duplicate } = client
  return {
    execute: async (script, keys, values) => await byDigest((isKnown) => {
      requireConnection(client.status === 'ready', `its status is ${JSON.stringify(client.status)}`)
      const rest = [...keys, ...values.map(String)]
      return isKnown ? client.evalsha(script.sha, keys.length, ...rest) : client.eval(script.text, keys.length, ...rest)
    }),
    ...duplicate !== undefined && client.isCluster !== true && {
      open: () => {
        const own = duplicate.call(client, { retryStrategy: () => null })
        own.on('error', ignore)
        own.on('connect', () => { own.stream?.unref?.() })
        const ready = new Promise<void>((resolve, reject) => {
          own.on('ready', resolve)
          own.on('end', () => { reject(new Error('The connection has ended.')) })
        })
        // With `lazyConnect`, the duplicate does not connect by itself.
        if (own.status === 'wait') own.connect().catch(ignore)
        return { connection: ioredisConnection(own), ready, isOver: () => own.status === 'end', close: () => { own.disconnect() } }
      }
    }
  }
}

/** Returns the slot of the keys of a bucket in a cluster: CRC-16 (XMODEM) of the digit in their braces. */
function slotOf (key: string): number {
  let crc = key.charCodeAt(key.indexOf('{') + 1) << 8
  for (let bit = 0; bit < 8; bit++) crc = crc << 1 ^ ((crc & 0x8000) === 0 ? 0 : 0x1021)
  return crc & 0x3fff
}

function nodeRedisConnection (given: NodeRedisLike): Connection {
  // The time after which node-redis discards a queued command.
  const client = given.withCommandOptions?.({ timeout: storeTimeoutMs }) ?? given
  const { duplicate } = given
  return {
    execute: async (script, keys, values) =>
      await byDigest((isKnown) => {
        // Clusters of node-redis 5 have no isReady.
        requireConnection(given.isReady ?? given.isOpen === true, 'it is not ready')
        // A cluster is open while one of its servers is down, and queues the commands for that server.
        requireConnection(
          given.slots?.[slotOf(keys[0]!)]?.master.client?.isReady !== false,
          'the server of the cluster that has the session is not ready'
        )
        const options = { keys: [...keys], arguments: values.map(String) }
        return isKnown ? client.evalSha(script.sha, options) : client.eval(script.text, options)
      }),
    // Sentinels and clusters have no unref(). They find a new primary themselves.
    ...(duplicate !== undefined &&
      given.unref !== undefined && {
      open: () => {
        const own = duplicate.call(given, { socket: { ...given.options?.socket, reconnectStrategy: false } })
        own.on('error', ignore)
        own.unref?.()
        return {
          connection: nodeRedisConnection(own),
          ready: own.connect(),
          isOver: () => own.isOpen !== true,
          // destroy() of version 5 throws if the client is closed.
          close: () => {
            if (own.isOpen === true) own.destroy()
          }
        }
      }
    })
  }
}

/** Without the state of a connection, an object with these methods is a client over HTTP, a pipeline or a transaction. */
const isIoredis = (client: object): client is IoredisLike => {
  const { evalsha, status }: { evalsha?: unknown, status?: unknown } = client
  return typeof evalsha === 'function' && typeof status === 'string'
}
const isNodeRedis = (client: object): client is NodeRedisLike => {
  const { evalSha, isReady, isOpen }: { evalSha?: unknown, isReady?: unknown, isOpen?: unknown } = client
  return typeof evalSha === 'function' && typeof (isReady ?? isOpen) === 'boolean'
}

/** Describes a value that is not a supported client, and what to do about it. */
function describeOther (client: unknown): string {
  const [evalsha, evalSha] = [memberOf(client, 'evalsha'), memberOf(client, 'evalSha')]
  if (isPromise(client)) return 'a promise. Await it.'
  if (typeof evalsha !== 'function' && typeof evalSha !== 'function') return `${typeName(client)}.`
  return 'an object that executes scripts and has no connection, such as a client over HTTP, a pipeline or a transaction. Connect one of these clients to the same database.'
}

/** Recognizes a client by its methods and connection state, so that this package depends on no client. @throws {InvalidConfiguration} */
export function connectionOf (client: IoredisLike | NodeRedisLike): Connection {
  if (Object(client) === client) {
    if (isNodeRedis(client)) return nodeRedisConnection(client)
    if (isIoredis(client)) return ioredisConnection(client)
  }
  throw new InvalidConfiguration(
    `The first parameter of redisSessions() must be a client, or a cluster, of ioredis, iovalkey or node-redis; given: ${describeOther(client)}`,
    { page: 'stores.md' }
  )
}
