/** Class views: additional endpoints under the prefix, as classes. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Guard, TokenAuthInstance } from '../types/instance.ts'
import type { ClassView } from '../types/options.ts'
import { InvalidClassViews } from './errors.ts'
import { typeName } from './host.ts'
import type { Responses } from './responses.ts'
import type { Settings } from './settings/schema.ts'

export const viewMethods = ['get', 'post', 'put', 'patch', 'delete', 'options'] as const
export type ViewMethod = typeof viewMethods[number]

/** What a view is constructed with. */
export interface ViewContext {
  readonly instance: TokenAuthInstance<object>
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
  readonly instance: TokenAuthInstance<object>
  /** Its settings. */
  readonly config: Readonly<Settings>
  /** What renders its answers. */
  readonly responses: Responses
  /** Guards of single methods: `{ get: this.instance.protect(), delete: this.instance.scoped('admin') }`. */
  readonly guards: { readonly [Method in ViewMethod]?: Guard | readonly Guard[] } = {}

  constructor ({ instance }: ViewContext) {
    this.instance = instance
    this.config = instance.settings
    this.responses = instance.responses
  }
}

/** One method of a view, ready to become a route. */
export interface ViewRoute {
  readonly path: string
  readonly method: ViewMethod
  readonly guards: readonly Guard[]
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

/**
 * A field of this class hides whatever else a subclass calls `guards`: an accessor, a method or a static field would be
 * dropped without a word, and the routes be open.
 * @throws {InvalidClassViews}
 */
function checkGuardsField (ViewClass: ClassView[1]): void {
  for (let level: object = ViewClass; level !== View; level = Object.getPrototypeOf(level)) {
    if (Object.hasOwn(level, 'guards') || Object.hasOwn(Reflect.get(level, 'prototype'), 'guards')) {
      throw new InvalidClassViews(`The guards of the view ${ViewClass.name} must be a field of its objects: guards = { get: this.instance.protect() }.`)
    }
  }
}

/** Only a method that is not named is open. @throws {InvalidClassViews} */
function checkGuards ({ guards }: View, name: string): void {
  const isGuard = (guard: unknown) => typeof guard === 'function'
  const isFit = (given: unknown) => isGuard(given) || (Array.isArray(given) && given.length > 0 && given.every(isGuard))
  const refusal = (given: string) => new InvalidClassViews(`The guards of the view ${name} must be an object with a guard, or a non-empty list of guards, for each method that is named: guards = { get: this.instance.protect() }; given: ${given}.`)
  if (typeof guards !== 'object' || guards === null) throw refusal(typeName(guards))
  for (const [method, guard] of Object.entries(guards)) if (!isFit(guard)) throw refusal(`${typeName(guard)} for "${method}"`)
}

function readView (entry: unknown, index: number, context: ViewContext): ViewRoute[] {
  const fault = faultOf(entry)
  if (fault !== undefined) throw new InvalidClassViews(`"classViews" ${expected}; entry ${index} ${fault}.`)
  const [path, ViewClass] = entry as ClassView
  checkGuardsField(ViewClass)
  const view = new ViewClass(context)
  checkGuards(view, ViewClass.name)
  for (const method of Object.keys(view.guards)) {
    if (!viewMethods.some((name) => name === method && typeof view[name] === 'function')) {
      throw new InvalidClassViews(`The view ${ViewClass.name} guards "${method}", which it does not have. Add the method, or remove its guard.`)
    }
  }
  const routes = viewMethods.filter((method) => typeof view[method] === 'function').map((method) => ({
    path,
    method,
    guards: [view.guards[method] ?? []].flat(),
    handler: view[method]!.bind(view)
  }))
  if (routes.length === 0) throw new InvalidClassViews(`The view ${ViewClass.name} has none of the methods ${viewMethods.join(', ')}.`)
  return routes
}

/** Reads and constructs class views. @throws {InvalidClassViews} */
export function readClassViews (sources: unknown, context: ViewContext): ViewRoute[] {
  if (!Array.isArray(sources)) throw new InvalidClassViews(`"classViews" ${expected}; given: ${typeName(sources)}.`)
  return sources.flatMap((entry: unknown, index) => readView(entry, index, context))
}
