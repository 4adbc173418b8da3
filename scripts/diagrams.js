/** `npm run diagrams`: draws the texts in docs/diagrams as docs/pictures/*.svg. With `--check`, it writes nothing and fails if a picture is out of date. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { draw, widths } from '../docs/.vitepress/diagrams/draw.js'

const docs = new URL('../docs/', import.meta.url)
const read = (path) => readFileSync(new URL(path, docs), 'utf8')

/** In a file of its own, a diagram is dark where the system is. */
const style = read('.vitepress/theme/diagrams.css')
  .replace(/^\/\*.*\*\/\n/, '').replace(/^\.dark (\.diagram \{.*\})$/m, '@media (prefers-color-scheme: dark) { $1 }').replaceAll('.diagram', 'svg').replace(/\n/g, '')

for (const name of readdirSync(new URL('diagrams', docs))) {
  const picture = `pictures/${name.replace('.mmd', '.svg')}`
  const drawn = `${draw(read(`diagrams/${name}`), widths.wide, style)}\n`
  if (existsSync(new URL(picture, docs)) && read(picture) === drawn) continue
  if (process.argv.includes('--check')) {
    console.error(`docs/${picture} is out of date: run "npm run diagrams".`)
    process.exitCode = 1
  } else {
    writeFileSync(new URL(picture, docs), drawn)
  }
}
