/** Extra verifications: functions of the application that check the whole payload. */
import type { ExtraVerification } from '../../types/handlers.ts'
import { InvalidConfiguration } from '../configuration-errors.ts'
import { typeName } from '../values.ts'

/** Reads the option `extraVerifications`. @throws {InvalidConfiguration} for anything but a list of functions */
export function readExtraVerifications (sources: unknown): readonly ExtraVerification[] {
  const expected = 'must be a list of functions (payload) => boolean'
  if (!Array.isArray(sources)) {
    throw new InvalidConfiguration(`Option "extraVerifications" ${expected}; given: ${typeName(sources)}.`, {
      page: 'reference.md#handlers'
    })
  }
  for (const [index, verification] of sources.entries()) {
    if (typeof verification !== 'function') {
      throw new InvalidConfiguration(`Option "extraVerifications" ${expected}; entry ${index} is ${typeName(verification)}.`, {
        page: 'reference.md#handlers'
      })
    }
  }
  return sources
}
