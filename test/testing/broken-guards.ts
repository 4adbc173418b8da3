/** Guards with the mistakes that are found in applications, and a right one, with plain Fastify and node:crypto. */
import { createHmac, createPublicKey, timingSafeEqual, verify, type JsonWebKey } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { host, now, rsaPair, secret } from '../helper.ts'

type Guard = (request: FastifyRequest) => unknown

const unauthorized = () => Object.assign(new Error('Unauthorized'), { statusCode: 401 })

const tokenOf = ({ headers }: FastifyRequest): string => {
  const [, token] = /^Bearer (.+)$/.exec(headers.authorization ?? '') ?? []
  if (token === undefined) throw unauthorized()
  return token
}

const decode = (segment = '') => JSON.parse(Buffer.from(segment, 'base64url').toString())

const hmac = (input: string, key: string, hash = 'sha256') => createHmac(hash, key).update(input).digest()

function isSignedBy (input: string, signature: string, key: string, hash?: string): boolean {
  const [expected, given] = [hmac(input, key, hash), Buffer.from(signature, 'base64url')]
  return expected.length === given.length && timingSafeEqual(expected, given)
}

const isOfRsa = (input: string, signature: string, key: Parameters<typeof verify>[2]) => verify('sha256', Buffer.from(input), key, Buffer.from(signature, 'base64url'))

/** A segment as JSON; only canonical base64url of UTF-8 is one. */
function strictly (segment: string): unknown {
  const bytes = Buffer.from(segment, 'base64url')
  if (bytes.toString('base64url') !== segment) throw unauthorized()
  return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)

interface Rules { key?: string, isExpiryChecked?: boolean }

function check (token: string, { key = secret, isExpiryChecked = true }: Rules): void {
  const [head = '', body = '', signature = '', ...others] = token.split('.')
  const header = strictly(head)
  const isPlain = isRecord(header) && header.alg === 'HS256' && header.typ === 'JWT' && !['crit', 'enc', 'cty'].some((name) => Object.hasOwn(header, name))
  const isSigned = Buffer.from(signature, 'base64url').toString('base64url') === signature && isSignedBy(`${head}.${body}`, signature, key)
  if (others.length > 0 || !isPlain || !isSigned) throw unauthorized()
  const payload = strictly(body)
  if (!isRecord(payload)) throw unauthorized()
  const { exp, nbf = 0, iss, aud } = payload
  const isCurrent = !isExpiryChecked || (typeof exp === 'number' && exp > now())
  if (!isCurrent || typeof nbf !== 'number' || nbf > now() || iss !== 'us' || aud !== 'api') throw unauthorized()
}

/** Whatever it throws is a refusal. */
const strict = (rules: Rules = {}): Guard => (request) => {
  try {
    check(tokenOf(request), rules)
  } catch {
    throw unauthorized()
  }
}

const refusing = (isAccepted: (token: string) => unknown): Guard => async (request) => {
  const token = tokenOf(request)
  let accepted: unknown = false
  try {
    accepted = await isAccepted(token)
  } catch {}
  if (accepted !== true) throw unauthorized()
}

const halves = (token: string): [input: string, signature: string] => [token.slice(0, token.lastIndexOf('.')), token.slice(token.lastIndexOf('.') + 1)]

export const rsa = rsaPair()

/** The key that a token names by address. */
async function fetchedKey (address: string) {
  const { keys: [key] } = JSON.parse(await (await fetch(address)).text())
  return { key: key as JsonWebKey, format: 'jwk' as const }
}

export const right = strict()

/** By mistake. Each accepts the tokens that it should accept. */
export const broken: Readonly<Record<string, Guard>> = {
  'no verification': refusing((token) => decode(token.split('.')[1]).exp > now()),
  none: refusing((token) => ['none', 'None', 'NONE'].includes(decode(token.split('.')[0]).alg) || isSignedBy(...halves(token), secret)),
  'only if present': (request) => { if (request.headers.authorization !== undefined) right(request) },
  'a known secret': strict({ key: 'secret' }),
  'the algorithm of the token': refusing((token) => decode(token.split('.')[0]).alg === 'HS256' ? isSignedBy(...halves(token), rsa.publicKey) : isOfRsa(...halves(token), rsa.publicKey)),
  'no expiry': strict({ isExpiryChecked: false }),
  throws: (request) => check(tokenOf(request), {}),
  'trusts a proxy': (request) => { if (request.headers['x-forwarded-for'] !== '127.0.0.1') right(request) },
  'fetches jku': refusing(async (token) => {
    const { jku } = decode(token.split('.')[0])
    return isOfRsa(...halves(token), jku === undefined ? rsa.publicKey : createPublicKey(await fetchedKey(jku)))
  }),
  'fetches jku and refuses': refusing(async (token) => {
    const { jku } = decode(token.split('.')[0])
    if (jku !== undefined) await fetchedKey(jku)
    return isOfRsa(...halves(token), rsa.publicKey)
  }),
  'path prefix': (request) => { if (request.url.startsWith('/reports')) right(request) }
}

/** An application whose every route has a guard. */
export function guarded (t: Parameters<typeof host>[0], guard: Guard): FastifyInstance {
  // The names of parameters that hostile requests use are not those of any application, so a log would show them.
  const app = host(t, { logger: false })
  app.addHook('onRequest', async (request) => { await guard(request) })
  app.get('/reports', async () => 'reports')
  return app
}
