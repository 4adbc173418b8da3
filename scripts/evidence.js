/**
 * `npm run evidence [text]`: prints the promises of the documents, each with the tests that prove it. With a text: only those
 * in whose id or words it is. `--write` writes docs/evidence/tests.md, a page of the site.
 *
 * A promise is a row of a document that has an id in a comment, such as `<!-- security/random-bytes-json -->`. A test that
 * proves it has the line `// Promise: security/random-bytes-json` above it.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = new URL('../', import.meta.url)
const read = (path) => readFileSync(new URL(path, root), 'utf8')
const filesIn = (folder, end) => readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' })
  .map((name) => `${folder}/${name.replaceAll('\\', '/')}`)
  .filter((name) => name.endsWith(end) && !name.includes('node_modules'))
  .sort()

const tag = /^ *\/\/ Promise: (\S+)$/
/** The first text of a line: the title in a call of `test`, or in a table of tests. */
const text = /'((?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)*)`|"((?:[^"\\]|\\.)*)"/

/** Returns every test with a promise: its file, its title as it is written, and the ids. */
export function taggedTests () {
  return filesIn('test', '.ts').flatMap((file) => {
    const tests = []
    let ids = []
    for (const line of read(file).split('\n')) {
      const [, id] = tag.exec(line) ?? []
      if (id !== undefined) {
        ids.push(id)
      } else if (ids.length > 0) {
        const [, ...titles] = text.exec(line) ?? []
        tests.push({ file, title: titles.find((title) => title !== undefined)?.replace(/\\(.)/g, '$1') ?? '', ids })
        ids = []
      }
    }
    return tests
  })
}

/** Returns every promise of the documents: its page, the heading above it, its id and its words. */
export function promises () {
  return filesIn('docs', '.md').filter((page) => page !== 'docs/evidence/tests.md').flatMap((page) => {
    let heading = ''
    return read(page).split('\n').flatMap((line) => {
      if (line.startsWith('#')) heading = line.replace(/^#+ /, '')
      return Array.from(line.matchAll(/([^|]*?) <!-- ([a-z]+\/[\w-]+) -->/g), ([, words, id]) => ({ page, heading, id, words: words.trim() }))
    })
  })
}

/** Returns the promises, each with its tests. */
function evidence () {
  const tests = taggedTests()
  return promises().map((promise) => ({ ...promise, tests: tests.filter(({ ids }) => ids.includes(promise.id)) }))
}

/** Returns the page of the site. */
function page () {
  const lines = ['# Evidence: tests', '', 'The tests that prove what the documents promise: for each page and chapter, the tests of each row. All of them run for every change.']
  let before = {}
  for (const { page, heading, words, tests } of evidence()) {
    if (page !== before.page) lines.push('', `## ${page}`)
    if (page !== before.page || heading !== before.heading) lines.push('', `### ${heading}`)
    before = { page, heading }
    lines.push('', `**${words.replaceAll('**', '')}**`, '', ...tests.map(({ file, title }) => `- \`${file}\`: ${title.replace(/\$\{[^}]*\}/g, '...').replaceAll('<', '&lt;').replaceAll('{', '&#123;')}`))
  }
  return `${lines.join('\n')}\n`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [wanted = ''] = process.argv.slice(2)
  if (wanted === '--write') {
    writeFileSync(new URL('docs/evidence/tests.md', root), page())
  } else {
    for (const { page, id, words, tests } of evidence().filter(({ id, words }) => `${id} ${words}`.includes(wanted))) {
      console.log(`${page}: ${id}\n  ${words}\n${tests.map(({ file, title }) => `  - ${file}: ${title}`).join('\n')}`)
    }
  }
}
