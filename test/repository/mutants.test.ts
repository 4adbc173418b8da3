/** The mutants of lib/: what they need to be run by `npm run test:mutants`. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import t from 'tap'

interface Mutant { file: string, from: string, to: string, tests: string[] }

const root = new URL('../../', import.meta.url)
const { mutants }: { mutants: Mutant[] } = await import(new URL('mutants.js', import.meta.url).href)

t.test('each mutant applies: its text is in its file exactly once, and the tests that find it are there', async (t) => {
  const faults = mutants.flatMap(({ file, from, to, tests }) => {
    const text = existsSync(new URL(file, root)) ? readFileSync(new URL(file, root), 'utf8') : ''
    return [
      ...text.split(from).length === 2 && from !== to ? [] : [`${file}: ${from}`],
      ...tests.length > 0 ? tests.filter((test) => !existsSync(new URL(test, root))) : [`${file}: no tests`]
    ]
  })
  t.strictSame(faults, [])
  t.ok(mutants.length >= 60)
})

t.test('each room of lib/ has two mutants or more', async (t) => {
  const rooms = [...readdirSync(new URL('lib/', root), { withFileTypes: true, recursive: true })].filter((entry) => entry.isDirectory()).map(({ parentPath, name }) => `${parentPath}/${name}`.replace(/^.*?\/lib\/+/, 'lib/'))
  const few = rooms.filter((room) => mutants.filter(({ file }) => file.slice(0, file.lastIndexOf('/')) === room).length < 2)
  t.strictSame(few, [])
  t.ok(mutants.filter(({ file }) => !file.slice('lib/'.length).includes('/')).length >= 2, 'the files at the top')
})
