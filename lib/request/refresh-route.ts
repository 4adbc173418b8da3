/** Marks routes that take a refresh token: the hooks of all registrations must leave this token to the endpoint. */
import type { FastifyRequest } from 'fastify'

const mark = Symbol('takes a refresh token')

/** For the `config` of such a route. */
export const takingRefreshToken = { [mark]: true }

export const takesRefreshToken = ({ routeOptions: { config } }: FastifyRequest): boolean => Object.hasOwn(Object(config), mark)
