/** Counts the signers and verifiers that fast-jwt makes. Must be imported before anything of lib/: importers see what is there then. */
import { createRequire } from 'node:module'

const fastJwt: Record<'createSigner' | 'createVerifier', (...args: unknown[]) => unknown> = createRequire(import.meta.url)('fast-jwt')
let made = 0

for (const name of ['createSigner', 'createVerifier'] as const) {
  fastJwt[name] = new Proxy(fastJwt[name], {
    apply (target, self, args) {
      made++
      return Reflect.apply(target, self, args)
    }
  })
}

/** How many signers and verifiers there were so far. */
export const madeSoFar = () => made
