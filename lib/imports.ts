/** The error for an optional package that cannot be imported. */
import { InvalidConfiguration } from './configuration-errors.ts'
import { memberOf } from './values.ts'

/**
 * Returns the error for an `import()` that a test runner does not support: Jest, for example, runs modules in a vm context.
 * @param what the setting or function that needs the import, as the beginning of the message
 * @param cause why the import failed
 * @returns undefined if the import failed for another reason
 */
export function importRefused (what: string, cause: unknown): InvalidConfiguration | undefined {
  // Not `instanceof Error`: an error of Node.js belongs to another realm than the test.
  if (memberOf(cause, 'code') !== 'ERR_VM_DYNAMIC_IMPORT_CALLBACK_MISSING_FLAG') return undefined
  return new InvalidConfiguration(
    `${what} needs import(), which this test runner does not allow. For Jest, set NODE_OPTIONS=--experimental-vm-modules.`,
    { page: 'testing.md#jest', cause }
  )
}
