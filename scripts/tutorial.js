/** Makes the tutorial in JavaScript of that in TypeScript: docs/tutorial.md is the only source of both. */
import ts from 'typescript'

/** Returns the ranges of a program that only TypeScript understands, as pairs of positions. */
function typesIn (source) {
  const ranges = []
  const remove = (from, to) => ranges.push([from, to])
  const statement = (node) => {
    const { end } = node
    remove(node.getStart(source), end + /^\n{0,2}/.exec(source.text.slice(end))[0].length)
  }
  const visit = (node) => {
    if (ts.isTypeNode(node)) return
    if (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node) || ts.isModuleDeclaration(node)) return statement(node)
    if (ts.isImportSpecifier(node) && node.isTypeOnly) return remove(source.text.lastIndexOf(',', node.pos), node.end)
    if (ts.isAsExpression(node) || ts.isSatisfiesExpression(node)) remove(node.expression.end, node.end)
    else if (node.type !== undefined) remove(node.type.pos - 1, node.type.end)
    if (node.typeArguments !== undefined) remove(node.typeArguments.pos - 1, node.typeArguments.end + 1)
    ts.forEachChild(node, visit)
  }
  visit(source)
  return ranges
}

/** Removes the types of a program, and leaves everything else as it is written. */
function withoutTypes (program) {
  const ranges = typesIn(ts.createSourceFile('program.ts', program, ts.ScriptTarget.Latest, true)).sort(([first], [second]) => second - first)
  return ranges.reduce((text, [from, to]) => text.slice(0, from) + text.slice(to), program)
}

/** Removes the types of a diff, whose lines are parts of a program: those that are there, and those that are to be there. */
function diffWithoutTypes (diff) {
  const lines = diff.trimEnd().split('\n')
  const changed = (sign) => withoutTypes(lines.filter((line) => line.startsWith(sign)).map((line) => line.slice(1)).join('\n')).split('\n')
  const rest = { '+': changed('+'), '-': changed('-') }
  return lines.map((line) => (rest[line[0]] === undefined ? line : line[0] + rest[line[0]].shift()) + '\n').join('')
}

/**
 * Returns the tutorial in JavaScript, for a page in a folder below that of the source.
 * `<!-- TypeScript -->` begins what it leaves out; the comment `<!-- JavaScript: ... -->` ends that, and has what stands there instead.
 */
export function inJavaScript (tutorial) {
  return tutorial
    .replace(/^<!-- TypeScript -->\n[^]*?^<!-- JavaScript:\n([^]*?)-->\n/gm, '$1')
    .replace(/^```(ts|diff)\n([^]*?)^```$/gm, (_, language, code) => language === 'ts' ? `\`\`\`js\n${withoutTypes(code)}\`\`\`` : `\`\`\`diff\n${diffWithoutTypes(code)}\`\`\``)
    .replace(/^npm install --save-dev typescript .*\n/gm, '')
    .replace('tsc && ', '')
    .replace(/\b(app|app\.test|server|users)\.ts\b/g, '$1.js')
    .replace(/\]\((?=[\w/-]+\.md)/g, '](../')
}
