import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import ts from 'typescript'

const root = new URL('../../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')
const document = read('docs/security.md')
const sessions = read('docs/sessions.md')
const keys = read('docs/keys.md')
const stores = read('docs/stores.md')

/** The titles of the tests of a file: what stands first in a call of `t.test`, and the names of methods that are texts, as tables of tests have them. */
function titlesOf (file: string): Set<string> {
  const titles = new Set<string>()
  const visit = (node: ts.Node) => {
    if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression) && node.expression.name.text === 'test') {
      const [title] = node.arguments
      if (title !== undefined && ts.isStringLiteralLike(title)) titles.add(title.text)
      // Of a title with something computed, what stands before it, or after it where nothing does.
      if (title !== undefined && ts.isTemplateExpression(title)) {
        const after = title.templateSpans.at(-1)?.literal.text.replace(/^\W+/, '') ?? ''
        titles.add(title.head.text.replace(/\W+$/, '') || after)
      }
    }
    if (ts.isMethodDeclaration(node) && ts.isStringLiteral(node.name)) titles.add(node.name.text)
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile(file, read(file), ts.ScriptTarget.Latest))
  return titles
}

const known = new Map<string, Set<string>>()
function has (file: string, title: string): boolean {
  const titles = known.get(file) ?? titlesOf(file)
  known.set(file, titles)
  return titles.has(title)
}

/** The tests that prove what the documents promise, by page, chapter and row. */
const evidence: Record<string, Record<string, Record<string, string[]>>> = JSON.parse(read('test/evidence.json'))

/** The rows of the tables of a chapter and its subchapters, without their heads. */
function rowsOf (chapter: string, text = document): string[] {
  const [, level = '', after = ''] = new RegExp(`^(##+) ${chapter}.*$([\\s\\S]*)`, 'm').exec(text) ?? []
  const [body = ''] = after.split(new RegExp(`^##{1,${level.length - 1}} `, 'm'))
  return body.split('\n').filter((line, index, lines) => line.startsWith('|') && !line.startsWith('| ---') && !lines[index + 1]?.startsWith('| ---'))
}

/** The tests of a row, which begins with the text by which it is known. */
const evidenceOf = (page: string, row: string) => Object.values(evidence[page] ?? {}).flatMap((rows) => rows[row.slice(2, -2).split(' | ')[0] ?? ''] ?? [])

t.test('every test that is named as evidence exists under that title in that file', async (t) => {
  for (const [page, least] of [['security', 290], ['sessions', 100], ['stores', 25], ['keys', 50]] as const) {
    const named = Object.values(evidence[`docs/${page}.md`] ?? {}).flatMap((rows) => Object.values(rows).flat())
    t.ok(named.length >= least, `${page}: ${named.length}`)
    for (const test of new Set(named)) {
      const [, file = '', title = ''] = /^(test\/\S+): (.*)$/.exec(test) ?? []
      t.ok(has(file, title), test)
    }
  }
})

t.test('every row that has evidence is in its page', async (t) => {
  for (const [page, chapters] of Object.entries(evidence)) {
    const text = read(page)
    for (const [chapter, rows] of Object.entries(chapters)) {
      t.match(text, new RegExp(`^##+ ${chapter.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`, 'm'), `${page}: ${chapter}`)
      for (const row of Object.keys(rows)) t.ok(text.includes(row), `${page}: ${row}`)
    }
  }
})

t.test('every row of the failures of databases names a test', async (t) => {
  const rows = rowsOf('When a database fails', stores)
  t.ok(rows.length >= 10)
  for (const row of rows) t.ok(evidenceOf('docs/stores.md', row).length > 0, row)
})

t.test('every row of the tables of failures and standards of sessions names a test', async (t) => {
  const chapters: Record<string, number> = { 'When things fail': 19, 'OWASP ASVS 5': 13, 'RFC 9700': 6, 'RFC 7009': 4 }
  for (const [chapter, least] of Object.entries(chapters)) {
    const rows = rowsOf(chapter, sessions)
    t.ok(rows.length >= least, chapter)
    for (const row of rows) t.ok(evidenceOf('docs/sessions.md', row).length > 0, row.slice(0, 80))
  }
})

t.test('every row of the failures of issuers and of the promises about keys names a test', async (t) => {
  for (const [chapter, least] of [['When an issuer cannot be reached', 9], ['What is promised', 17]] as const) {
    const rows = rowsOf(chapter, keys)
    t.ok(rows.length >= least, chapter)
    for (const row of rows) t.ok(evidenceOf('docs/keys.md', row).length > 0, row.slice(0, 80))
  }
})

t.test('every row of the tables of threats and standards names a test', async (t) => {
  const chapters: Record<string, number> = { Threats: 60, 'RFC 8725': 12, 'OWASP ASVS 5': 7, 'OWASP ASVS 5, V3.5': 4, Advisories: 15 }
  for (const [chapter, least] of Object.entries(chapters)) {
    const rows = rowsOf(chapter)
    t.ok(rows.length >= least, chapter)
    for (const row of rows) t.ok(evidenceOf('docs/security.md', row).length > 0, row.slice(0, 80))
  }
  const first = (chapter: string) => rowsOf(chapter).map((row) => /[\d.]+/.exec(row)?.[0])
  t.same(first('RFC 8725'), Array.from({ length: 12 }, (_, index) => `3.${index + 1}`))
  t.same(first('OWASP ASVS 5, V3.5'), ['3.5.1', '3.5.2', '3.5.3', '4.4.2'])
  t.same(first('OWASP ASVS 5'), ['9.1.1', '9.1.2', '9.1.3', '9.2.1', '9.2.2', '9.2.3', '9.2.4'])
})

t.test('every hostile test is named by the document', async (t) => {
  const named = new Set(Object.values(evidence).flatMap((chapters) => Object.values(chapters).flatMap((rows) => Object.values(rows).flat())))
  for (const name of readdirSync(new URL('test/hostile/', root))) {
    const file = `test/hostile/${name}`
    if (name === 'evidence.test.ts') continue
    for (const title of titlesOf(file)) t.ok(named.has(`${file}: ${title}`), `${file}: ${title}`)
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
  const tests = ['guards/renew', 'hostile/startup', 'routes/misplaced-guards', 'routes/required-guards', 'routes/route-warnings'].map((name) => read(`test/${name}.test.ts`)).join('')
  for (const code of findings) t.match(tests, new RegExp(`'(?:TOKEN_AUTH_)?${code}'`), String(code))
})
