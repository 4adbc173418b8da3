/** The error of a package that is imported only where a setting needs it. */
import { InvalidConfiguration } from './configuration-errors.ts'
import { memberOf } from './values.ts'

/**
 * Returns the error of an import in a program that allows none: test runners such as Jest run modules in a context of their own.
 * @param what what needs the import, as the beginning of a sentence
 * @param cause why the import failed
 * @returns undefined where the import failed for another reason
 */
export function importRefused (what: string, cause: unknown): InvalidConfiguration | undefined {
  // An error of Node.js is no Error of the context in which a test runs.
  if (memberOf(cause, 'code') !== 'ERR_VM_DYNAMIC_IMPORT_CALLBACK_MISSING_FLAG') return undefined
  return new InvalidConfiguration(`${what} needs import(), which this test runner does not allow. For Jest, set NODE_OPTIONS=--experimental-vm-modules.`, { page: 'testing.md#jest', cause })
}
