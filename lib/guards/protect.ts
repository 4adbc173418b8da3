/** Guards that require a valid access token. */
import type { Guard, GuardOptions } from '../../types/instance.ts'
import type { Registration } from '../registration.ts'
import { prepareGuard } from './options.ts'
import { makeHook } from './run.ts'

/** Makes a guard that requires a valid access token. @throws {InvalidConfiguration} for wrong options */
export function makeProtectGuard (registration: Registration, options: GuardOptions): Guard {
  return makeHook(prepareGuard(registration, options))
}
