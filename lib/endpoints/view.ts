/** Class views: additional endpoints under the prefix, as classes. */
import type { FastifyReply, FastifyRequest, FastifySchema } from 'fastify'
import type { Guard, TokenAuthInstance } from '../../types/instance.ts'
import { InvalidClassViews } from '../errors.ts'
import { typeName } from '../host/call.ts'
import { suggest } from '../settings/suggest.ts'
import type { Responses } from '../http/responses.ts'
import type { Settings } from '../settings/schema.ts'

export const viewMethods = ['get', 'post', 'put', 'patch', 'delete', 'options'] as const
/**
 * The methods of a view that become routes.
 * @useDeclaredType
 */
export type ViewMethod = typeof viewMethods[number]

/** What a view is constructed with. */
export interface ViewContext {
  readonly instance: TokenAuthInstance<object, Record<string, unknown>, object>
}

/**
 * The methods of a view become routes. A method returns what is sent; one that returns nothing, and sends nothing,
 * answers 204 with an empty body, as a browser's preflight wants it from `options`.
 */
export interface View {
  get? (request: FastifyRequest, reply: FastifyReply): unknown
  post? (request: FastifyRequest, reply: FastifyReply): unknown
  put? (request: FastifyRequest, reply: FastifyReply): unknown
  patch? (request: FastifyRequest, reply: FastifyReply): unknown
  delete? (request: FastifyRequest, reply: FastifyReply): unknown
  options? (request: FastifyRequest, reply: FastifyReply): unknown
}

/** The base of a class view. */
export class View {
  /** The instance of the plugin that the view belongs to. */
  readonly instance: TokenAuthInstance<object, Record<string, unknown>, object>
  /** Its settings. */
  readonly config: Readonly<Settings>
  /** What renders its answers. */
  readonly responses: Responses
  /** Guards of single methods: `{ get: this.instance.protect(), delete: this.instance.scoped('admin') }`. */
  readonly guards: { readonly [Method in ViewMethod]?: Guard | readonly Guard[] } = {}
  /** Schemas of single methods, as Fastify's routes have them: `{ post: { body: { type: 'object' } } }`. */
  readonly schemas: { readonly [Method in ViewMethod]?: FastifySchema } = {}

  constructor ({ instance }: ViewContext) {
    this.instance = instance
    this.config = instance.settings
    this.responses = instance.responses
  }
}

/** A view and its path below `urlPrefix`. */
export type ClassView = readonly [path: string, view: new (context: ViewContext) => View]

/** One method of a view, ready to become a route. */
export interface ViewRoute {
  readonly path: string
  readonly method: ViewMethod
  readonly guards: readonly Guard[]
  readonly schema: FastifySchema | undefined
  readonly handler: (request: FastifyRequest, reply: FastifyReply) => unknown
}

const expected = 'must be a list of pairs [path, ViewClass]: a path that starts with "/", and a subclass of View'

/** What is wrong with an entry, in words; undefined for a pair of path and view class. */
function faultOf (entry: unknown): string | undefined {
  if (!Array.isArray(entry)) return `is ${typeName(entry)}`
  if (entry.length !== 2) return `has ${entry.length} elements, not two`
  const [path, ViewClass]: unknown[] = entry
  if (typeof path !== 'string') return `has ${typeName(path)} as its path`
  if (!path.startsWith('/')) return `has the path ${JSON.stringify(path)}`
  if (typeof ViewClass !== 'function') return `has ${typeName(ViewClass)} as its view class`
  return ViewClass.prototype instanceof View ? undefined : `has ${ViewClass.name || 'a function'} as its view class, which does not extend View`
}

const isGuard = (guard: unknown) => typeof guard === 'function'
const isObject = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value)

/** What a view says of single methods: which values it may have, in words, by an example and as a check. */
const perMethod = {
  guards: {
    allowed: 'a guard, or a non-empty list of guards,',
    example: 'guards = { get: this.instance.protect() }',
    isFit: (given: unknown) => isGuard(given) || (Array.isArray(given) && given.length > 0 && given.every(isGuard))
  },
  schemas: { allowed: 'a schema', example: "schemas = { post: { body: { type: 'object' } } }", isFit: isObject }
} as const

