/** Class views: endpoints that the application adds below `urlPrefix`, as classes. */
import type { FastifyReply, FastifyRequest, FastifySchema } from 'fastify'
import type { Guard, TokenAuthInstance } from '../../types/instance.ts'
import type { AnyReply, AnyRequest } from '../../types/requests.ts'
import { InvalidClassViews } from '../configuration-errors.ts'
import { adviceOnCopies } from '../copies.ts'
import { isGuard, isInjected } from '../guards/describe.ts'
import { memberOf, typeName } from '../values.ts'
import { suggest } from '../settings/suggest.ts'
import type { Responses } from '../http/responses.ts'
import type { Settings } from '../settings/schema.ts'

export const viewMethods = ['get', 'post', 'put', 'patch', 'delete', 'options'] as const
/**
 * The methods of a view that become routes.
 * @useDeclaredType
 */
export type ViewMethod = typeof viewMethods[number]

/** The parameter of a view's constructor. */
export interface ViewContext {
  readonly instance: TokenAuthInstance<object>
}

/**
 * The methods of a view become routes. A method returns the body of the response. If it returns nothing and sends nothing,
 * the response is 204 with an empty body, which suits `options` and the preflight requests of browsers.
 */
export interface View {
  get? (request: AnyRequest, reply: AnyReply): unknown
  post? (request: AnyRequest, reply: AnyReply): unknown
  put? (request: AnyRequest, reply: AnyReply): unknown
  patch? (request: AnyRequest, reply: AnyReply): unknown
  delete? (request: AnyRequest, reply: AnyReply): unknown
  options? (request: AnyRequest, reply: AnyReply): unknown
}

/** The base class of the class views in the option `classViews`. */
export class View {
  /** The instance that the view belongs to. */
  readonly instance: TokenAuthInstance<object>
  /** The settings of the instance. */
  readonly config: Readonly<Settings>
  /** The hooks of the instance that extend and render responses. */
  readonly responses: Responses
  /**
   * The guards of each method: `{ get: this.instance.protect(), delete: this.instance.scoped('admin') }`. A method without
   * guards is open. The setting `requireGuards` requires `false` for a method that everybody may use.
   */
  readonly guards: { readonly [Method in ViewMethod]?: Guard | readonly Guard[] | false } = {}
  /** The schema of each method, as in the options of a Fastify route: `{ post: { body: { type: 'object' } } }`. */
  readonly schemas: { readonly [Method in ViewMethod]?: FastifySchema } = {}

  constructor ({ instance }: ViewContext) {
    this.instance = instance
    this.config = instance.settings
    this.responses = instance.responses
  }
}

/** A path below `urlPrefix`, and the view class that answers there. */
export type ClassView = readonly [path: string, view: new (context: ViewContext) => View]

/** The route of one method of a view. */
export interface ViewRoute {
  readonly path: string
  readonly method: ViewMethod
  readonly guards: readonly Guard[]
  /** False if `guards` has false for the method; by default for `options`, because preflight requests carry no token. */
  readonly access: false | undefined
  readonly schema: FastifySchema | undefined
  readonly handler: (request: FastifyRequest, reply: FastifyReply) => unknown
}

const expected = 'must be a list of pairs [path, ViewClass]: a path that starts with "/", and a subclass of View'

/** Describes what is wrong with an entry of `classViews`. Undefined for a valid one. */
function faultOf (entry: unknown): string | undefined {
  if (!Array.isArray(entry)) return `is ${typeName(entry)}`
  if (entry.length !== 2) return `has ${entry.length} elements, not two`
  const [path, ViewClass]: unknown[] = entry
  if (typeof path !== 'string') return `has ${typeName(path)} as its path`
  if (!path.startsWith('/')) return `has the path ${JSON.stringify(path)}`
  if (typeof ViewClass !== 'function') return `has ${typeName(ViewClass)} as its view class`
  return ViewClass.prototype instanceof View
    ? undefined
    : `has ${ViewClass.name || 'a function'} as its view class, which does not extend View`
}

const isFunction = (value: unknown) => typeof value === 'function'
const isObject = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value)

/** The fields of a view that have an entry for each method: the allowed values, an example, and the check of an entry. */
const perMethod = {
  guards: {
    allowed: 'a guard, a non-empty list of guards, or false for everybody',
    example: 'guards = { get: this.instance.protect() }',
    isValid: (entry: unknown) =>
      entry === false || isFunction(entry) || (Array.isArray(entry) && entry.length > 0 && entry.every(isFunction))
  },
  schemas: { allowed: 'a schema', example: "schemas = { post: { body: { type: 'object' } } }", isValid: isObject }
} as const

/**
 * Checks the entries of a field. A wrong name or value would leave a route without its guard or schema.
 * @throws {InvalidClassViews}
 */
