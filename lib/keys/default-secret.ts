/** The default secret of an instance: random, because everyone could read a secret in the code. */
import { randomBytes } from 'node:crypto'
import { InvalidConfiguration } from '../configuration-errors.ts'
import type { Resolved } from '../settings/configuration.ts'
import { isHmac } from '../algorithms.ts'
import { verifyingNames } from './material.ts'

let processSecret: Buffer | undefined

/**
 * Adds the random secret of this process to settings that need a secret and have none. All instances share it.
 * @throws {InvalidConfiguration} with NODE_ENV=production, where tokens must survive a restart and be accepted by other processes
 */
export function withDefaultSecret (settings: Resolved): { resolved: Resolved; isDefaultSecret: boolean } {
  const {
    settings: { algorithm },
    getters
  } = settings
  const keys = settings.keys()
  const hasKey = getters.has('algorithm') || verifyingNames(algorithm).some((name) => keys[name] !== undefined || getters.has(name))
  if (hasKey || !isHmac(algorithm)) return { resolved: settings, isDefaultSecret: false }
  if (process.env.NODE_ENV === 'production') {
    throw new InvalidConfiguration(
      '"secret" is missing, and NODE_ENV is "production". Give the option "secret", or SERVICE_JWT_SECRET in the application\'s configuration: at least 32 random bytes, the same for every process. To verify what another service issues, give "publicKey", "keys" or "issuers".',
      { finding: 'E03' }
    )
  }
  const secret = (processSecret ??= randomBytes(64))
  return { resolved: { ...settings, keys: () => ({ ...keys, secret }) }, isDefaultSecret: true }
}
