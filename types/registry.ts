import type { RequestTokenAuth, TokenAuthInstance } from './instance.ts'

/**
 * The names of your instances, and the types of their users and claims. Declare them once in your application:
 *
 * ```ts
 * declare module 'fastify-token-auth' {
 *   interface TokenAuthInstances {
 *     tokenAuth: { user: Customer }
 *     staffAuth: { user: Employee, claims: { department: string } }
 *   }
 * }
 * ```
 */
export interface TokenAuthInstances {}

/** The declared names of instances, and the default name. */
export type InstanceName = 'tokenAuth' | Extract<keyof TokenAuthInstances, string>

type Declared<Name extends string> = Name extends keyof TokenAuthInstances ? TokenAuthInstances[Name] : unknown

/** The type of the users of an instance. Default: any object. */
export type UserOf<Name extends string> = Declared<Name> extends { user: infer User extends object } ? User : Record<string, unknown>

/** The type of the claims in the tokens of an instance. Default: any claims. */
export type ClaimsOf<Name extends string> = Declared<Name> extends { claims: infer Claims extends object } ? Claims : Record<string, unknown>

type Instances = { [Name in InstanceName]: TokenAuthInstance<UserOf<Name>, ClaimsOf<Name>> }
type RequestInstances = { [Name in InstanceName]: RequestTokenAuth<UserOf<Name>, ClaimsOf<Name>> }

declare module 'fastify' {
  interface FastifyInstance extends Instances {}
  interface FastifyRequest extends RequestInstances {}
}
