/** The diagrams of the documents: drawn from their texts, for pages of the site in two widths, and in files of their own. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'

interface Drawing {
  draw: (text: string, width: number, style?: string) => string
  widths: Record<'wide' | 'narrow', number>
}

const { draw, widths }: Drawing = await import(new URL('../../docs/.vitepress/diagrams/draw.js', import.meta.url).href)

const root = fileURLToPath(new URL('../../', import.meta.url))
const generated = ['.git', '.tap', 'api', 'coverage', 'dist', 'node_modules']

function filesIn (folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return generated.includes(entry.name) ? [] : filesIn(path)
    return [path]
  })
}

const read = (path: string) => readFileSync(path, 'utf8')
const files = filesIn(root)
const blocks = files.filter((path) => path.endsWith('.md')).flatMap((path) => {
  return Array.from(read(path).matchAll(/^```mermaid\n([\s\S]*?)^```/gm), ([, text = ''], index) => ({ name: `${relative(root, path)}, diagram ${index + 1}`, text }))
})
const own = files.filter((path) => path.endsWith('.mmd')).map((path) => ({ name: relative(root, path), text: read(path) }))

/** The texts that a picture shows, without the places where their lines break. */
const shownIn = (svg: string) => Array.from(svg.matchAll(/<text [^>]*>([^<]*)<\/text>/g), ([, line = '']) => line.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(code))).join('').replace(/\s/g, '')

t.test('every diagram is drawn for wide and for narrow screens, within its edges, with all of its texts and a description', async () => {
  for (const { name, text } of [...own, ...blocks]) {
    for (const width of Object.values(widths)) {
      const svg = draw(text, width)
      const [, right, bottom] = /viewBox="0 0 (\d+) (\d+)"/.exec(svg) ?? []
      assert.equal(Number(right), width, name)
      assert.ok(Number(bottom) > 60, name)
      for (const [, x, y] of svg.matchAll(/<(?:text|rect) x="(-?[\d.]+)" y="(-?[\d.]+)"/g)) assert.ok(Number(x) >= 0 && Number(x) <= width && Number(y) >= 0 && Number(y) <= Number(bottom), `${name}: ${x}, ${y}`)
      assert.match(svg, / role="img" aria-label="[^"]{80,}"/, `${name}: what a screen reader says`)
      const shown = shownIn(svg)
      for (const [, label = ''] of text.matchAll(/(?:participant|actor) \w+ as (.+)|\w+--?>>\w+: (.+)/g)) assert.ok(shown.includes(label.replace(/\s/g, '')), `${name}: ${label}`)
      assert.doesNotMatch(svg, /undefined|NaN/, name)
    }
  }
})

t.test('the four diagrams have a title, and their files are what their texts say, light and dark', async (t) => {
  t.strictSame(own.map(({ name }) => name.replaceAll('\\', '/')).sort(), ['instances', 'logout', 'request', 'session'].map((name) => `docs/diagrams/${name}.mmd`))
  await t.resolves(promisify(execFile)(process.execPath, [join(root, 'scripts/diagrams.js'), '--check']), 'if not, run "npm run diagrams"')
  for (const { name } of own) {
    const svg = read(join(root, name).replace('diagrams', 'pictures').replace('.mmd', '.svg'))
    assert.match(svg, /<title>\w[^<]+<\/title>/, name)
    t.match(svg, '@media (prefers-color-scheme: dark)', name)
    assert.doesNotMatch(svg, /https?:(?!\/\/www\.w3\.org\/2000\/svg)/, `${name}: nothing of another host`)
  }
})

t.test('a text that cannot be drawn is an error, which names its line or its kind', async (t) => {
  t.throws(() => draw('sequenceDiagram\n  Client->>', widths.wide), { message: 'A sequence diagram has a line that cannot be drawn: Client->>' })
  t.throws(() => draw('flowchart TB\n  a ==> b', widths.wide), { message: 'A flow chart has a line that cannot be drawn: a ==> b' })
  t.throws(() => draw('flowchart TB\n  a --> b\n  b --> a', widths.wide), { message: 'A flow chart with a circle cannot be drawn.' })
  t.throws(() => draw('stateDiagram-v2\n  Open', widths.wide), { message: 'A state diagram has a line that cannot be drawn: Open' })
  t.throws(() => draw('pie\n', widths.wide), /^A diagram begins with "pie", which cannot be drawn\./)
})
