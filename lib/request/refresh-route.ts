/** Marks the routes of endpoints that take a refresh token, for the hooks of every registration: none of them may use the token before the endpoint does. */
import type { FastifyRequest } from 'fastify'

const mark = Symbol('takes a refresh token')

/** A part of `config` of such a route. */
export const takingRefreshToken = { [mark]: true }

export const takesRefreshToken = ({ routeOptions: { config } }: FastifyRequest): boolean => Object.hasOwn(Object(config), mark)