/**
 * Checks what a view says of its methods: a name or a value that means nothing would leave a route open, or unchecked.
 * @throws {InvalidClassViews}
 */
function checkPerMethod (view: View, field: keyof typeof perMethod, name: string): void {
  const { allowed, example, isFit } = perMethod[field]
  const value: unknown = view[field]
  const refusal = (given: string) => new InvalidClassViews(`The ${field} of the view ${name} must be an object with ${allowed} for each method that is named: ${example}; given: ${given}.`, { section: 'responses' })
  if (typeof value !== 'object' || value === null) throw refusal(typeName(value))
  for (const [method, entry] of Object.entries(value)) {
    if (!isFit(entry)) throw refusal(`${typeName(entry)} for "${method}"`)
    if (!viewMethods.some((known) => known === method && typeof view[known] === 'function')) {
      throw new InvalidClassViews(`The view ${name} has ${field} for "${method}", a method that it does not have. Add the method, or remove what is said of it.`, { section: 'responses' })
    }
  }
}

/**
 * The fields of this class hide whatever else a subclass calls by their names: an accessor, a method or a static field
 * would be dropped without a word, and the routes be open.
 * @throws {InvalidClassViews}
 */
function checkFields (ViewClass: ClassView[1]): void {
  for (let level: object = ViewClass; level !== View; level = Object.getPrototypeOf(level)) {
    for (const [field, { example }] of Object.entries(perMethod)) {
      if (Object.hasOwn(level, field) || Object.hasOwn(Reflect.get(level, 'prototype'), field)) {
        throw new InvalidClassViews(`The ${field} of the view ${ViewClass.name} must be a field of its objects: ${example}.`, { section: 'responses' })
      }
    }
  }
}

/** The names of everything that a view has, of its own or by its classes. */
function namesOf (view: View): string[] {
  const names = Object.keys(view)
  for (let level: object = Object.getPrototypeOf(view); level !== View.prototype; level = Object.getPrototypeOf(level)) names.push(...Object.getOwnPropertyNames(level))
  return names
}

/** Refuses `guard` and other names that are nearly those of the fields: a route would be open for a slip of the pen. @throws {InvalidClassViews} */
function checkNames (view: View, label: string): void {
  for (const name of namesOf(view)) {
    for (const field of Object.keys(perMethod)) {
      const isSlip = name !== field && name[0]?.toLowerCase() === field[0] && suggest(name, [field]) !== ''
      if (isSlip) throw new InvalidClassViews(`The view ${label} has "${name}", which means nothing. Did you mean "${field}"? Choose another name for data of your own.`, { section: 'responses' })
    }
  }
}

function readView (entry: unknown, index: number, context: ViewContext): ViewRoute[] {
  const fault = faultOf(entry)
  if (fault !== undefined) throw new InvalidClassViews(`"classViews" ${expected}; entry ${index} ${fault}.`, { section: 'responses' })
  const [path, ViewClass] = entry as ClassView
  checkFields(ViewClass)
  const view = new ViewClass(context)
  const label = ViewClass.name || `on ${JSON.stringify(path)}`
  checkNames(view, label)
  checkPerMethod(view, 'guards', label)
  checkPerMethod(view, 'schemas', label)
  const routes = viewMethods.filter((method) => typeof view[method] === 'function').map((method) => ({
    path,
    method,
    guards: [view.guards[method] ?? []].flat(),
    schema: view.schemas[method],
    handler: view[method]!.bind(view)
  }))
  if (routes.length === 0) throw new InvalidClassViews(`The view ${label} has none of the methods ${viewMethods.join(', ')}.`, { section: 'responses' })
  return routes
}

/** Reads and constructs class views. @throws {InvalidClassViews} */
export function readClassViews (sources: unknown, context: ViewContext): ViewRoute[] {
  if (!Array.isArray(sources)) throw new InvalidClassViews(`"classViews" ${expected}; given: ${typeName(sources)}.`, { section: 'responses' })
  return sources.flatMap((entry: unknown, index) => readView(entry, index, context))
}
