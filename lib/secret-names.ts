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

const maximumLength = 200

/** The form of a JWT. */
const tokens = /eyJ[\w-]+\.[\w-]+\.[\w-]*/g

/**
 * Shows a value that is not an error, in at most 200 characters. Calls no function of the value, and shows neither nested
 * objects, nor tokens, nor members that probably contain a secret.
 */
export function show (value: unknown): string {
  const shown = typeof value === 'object' && value !== null && !types.isProxy(value) && !Array.isArray(value)
    ? Object.fromEntries(
      Object.entries(Object.getOwnPropertyDescriptors(value)).map(([name, member]) => [name, isSecretName(name) ? '***' : member.value])
    )
    : value
  const text = inspect(shown, { depth: 0, breakLength: Infinity, customInspect: false }).replace(tokens, '***')
  return text.length > maximumLength ? `${text.slice(0, maximumLength - 3)}...` : text
}
