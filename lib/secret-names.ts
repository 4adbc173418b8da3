/** Names of members whose values must not be shown, such as `password` of a user. */
import { inspect, types } from 'node:util'

/** In lower case, without `_` and `-`. Whole names only: `has_password` and `hashtag` are harmless. */
const secretNames = new Set([
  'password', 'passwd', 'passphrase', 'pwd', 'hash', 'salt', 'passwordhash', 'passwordsalt', 'passworddigest', 'hashedpassword',
  'encryptedpassword', 'plainpassword', 'passwordhashed', 'passwordencrypted', 'pwdhash', 'pwhash', 'passhash', 'secret',
  'clientsecret', 'otpsecret', 'totpsecret', 'mfasecret', 'twofactorsecret', 'recoverycodes', 'privatekey', 'accesstoken',
  'refreshtoken', 'resettoken', 'passwordresettoken', 'authorization'
])

/** Whether a member with this name probably contains a secret. */
export const isSecretName = (name: string): boolean => secretNames.has(name.toLowerCase().replace(/[_-]/g, ''))

/** Further names of members that the log does not show. Users may have members with these names. */
const hiddenNames = new Set(['cookie', 'cookies', 'setcookie', 'token', 'idtoken', 'apikey', 'pass', 'pin', 'otp', 'credential', 'credentials'])

const isHidden = (name: string): boolean => isSecretName(name) || hiddenNames.has(name.toLowerCase().replace(/[_-]/g, ''))

const maximumLength = 200
/** How many members, and how many characters of a text are read. A token that is shown in part has its first 40 characters. */
const limits = { maxArrayLength: 20, maxStringLength: 2 * maximumLength + 100 }

/** JWTs, and other texts that may be tokens, hashes or keys. */
const tokens = /eyJ[\w-]{10,}\.[\w.-]*|[\w+-]{40,}[\w.+=-]*/g

/** Names values whose members may be many, or are found by calling functions of the application. */
function kindOf (value: unknown): string | undefined {
  if (typeof value === 'function') return 'a function'
  if (types.isProxy(value)) return 'a Proxy'
  return ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value) || types.isBoxedPrimitive(value) ? 'bytes or another wrapped value' : undefined
}

/**
 * Shows a value that is not an error, in at most 200 characters. Calls no function of the value, and shows neither nested
 * objects, nor tokens, nor members that probably contain a secret.
 */
export function show (value: unknown): string {
  const kind = kindOf(value)
  if (kind !== undefined) return kind
  const shown = typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(
      Object.getOwnPropertyNames(value)
        .slice(0, limits.maxArrayLength)
        .map((name) => [name, isHidden(name) ? '***' : Object.getOwnPropertyDescriptor(value, name)?.value])
    )
    : value
  const text = inspect(shown, { ...limits, depth: 0, breakLength: Infinity, customInspect: false }).replace(tokens, '***')
  return text.length > maximumLength ? `${text.slice(0, maximumLength - 3)}...` : text
}
