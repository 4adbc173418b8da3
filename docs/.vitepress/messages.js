/** The messages of errors and warnings, from their sources, so that the search finds what somebody copies from a terminal. */
import { readdirSync, readFileSync } from 'node:fs'

const lib = new URL('../../lib/', import.meta.url)
const sources = readdirSync(lib, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts')).map((path) => readFileSync(new URL(path, lib), 'utf8'))

const quoted = /'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g

/** The fixed parts of the literals in a piece of source. */
const textOf = (source) => Array.from(source.match(quoted) ?? [], (literal) => literal.slice(1, -1).replace(/\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}/g, ' ').replace(/\\n/g, ' ').replaceAll('\\', '')).join(' ')

/** By the name of an error, such as `TokenExpired`, or the number of a finding, such as `TOKEN_AUTH_E09`. */
export const messages = new Map()

function add (name, text) {
  messages.set(name, `${messages.get(name) ?? ''} ${text}`.trim())
}

for (const source of sources) {
  for (const [, name, body] of source.matchAll(/^export class (\w+) extends \w+ \{$([\s\S]*?)^\}$/gm)) {
    for (const [, text] of body.matchAll(/\b(?:message|neutral) = ('[^']+'|"[^"]+")/g)) add(name, textOf(text))
  }
  for (const [, text, finding] of source.matchAll(/new InvalidConfiguration\(((?:(?!new InvalidConfiguration)[\s\S])*?), \{ finding: '([EW]\d+)'/g)) add(`TOKEN_AUTH_${finding}`, textOf(text))
  for (const [, finding, text] of source.matchAll(/^ {2}(W\d+): ('.+'|".+"),?$/gm)) add(`TOKEN_AUTH_${finding}`, textOf(text))
}
