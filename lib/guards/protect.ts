/** Guards that require a valid access token. */
import type { Guard, GuardOptions, ProtectOptions } from '../../types/instance.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { typeName } from '../values.ts'
import type { Registration } from '../registration.ts'
import { prepareGuard, readOptions } from './options.ts'
import { makeHook } from './run.ts'

/** Splits the options of `protect()`. @throws {InvalidConfiguration} for a wrong `optional`: it must never open a route by mistake */
export function readProtect ({ optional = false, ...guardOptions }: ProtectOptions): { isOptional: boolean, guardOptions: GuardOptions } {
  if (typeof optional !== 'boolean') throw new InvalidConfiguration(`"optional" of protect() must be true or false; given: ${typeName(optional)}.`, { page: 'guards.md' })
  return { isOptional: optional, guardOptions: readOptions(guardOptions) }
}

/** Makes a guard that requires a valid access token. @throws {InvalidConfiguration} for wrong options */
export function makeProtectGuard (registration: Registration, options: ProtectOptions): Guard {
  const { isOptional, guardOptions } = readProtect(options)
  return makeHook({ ...prepareGuard(registration, guardOptions), check: undefined, isOptional })
}
