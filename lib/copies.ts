/** Several copies of this package in one application: package managers install them for parts of a monorepo. Each knows only what it has made. */
import { isText, memberOf } from './values.ts'

/** All copies have it in common. */
const mark = Symbol.for('fastify-token-auth')
/** The folder of the package: its code is in dist/lib/, in the repository also in lib/. */
const own: object & { readonly folder: string } = Object.freeze({ folder: import.meta.dirname.replace(/[\\/](?:dist[\\/])?lib$/, '') })

/** Marks an instance, a guard or a class, so that other copies can say where it comes from. */
export function markOwn (value: object): void {
  Object.defineProperty(value, mark, { value: own })
}

/**
 * Says that values were made by another copy.
 * @returns text to be appended to a message; empty where no value was
 */
export function adviceOnCopies (values: readonly unknown[]): string {
  const makers = values.map((value) => memberOf(value, mark))
  const folder = makers.filter((maker) => maker !== own && maker !== undefined).map((maker) => memberOf(maker, 'folder')).find(isText)
  return folder === undefined ? '' : ` What another copy of this package has made, in ${folder}, this copy, in ${own.folder}, does not know. Install only one of them, for example with npm dedupe.`
}
