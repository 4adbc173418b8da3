/** Refresh tokens: how one is made, and how two are compared. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

/** 32 random bytes as text: nobody guesses it (OWASP ASVS 5 section 7.2.3 asks for 128 bits). */
export function makeRefreshToken (): string {
  return randomBytes(32).toString('base64url')
}

const digest = (text: string) => createHash('sha256').update(text).digest()

/** Whether two refresh tokens are the same, in a time that says nothing of where they differ nor how long they are. */
export function areSameToken (stored: string, purported: string): boolean {
  return timingSafeEqual(digest(stored), digest(purported))
}
