/** What the time of a login may be, where the application says it. */
import { named, whole } from './kinds.ts'

/** What fits into a refresh token. The milliseconds of `Date.now()` are beyond it. */
const maximum = 2 ** 40 - 1

/** In seconds since 1970. */
export const authTime = named('a whole number of seconds since 1970, such as Math.floor(Date.now() / 1000)', whole(1, maximum))
