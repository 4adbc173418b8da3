// @slow
/** The diagrams of the documents, drawn by Mermaid in headless Chromium as a reader's browser draws them. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { openBrowser, skip } from './browser.ts'

const root = fileURLToPath(new URL('../', import.meta.url))
const generated = ['.git', '.tap', 'api', 'coverage', 'dist', 'node_modules']

function markdownIn (folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return generated.includes(entry.name) ? [] : markdownIn(path)
    return entry.name.endsWith('.md') ? [path] : []
  })
}

const diagrams = markdownIn(root).flatMap((path) => {
  const blocks = readFileSync(path, 'utf8').matchAll(/^```mermaid\n([\s\S]*?)^```/gm)
  return Array.from(blocks, ([, text = ''], index) => ({ name: `${relative(root, path)}, diagram ${index + 1}`, text }))
})

const browser = openBrowser(t)

/** Draws a diagram. @returns the texts in it, and its size; rejected where Mermaid finds an error */
async function draw (text: string): Promise<{ texts: string, width: number, height: number }> {
  const page = await (await browser()).newPage()
  try {
    await page.addScriptTag({ path: join(root, 'node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js') })
    return await page.evaluate(`mermaid.render('diagram', ${JSON.stringify(text)}).then(({ svg }) => {
      document.body.innerHTML = svg
      const { width, height } = document.querySelector('svg').getBoundingClientRect()
      return { texts: document.body.textContent, width, height }
    })`)
  } finally {
    await page.close()
  }
}

t.test('every diagram of the documents renders', { skip }, async (t) => {
  for (const { name, text } of diagrams) {
    await t.test(name, async (t) => {
      const { texts, width, height } = await draw(text)
      t.ok(width > 100 && height > 100, 'it can be seen')
      for (const [, label = ''] of text.matchAll(/(?:participant|actor) \w+ as (.+)/g)) t.match(texts, label)
    })
  }
})

t.test('a diagram that does not render would be noticed', { skip }, async (t) => {
  await t.rejects(draw('sequenceDiagram\n  Client->>'))
})

t.test('the documents draw how tokens are issued, verified and refreshed, and who does it', async (t) => {
  const drawn = diagrams.map(({ text }) => text).join('\n')
  for (const shown of ['Over Client, App: Issue', 'POST /auth/refresh', 'GET /auth/verify', 'authMode false', 'staffAuth']) {
    t.match(drawn.toLowerCase(), shown.toLowerCase())
  }
})
