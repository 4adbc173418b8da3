/** What signs where no secret is set: never a built-in value, which everyone could read. */
import { randomBytes } from 'node:crypto'
import { InvalidConfiguration } from '../errors.ts'
import type { Resolved } from '../settings/configuration.ts'
import { verifyingNames } from './configured-keys.ts'
import { isHmac } from './material.ts'

let processSecret: Buffer | undefined

/**
 * Gives settings without a secret the random one of this process, which all its instances share.
 * @throws {InvalidConfiguration} with NODE_ENV=production, where tokens must outlive a restart and pass between processes
 */
export function withDefaultSecret (given: Resolved): { resolved: Resolved, isDefaultSecret: boolean } {
  const { settings: { algorithm }, getters } = given
  const keys = given.keys()
  const isGiven = getters.has('algorithm') || verifyingNames(algorithm).some((name) => keys[name] !== undefined || getters.has(name))
  if (isGiven || !isHmac(algorithm)) return { resolved: given, isDefaultSecret: false }
  if (process.env.NODE_ENV === 'production') {
    throw new InvalidConfiguration('"secret" is missing, and NODE_ENV is "production". Give the option "secret", or SERVICE_JWT_SECRET in the application\'s configuration: at least 32 random bytes, the same for every process.', { finding: 'E03', section: 'settings' })
  }
  const secret = processSecret ??= randomBytes(64)
  return { resolved: { ...given, keys: () => ({ ...keys, secret }) }, isDefaultSecret: true }
}
