/** The promises of the documents: each has a test that says so, and each test of attacks belongs to one. scripts/evidence.js has their form. */
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'

interface Promised { page: string, heading: string, id: string, words: string }
interface Tagged { file: string, title: string, ids: string[] }

const root = new URL('../../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')
const { promises, taggedTests }: { promises: () => Promised[], taggedTests: () => Tagged[] } = await import(new URL('scripts/evidence.js', root).href)
const all = promises()
const tests = taggedTests()

t.test('each promise has an id of its own and a test, and each test names promises that are there', async (t) => {
  const ids = all.map(({ id }) => id)
  const proven = new Set(tests.flatMap((test) => test.ids))
  t.strictSame(ids.filter((id, index) => ids.indexOf(id) !== index), [], 'ids that are there twice')
  t.strictSame(ids.filter((id) => !proven.has(id)), [], 'promises without a test')
  t.strictSame([...proven].filter((id) => !ids.includes(id)), [], 'promises of tests that no document has')
  t.strictSame(tests.filter(({ title }) => title === ''), [], 'each is above a test')
  for (const page of new Set(all.map((promise) => promise.page))) t.notMatch(read(page), / <!-- \S+ -->\w/, `${page}: no id is inside of a word`)
})

/** The rows of the tables of a chapter and its subchapters, without their heads. */
function rowsOf (page: string, chapter: string): string[] {
  const [, level = '', after = ''] = new RegExp(`^(##+) ${chapter}.*$([\\s\\S]*)`, 'm').exec(read(`docs/evidence/${page}.md`)) ?? []
  const [body = ''] = after.split(new RegExp(`^##{1,${level.length - 1}} `, 'm'))
  return body.split('\n').filter((line, index, lines) => line.startsWith('|') && !line.startsWith('| ---') && !lines[index + 1]?.startsWith('| ---'))
}

t.test('every row of a table of promises has an id', async (t) => {
  const chapters: Array<[page: string, chapter: string, least: number]> = [
    ['stores', 'When a database fails', 10], ['sessions', 'When things fail', 19], ['sessions', 'OWASP ASVS 5', 13], ['sessions', 'RFC 9700', 6], ['sessions', 'RFC 7009', 4],
    ['keys', 'When an issuer cannot be reached', 9], ['keys', 'What is promised', 17],
    ['security', 'Threats', 60], ['security', 'RFC 8725', 12], ['security', 'OWASP ASVS 5', 7], ['security', 'OWASP ASVS 5, V3.5', 4], ['security', 'Advisories', 15]
  ]
  for (const [page, chapter, least] of chapters) {
    const rows = rowsOf(page, chapter)
    t.ok(rows.length >= least, `${page}: ${chapter}`)
    t.strictSame(rows.filter((row) => !/<!-- [a-z]+\/[\w-]+ -->/.test(row)), [], `${page}: ${chapter}`)
  }
  const specification = all.filter(({ page }) => page === 'docs/evidence/specification.md')
  t.ok(specification.length > 200)
  const first = (chapter: string) => rowsOf('security', chapter).map((row) => /[\d.]+/.exec(row)?.[0])
  t.same(first('RFC 8725'), Array.from({ length: 12 }, (_, index) => `3.${index + 1}`))
  t.same(first('OWASP ASVS 5, V3.5'), ['3.5.1', '3.5.2', '3.5.3', '4.4.2'])
  t.same(first('OWASP ASVS 5'), ['9.1.1', '9.1.2', '9.1.3', '9.2.1', '9.2.2', '9.2.3', '9.2.4'])
})

t.test('every test of attacks proves a promise of the documents', async (t) => {
  for (const name of readdirSync(new URL('test/hostile/', root))) {
    const lines = read(`test/hostile/${name}`).split('\n')
    const without = lines.filter((line, index) => line.startsWith('t.test(') && !lines[index - 1]?.startsWith('// Promise: '))
    t.strictSame(without, [], name)
  }
})

t.test('the findings of docs/findings.md are those of the code, each with a test', async (t) => {
  const findings = [...read('docs/findings.md').matchAll(/^### TOKEN_AUTH_([EW]\d\d)$/gm)].map(([, code]) => code)
  const inCode = new Set<string>()
  for (const name of readdirSync(new URL('lib/', root), { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.ts')) continue
    for (const [, code = ''] of read(`lib/${name}`).matchAll(/(?:finding: '|^ {2})([EW]\d\d)(?:'|: ')/gm)) inCode.add(code)
  }
  t.same(findings, [...inCode].sort())
  const tests = ['endpoints/me', 'guards/renew', 'hostile/startup', 'neighbours', 'routes/misplaced-guards', 'routes/required-guards', 'routes/route-warnings'].map((name) => read(`test/${name}.test.ts`)).join('')
  for (const code of findings) t.match(tests, new RegExp(`'(?:TOKEN_AUTH_)?${code}'`), String(code))
})
