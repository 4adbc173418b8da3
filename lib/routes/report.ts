/** The list of routes as an application reads it: rows, and a table of them. */
import { scopesInWords } from '../guards/describe.ts'
import type { RouteAccess } from '../../types/routes.ts'

const keyOf = (row: Partial<RouteAccess>) => JSON.stringify(row)

/** Removes the row of a path with a trailing slash if that of the path without it is the same otherwise. */
export function withoutSecondSpellings (rows: readonly RouteAccess[]): RouteAccess[] {
  const keys = new Set(rows.map(keyOf))
  return rows.filter((row) => row.url === '/' || !row.url.endsWith('/') || !keys.has(keyOf({ ...row, url: row.url.slice(0, -1) })))
}

/** Returns the rows with neither a guard nor an exemption. OPTIONS needs none: preflight requests carry no token. */
export function undecidedIn (rows: readonly RouteAccess[]): RouteAccess[] {
  return joinHead(withoutSecondSpellings(rows.filter(({ access, method }) => access === 'undecided' && method !== 'OPTIONS')))
}

const withoutMethod = ({ method, ...row }: RouteAccess) => keyOf(row)

/** Merges the rows of GET and HEAD routes that are the same otherwise. */
export function joinHead (rows: readonly RouteAccess[]): RouteAccess[] {
  const keysOf = (method: string) => new Set(rows.filter((row) => row.method === method).map(withoutMethod))
  const [get, head] = [keysOf('GET'), keysOf('HEAD')]
  return rows
    .filter((row) => row.method !== 'HEAD' || !get.has(withoutMethod(row)))
    .map((row) => row.method === 'GET' && head.has(withoutMethod(row)) ? { ...row, method: 'GET,HEAD' } : row)
}

const order = (one: string, other: string) => one < other ? -1 : Number(one > other)

function inWords ({ guards, note }: RouteAccess): string {
  const words = guards.map(({ instanceName, hook, isOptional, scopes }) =>
    `${instanceName}${isOptional ? '?' : ''} in ${hook} ${scopesInWords(scopes)}`.trimEnd()
  )
  return [...words, ...(note === '' ? [] : [note])].join('; ')
}

/** Returns a table of rows, sorted by URL. */
export function printRows (rows: readonly RouteAccess[]): string {
  const sorted = joinHead(rows).sort((one, other) => order(one.url, other.url) || order(one.method, other.method))
  const cells = sorted.map((row) => [row.method, row.url, row.access, inWords(row)].map((cell) => cell.replace(/\s+/g, ' ')))
  const widthOf = (column: number) => Math.max(0, ...cells.map((row) => row[column]!.length))
  const widths = [0, 1, 2].map(widthOf)
  return cells.map((row) => `${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ').trimEnd()}\n`).join('')
}
