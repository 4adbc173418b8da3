/** Fetches the JWK set of an issuer with jose, which is an optional dependency: only this file imports it. */
import { InvalidConfiguration } from '../configuration-errors.ts'
import { importRefused } from '../imports.ts'

/** Fetches keys. @throws {Error} with a message that contains no part of the response */
export type ReadKeys = (signal: AbortSignal) => Promise<unknown>

/** In milliseconds, for the whole response. */
const timeout = 5000
/** In bytes, after decompression. The sets of providers have a few thousand bytes. */
const maximumSize = 262_144

/** @throws {InvalidConfiguration} if jose is not installed, or has another version */
async function loadJose (load: (() => Promise<object>) | undefined) {
  let jose: Partial<typeof import('jose')> = {}
  let cause: unknown
  try {
    // esbuild bundles an application without jose only if the import is inside a `try` block.
    jose = load === undefined ? await import('jose') : await load()
  } catch (error) {
    cause = error
  }
  const { createRemoteJWKSet, customFetch } = jose
  if (createRemoteJWKSet !== undefined && customFetch !== undefined) return { createRemoteJWKSet, customFetch }
  throw (
    importRefused('"jwksUri"', cause) ??
    new InvalidConfiguration(
      '"jwksUri" needs jose 6, which fetches the keys of issuers. Install it: npm install jose@6. Or give "jwks", a function that returns the keys.',
      { finding: 'E18', cause }
    )
  )
}

/**
 * Returns a function that fetches a JWK set: status 200 without redirects, within 5 seconds, at most 256 KiB.
 * @param load imports another module instead of jose
 * @throws {InvalidConfiguration} without jose
 */
export async function remoteKeySet (uri: string, load?: () => Promise<object>): Promise<ReadKeys> {
  const { createRemoteJWKSet, customFetch } = await loadJose(load)
  return async (stop) => {
    let problem: string | undefined
    /** Ends a response that is too large after decompression. jose would read all of it. */
    function limit (): TransformStream<Uint8Array, Uint8Array> {
      let size = 0
      return new TransformStream({
        transform (chunk, controller) {
          size += chunk.byteLength
          if (size <= maximumSize) return controller.enqueue(chunk)
          problem = `The response has more than ${maximumSize} bytes.`
          controller.error(new Error(problem))
        }
      })
    }
    const set = createRemoteJWKSet(new URL(uri), {
      timeoutDuration: timeout,
      async [customFetch] (address: string, options: RequestInit & { signal: AbortSignal }) {
        const signal = AbortSignal.any([options.signal, stop])
        options.signal.addEventListener('abort', () => { problem = `There was no complete response within ${timeout / 1000} seconds.` })
        const response = await fetch(address, { ...options, signal })
        if (response.status === 200 && response.body !== null) return new Response(response.body.pipeThrough(limit()))
        problem = `The status of the response is ${response.status}, and not 200. Redirects are not followed.`
        await response.body?.cancel()
        return new Response(null, { status: 502 })
      }
    })
    try {
      await set.reload()
    } catch (error) {
      // Without the original error as the cause: the error of a JSON parser quotes its input.
      const { message, cause } = Object(error)
      const { code } = Object(cause)
      throw new Error(problem ?? (typeof code === 'string' ? `${message} (${code})` : `${message}`))
    }
    return set.jwks()
  }
}
