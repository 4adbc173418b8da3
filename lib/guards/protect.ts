/** Guards that require a valid access token. */
import type { Guard } from '../../types/instance.ts'
import type { Registration } from '../registration.ts'
import { optionsOfGuards, prepareGuard, readOptions, type ReadOptions } from './options.ts'
import { makeHook } from './run.ts'

type ProtectValues = ReadOptions<typeof optionsOfGuards.protect>

const withoutOptions = readOptions('protect', optionsOfGuards.protect, {})

/** Makes a guard that requires a valid access token. @throws {InvalidConfiguration} for options that contradict the registration */
export function makeProtectGuard (registration: Registration, options: ProtectValues = withoutOptions): Guard {
  return makeHook({ ...prepareGuard(registration, options), check: undefined, isOptional: options.optional })
}
