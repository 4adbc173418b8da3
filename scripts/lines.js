/**
 * `npm run lines [folder]`: counts the lines of code of lib/ without testing/, or of another folder with the same layout. Comments,
 * blank lines, and lines that have only brackets and other punctuation are left out. All files are wrapped by one formatter at 140 characters first, so that nobody saves lines
 * by long ones.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { format } from 'prettier'
import ts from 'typescript'

const style = { parser: 'typescript', printWidth: 140, semi: false, singleQuote: true, trailingComma: 'none', objectWrap: 'collapse' }

/** Returns the number of lines of a text on which code stands. */
function linesOfCode (text) {
  const source = ts.createSourceFile('file.ts', text, ts.ScriptTarget.ESNext, true)
  const lines = new Set()
  const lineOf = (position) => source.getLineAndCharacterOfPosition(position).line
  const visit = (node) => {
    if (ts.isJSDoc(node)) return
    const children = node.getChildren()
    for (const child of children) visit(child)
    // A token, but no punctuation: whether braces stand around a single statement changes nothing. A text in backticks may have several lines.
    const isToken = children.length === 0 && node.getWidth() > 0 && !(node.kind >= ts.SyntaxKind.FirstPunctuation && node.kind <= ts.SyntaxKind.LastPunctuation)
    if (isToken) for (let line = lineOf(node.getStart()); line <= lineOf(node.getEnd()); line++) lines.add(line)
  }
  visit(source)
  return lines.size
}

const [folder = 'lib'] = process.argv.slice(2)
const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts') && !/^testing\b/.test(name))
let sum = 0
for (const name of files) sum += linesOfCode(await format(readFileSync(join(folder, name), 'utf8'), style))
console.log(`${sum} lines of code in ${files.length} files`)
