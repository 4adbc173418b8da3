/** The links of Markdown documents, and whether they lead somewhere. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'

/** A document without its comments and blocks of code, in which nothing is a link or a heading. */
const proseOf = (markdown: string) => markdown
  .replace(/^[ >]*(`{3,}|~{3,})[^\n]*\n[\s\S]*?^[ >]*\1[`~]*[ \t]*$/gm, '')
  .replace(/<!--[\s\S]*?-->/g, '')

/** A paragraph without code between backticks. */
const withoutCode = (prose: string) => prose.replace(/(?<!`)(`+)(?!`)(?:(?!\n\n)[\s\S])*?(?<!`)\1(?!`)/g, '')

/** The addresses that a document links to: in parentheses, of references, and of HTML elements. */
function targetsOf (markdown: string): string[] {
  const prose = withoutCode(proseOf(markdown))
  const patterns = [/\]\(\s*<?([^\s)>]+)>?(?:\s+(?:"[^"]*"|'[^']*'))?\)/g, /^ {0,3}\[[^\]\n]+\]:\s*<?([^\s>]+)/gm, /<[a-z][^>]*?\s(?:href|src|srcset)\s*=\s*["']([^"'\s]+)/gi]
  return patterns.flatMap((pattern) => [...prose.matchAll(pattern)].map(([, target = '']) => target))
}

/** The anchors of a document, as GitHub makes them of headings: in lower case, without punctuation, numbered if there are several. */
function anchorsOf (markdown: string): Set<string> {
  const prose = proseOf(markdown)
  const anchors = new Set([...prose.matchAll(/<a [^>]*?\b(?:id|name)\s*=\s*["']([^"']+)/gi)].map(([, name = '']) => name))
  const counts = new Map<string, number>()
  for (const [, heading = ''] of prose.matchAll(/^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*$/gm)) {
    const text = heading.replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    const anchor = text.toLowerCase().replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '').replaceAll(' ', '-')
    const count = counts.get(anchor) ?? 0
    counts.set(anchor, count + 1)
    anchors.add(count === 0 ? anchor : `${anchor}-${count}`)
  }
  return anchors
}

const read = (path: string) => readFileSync(path, 'utf8')

/**
 * Follows the links of Markdown documents to files and anchors. Addresses with a scheme, such as `https:`, are not followed.
 * @param folder the repository, or the unpacked package: no link may lead out of it
 * @param files the documents, by their paths in the folder
 * @returns `file: target` of each link to a file that is not there, or to an anchor that its document does not have
 */
export function brokenLinks (folder: string, files: readonly string[]): string[] {
  const isBroken = (file: string, target: string) => {
    if (/^[a-z][a-z\d+.-]*:/i.test(target)) return false
    const [path = '', anchor] = decodeURI(target).split('#', 2)
    const found = path === '' ? join(folder, file) : resolve(folder, dirname(file), path)
    if (path.startsWith('/') || relative(folder, found).split(sep)[0] === '..' || !existsSync(found)) return true
    return anchor !== undefined && !(statSync(found).isFile() && found.endsWith('.md') && anchorsOf(read(found)).has(anchor))
  }
  return files.flatMap((file) => targetsOf(read(join(folder, file))).filter((target) => isBroken(file, target)).map((target) => `${file}: ${target}`))
}
