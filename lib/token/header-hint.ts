/** What a header says before the signature is verified: it only serves to find the key. */
import { withoutStackTraces } from './codec.ts'

export interface HeaderHint {
  readonly alg: string
  readonly kid: string | undefined
  readonly typ: unknown
}

const longestKid = 256

/** Reads a header. Returns undefined for a header that says nothing that can be used. */
export function readHint (text: string): HeaderHint | undefined {
  try {
    const header: unknown = withoutStackTraces(() => JSON.parse(Buffer.from(text, 'base64url').toString()))
    if (typeof header !== 'object' || header === null) return undefined
    const { alg, kid, typ } = Object.assign(Object.create(null), header)
    if (typeof alg !== 'string') return undefined
    if (kid === undefined) return { alg, kid, typ }
    return typeof kid === 'string' && kid !== '' && kid.length <= longestKid ? { alg, kid, typ } : undefined
  } catch {
    return undefined
  }
}
