/** The clients of Redis that hosts pass, behind one interface. */
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
  /** Connects once more, as the client is configured. Missing for clusters and sentinels. */
  open?: (() => OwnConnection) | undefined
}

/** A connection that the application does not know of. It does not keep the process alive, and does not connect again: its timers would. */
export interface OwnConnection {
  readonly connection: Connection
  /** Resolves when it can be used, and rejects when it was closed before. */
  readonly ready: Promise<unknown>
  /** Whether it is closed. */
  isOver (): boolean
  close (): void
}

const isMissingScript = (error: unknown) => String(memberOf(error, 'message')).startsWith('NOSCRIPT')

/** Executes a script by its digest, and sends its text where the server does not know it. */
async function byDigest (call: (isKnown: boolean) => PromiseLike<unknown>): Promise<unknown> {
  try {
    return await call(true)
  } catch (error) {
    if (!isMissingScript(error)) throw error
    return await call(false)
  }
}

/**
 * The client libraries keep commands while they are not connected, and send them later. A refresh that is executed after its
 * call was given up would retire the token that its client still has.
 */
function requireConnection (isConnected: boolean, state: string): void {
  if (!isConnected) throw new Error(`The Redis client is not connected: ${state}. It connects again by itself, but if it never was connected, call its method connect().`)
}

/** Its errors are those of calls, too. Without a listener, node-redis would end the process, and ioredis write to the console. */
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
        // With `lazyConnect`, it does not connect by itself.
        if (own.status === 'wait') own.connect().catch(ignore)
        return { connection: ioredisConnection(own), ready, isOver: () => own.status === 'end', close: () => { own.disconnect() } }
      }
    }
  }
}

/** The slot of the keys of a bucket in a cluster: CRC-16 (XMODEM) of the digit in their braces. */
function slotOf (key: string): number {
  let crc = key.charCodeAt(key.indexOf('{') + 1) << 8
  for (let bit = 0; bit < 8; bit++) crc = crc << 1 ^ ((crc & 0x8000) === 0 ? 0 : 0x1021)
  return crc & 0x3fff
}

function nodeRedisConnection (given: NodeRedisLike): Connection {
  // How long it keeps a command that it could not send.
  const client = given.withCommandOptions?.({ timeout: storeTimeoutMs }) ?? given
  const { duplicate } = given
  return {
    execute: async (script, keys, values) => await byDigest((isKnown) => {
      // Clusters of node-redis 5 have no isReady.
      requireConnection(given.isReady ?? given.isOpen === true, 'it is not ready')
      // A cluster is open while one of its servers is down, and keeps the commands for that one.
      requireConnection(given.slots?.[slotOf(keys[0]!)]?.master.client?.isReady !== false, 'the server of the cluster that has the session is not ready')
      const options = { keys: [...keys], arguments: values.map(String) }
      return isKnown ? client.evalSha(script.sha, options) : client.eval(script.text, options)
    }),
    // A sentinel or a cluster, which find their primaries themselves, has no unref().
    ...duplicate !== undefined && given.unref !== undefined && {
      open: () => {
        const own = duplicate.call(given, { socket: { ...given.options?.socket, reconnectStrategy: false } })
        own.on('error', ignore)
        own.unref?.()
        return {
          connection: nodeRedisConnection(own),
          ready: own.connect(),
          isOver: () => own.isOpen !== true,
          // Version 5 throws where it is closed.
          close: () => { if (own.isOpen === true) own.destroy() }
        }
      }
    }
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

/** Says what was given in the place of a client, and what to do. */
function describeOther (client: unknown): string {
  const [evalsha, evalSha] = [memberOf(client, 'evalsha'), memberOf(client, 'evalSha')]
  if (isPromise(client)) return 'a promise. Await it.'
  if (typeof evalsha !== 'function' && typeof evalSha !== 'function') return `${typeName(client)}.`
  return 'an object that executes scripts and has no connection, as a client over HTTP, a pipeline or a transaction. Connect one of these clients to the same database.'
}

/** Recognizes a client by the spelling of its methods and the state of its connection, so that this package depends on none. @throws {InvalidConfiguration} */
export function connectionOf (client: IoredisLike | NodeRedisLike): Connection {
  if (Object(client) === client) {
    if (isNodeRedis(client)) return nodeRedisConnection(client)
    if (isIoredis(client)) return ioredisConnection(client)
  }
  throw new InvalidConfiguration(`The first parameter of redisSessions() must be a client, or a cluster, of ioredis, iovalkey or node-redis; given: ${describeOther(client)}`, { page: 'stores.md' })
}