function checkPerMethod (view: View, field: keyof typeof perMethod, name: string): void {
  const { allowed, example, isValid } = perMethod[field]
  const value: unknown = view[field]
  const invalid = (description: string) =>
    new InvalidClassViews(
      `"${field}" of the view ${name} must be an object that maps methods to ${allowed}, as in ${example}; given: ${description}.`,
      { page: 'reference.md#responses' }
    )
  if (typeof value !== 'object' || value === null) throw invalid(typeName(value))
  for (const [method, entry] of Object.entries(value)) {
    if (!isValid(entry)) throw invalid(`${typeName(entry)} for "${method}"`)
    if (!viewMethods.some((known) => known === method && typeof view[known] === 'function')) {
      throw new InvalidClassViews(
        `The view ${name} has ${field} for "${method}", but no such method. Add the method, or remove its ${field}.`,
        { page: 'reference.md#responses' }
      )
    }
  }
}

/**
 * Checks that a view class has no accessor, method or static field called `guards` or `schemas`. The instance fields of
 * `View` would hide it silently, and the routes would be open.
 * @throws {InvalidClassViews}
 */
function checkFields (ViewClass: ClassView[1]): void {
  for (let level: object = ViewClass; level !== View; level = Object.getPrototypeOf(level)) {
    for (const [field, { example }] of Object.entries(perMethod)) {
      if (Object.hasOwn(level, field) || Object.hasOwn(Object(memberOf(level, 'prototype')), field)) {
        throw new InvalidClassViews(
          `"${field}" of the view ${ViewClass.name} must be an instance field, as in ${example}. A static field, an accessor or a method has no effect.`,
          { page: 'reference.md#responses' }
        )
      }
    }
  }
}

/** Returns the names of all members of a view, up to the base class. */
function namesOf (view: View): string[] {
  const names = Object.keys(view)
  for (let level: object = Object.getPrototypeOf(view); level !== View.prototype; level = Object.getPrototypeOf(level)) {
    names.push(...Object.getOwnPropertyNames(level))
  }
  return names
}

/** Checks for guards in other fields than `guards`, where they have no effect. @throws {InvalidClassViews} */
function checkMembers (view: View, label: string): void {
  for (const [name, value] of Object.entries(view)) {
    const isMethod = isInjected(value) && viewMethods.some((method) => method === name)
    if (name === 'guards' || isMethod || ![value].flat(Infinity).some(isGuard)) continue
    throw new InvalidClassViews(
      `The view ${label} has a guard as its field "${name}", where it does not guard. Move it to the field "guards": ${perMethod.guards.example}.`,
      { page: 'reference.md#responses' }
    )
  }
}

/** Checks for names that resemble those of fields, such as `guard`: a typing error would leave a route open. @throws {InvalidClassViews} */
function checkNames (view: View, label: string): void {
  for (const name of namesOf(view)) {
    for (const field of Object.keys(perMethod)) {
      const isMisspelt = name !== field && name[0]?.toLowerCase() === field[0] && suggest(name, [field]) !== ''
      if (isMisspelt) {
        throw new InvalidClassViews(
          `The view ${label} has a member "${name}", which has no meaning. Did you mean "${field}"? If not, choose another name.`,
          { page: 'reference.md#responses' }
        )
      }
    }
  }
}

function readView (entry: unknown, index: number, context: ViewContext): ViewRoute[] {
  const fault = faultOf(entry)
  if (fault !== undefined) {
    throw new InvalidClassViews(`"classViews" ${expected}; entry ${index} ${fault}.${adviceOnCopies([Object(entry)[1]])}`, {
      page: 'reference.md#responses'
    })
  }
  const [path, ViewClass] = entry as ClassView
  checkFields(ViewClass)
  const view = new ViewClass(context)
  const label = ViewClass.name || `on ${JSON.stringify(path)}`
  checkNames(view, label)
  checkMembers(view, label)
  checkPerMethod(view, 'guards', label)
  checkPerMethod(view, 'schemas', label)
  const routes = viewMethods
    .filter((method) => typeof view[method] === 'function')
    .map((method): ViewRoute => {
      const { [method]: guards = method === 'options' ? false : undefined } = view.guards
      return {
        path,
        method,
        guards: [guards || []].flat(),
        access: guards === false ? false : undefined,
        schema: view.schemas[method],
        handler: view[method]!.bind(view)
      }
    })
  if (routes.length === 0) {
    throw new InvalidClassViews(`The view ${label} has none of the methods ${viewMethods.join(', ')}. Add at least one.`, {
      page: 'reference.md#responses'
    })
  }
  return routes
}

/** Reads and constructs class views. @throws {InvalidClassViews} */
export function readClassViews (sources: unknown, context: ViewContext): ViewRoute[] {
  if (!Array.isArray(sources)) {
    throw new InvalidClassViews(`"classViews" ${expected}; given: ${typeName(sources)}.`, { page: 'reference.md#responses' })
  }
  return sources.flatMap((entry: unknown, index) => readView(entry, index, context))
}
