/** Detects several copies of this package in one application, such as in a monorepo. A copy does not recognize objects of another. */
import { isText, memberOf } from './values.ts'

/** The same symbol in all copies. */
const mark = Symbol.for('fastify-token-auth')
/** The folder of the package: its code is in dist/lib/, in the repository also in lib/. */
const own: object & { readonly folder: string } = Object.freeze({ folder: import.meta.dirname.replace(/[\\/](?:dist[\\/])?lib$/, '') })

/** Marks an instance, a guard or a class with the folder of this copy. */
export function markOwn (value: object): void {
  Object.defineProperty(value, mark, { value: own })
}

/**
 * Describes which copies are involved if another copy created one of the values.
 * @returns text to be appended to a message; an empty string if none of them comes from another copy
 */
export function adviceOnCopies (values: readonly unknown[]): string {
  const makers = values.map((value) => memberOf(value, mark))
  const folder = makers
    .filter((maker) => maker !== own && maker !== undefined)
    .map((maker) => memberOf(maker, 'folder'))
    .find(isText)
  return folder === undefined
    ? ''
    : ` Another copy of this package, in ${folder}, created guards, instances or classes that this copy, in ${own.folder}, does not recognize. Install only one of them, for example with npm dedupe.`
}
