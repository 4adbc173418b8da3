/** One function for the PostgreSQL clients that applications use. */
import { InvalidConfiguration } from '../../configuration-errors.ts'
import { isPromise } from '../../promises.ts'
import { memberOf, typeName } from '../../values.ts'

export type Row = Record<string, unknown>
export type Query = (sql: string, values: readonly unknown[]) => Promise<readonly Row[]>

const allowed = 'a pool or a client of pg, fastify.pg of @fastify/postgres, or what postgres.js or neon() returns'
const errorOptions = { page: 'stores.md' } as const

/** Other clients whose query() has other parameters, recognized by a method that no PostgreSQL client has. */
const others: ReadonlyArray<[method: string, name: string]> = [
  ['escapeId', 'a client of MySQL'],
  ['request', 'a client of SQL Server'],
  ['anyFirst', 'a pool of slonik']
]

const isRow = (value: unknown): value is Row => typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * Returns the rows in a result: `{ rows }`, the rows, or, from TypeORM for an UPDATE, the rows and their number. Refuses
 * rows that are not objects, because an array would be treated as a session.
 * @throws {InvalidConfiguration}
 */
function rowsOf (answer: unknown): readonly Row[] {
  const rows: unknown = Array.isArray(answer) ? (typeof answer[1] === 'number' ? answer[0] : answer) : memberOf(answer, 'rows')
  if (Array.isArray(rows) && rows.every(isRow)) return rows
  throw new InvalidConfiguration(
    `The client that is given to postgresSessions() returned something other than rows that are objects: ${typeName(answer)}. Pass ${allowed}, and let it return rows in this form.`,
    errorOptions
  )
}

/** Recognizes a client: most have `query`, postgres.js has `unsafe`. With neon(), only `query` executes. @throws {InvalidConfiguration} */
export function queryOf (db: unknown): Query {
  const client: Record<string, unknown> = Object(db)
  const [, other] = others.find(([method]) => typeof client[method] === 'function') ?? []
  const { query, unsafe } = client
  const method = typeof query === 'function' ? query : unsafe
  if (other === undefined && typeof method === 'function') {
    return async (sql, values) => rowsOf(await Reflect.apply(method, db, [sql, values]))
  }
  throw new InvalidConfiguration(
    `The first parameter of postgresSessions() must be ${allowed}; given: ${other ?? typeName(db)}. ${isPromise(db) ? 'Await it.' : 'If an ORM or a query builder has the connections, pass the pool that it uses.'}`,
    errorOptions
  )
}
