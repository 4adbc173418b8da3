/** The users of the example. A real service has them in a database. */
import { hashPassword, logIn } from '../password.js'

const users = [
  { user_id: 1, name: 'ada', scopes: ['reports'], password: await hashPassword('lovelace') },
  { user_id: 2, name: 'grace', scopes: ['reports:read'], password: await hashPassword('hopper') }
]

/** The properties of a user that others may see. */
const shown = (user) => {
  if (user === undefined) return undefined
  const { password, ...rest } = user
  return rest
}

/** Returns the user of a user id; undefined if there is none. */
export const findUser = (id) => shown(users.find((user) => user.user_id === id))

/** Returns the user of a name and a password. @throws AuthenticationFailed */
export const checkPassword = async (body) => shown(await logIn(users, body))
