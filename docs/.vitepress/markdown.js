/** Renders Markdown as GitHub does, and prepares tables and diagrams for the site. */
import { existsSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { draw, widths } from './diagrams/draw.js'

/** The address of a heading, by the rule of GitHub, where the documents are read as well. */
export const slugify = (heading) => heading.trim().toLowerCase().replace(/[^\p{L}\p{N}\p{M}\s_-]/gu, '').replace(/\s/g, '-')

/** The pages that show files outside docs/, whose links start from there. */
const sources = { 'changelog.md': 'CHANGELOG.md', 'index.md': 'README.md', 'reporting.md': 'SECURITY.md', 'tutorial-javascript.md': 'docs/site/tutorial-javascript.md' }

const sourceOf = (page) => sources[page] ?? `docs/${page}`

/** Returns the link between two pages of the site for a link between two files of the repository. */
function linkOnSite (link, page) {
  const [, path, anchor = ''] = /^([\w./-]+\.md)(#.*)?$/.exec(link) ?? []
  if (path === undefined) return link
  const target = posix.join(posix.dirname(sourceOf(page)), path)
  const [targetPage] = Object.entries(sources).find(([, source]) => source === target) ?? [posix.relative('docs', target)]
  return posix.relative(posix.dirname(page), targetPage) + anchor
}

/** Makes links of the pages of the evidence, which others name as text, because the package does not have them. */
export function withNamedPages (md) {
  md.core.ruler.push('named-pages', ({ tokens, env, Token }) => {
    for (const token of tokens) {
      token.children = token.children?.flatMap((child) => {
        if (child.type !== 'code_inline' || !/^docs\/evidence\/[\w-]+\.md$/.test(child.content)) return child
        const link = new Token('link_open', 'a', 1)
        link.attrSet('href', posix.relative(posix.dirname(sourceOf(env.relativePath)), child.content))
        return [link, child, new Token('link_close', 'a', -1)]
      }) ?? null
    }
  })
}

/** HTML that the documents use inside of paragraphs and tables. */
const isHtml = (text) => /^<(?:br>|!--)/.test(text)

/** Does not read text as Vue templates, nor names in angle brackets as HTML. */
export function likeGitHub (md) {
  md.disable('emoji')
  const { escapeHtml } = md.utils
  const { link_open: linkOpen } = md.renderer.rules
  for (const name of ['text', 'code_inline']) {
    const render = md.renderer.rules[name]
    md.renderer.rules[name] = (...args) => render(...args).replaceAll('{{', '&#123;&#123;')
  }
  md.renderer.rules.html_inline = (tokens, index) => isHtml(tokens[index].content) ? tokens[index].content : escapeHtml(tokens[index].content)
  md.renderer.rules.link_open = (tokens, index, options, env, self) => {
    tokens[index].attrSet('href', linkOnSite(tokens[index].attrGet('href'), env.relativePath))
    return linkOpen(tokens, index, options, env, self)
  }
}

/** Tells the style of a line of code how far it is indented: what does not fit its column goes on below, further to the right. */
export const indentLines = {
  name: 'indent-lines',
  line (element, number) {
    const indent = /^ */.exec(this.source.split('\n')[number - 1])[0].length
    if (indent > 0) element.properties.style = `--indent:${indent}ch`
  }
}

/** A diagram for wide and for narrow screens, of which a page shows one. */
const drawBoth = (text) => Object.entries(widths).map(([name, width]) => `<span v-pre class="only-${name}">${draw(text, width)}</span>`).join('')

/** Draws blocks with the language `mermaid`, and pictures whose text is in docs/diagrams. */
export function withDiagrams (md) {
  const { fence, image } = md.renderer.rules
  md.renderer.rules.fence = (tokens, index, ...rest) => {
    const { info, content } = tokens[index]
    return info.trim() === 'mermaid' ? `<p>${drawBoth(content)}</p>` : fence(tokens, index, ...rest)
  }
  md.renderer.rules.image = (tokens, index, ...rest) => {
    const [, name] = /(?:^|\/)pictures\/([\w-]+)\.svg$/.exec(tokens[index].attrGet('src')) ?? []
    const file = new URL(`../diagrams/${name}.mmd`, import.meta.url)
    return name !== undefined && existsSync(file) ? drawBoth(readFileSync(file, 'utf8')) : image(tokens, index, ...rest)
  }
}

const roles = { table: 'table', thead: 'rowgroup', tbody: 'rowgroup', tr: 'row', th: 'columnheader', td: 'cell' }

/**
 * Gives the rows of tables addresses, by the first code in them, which search results lead to; each cell the title of its
 * column, for narrow screens, on which rows with three or more cells are shown as lists; and the roles that this style takes
 * from them. Leaves out the outline beside a page with a table of five or more columns, and lets long names break between words.
 */
export function withTables (md) {
  const { code_inline: code } = md.renderer.rules
  const breakable = (text) => text.replace(/(?<=[A-Z]_|[(.,/])(?=[A-Za-z])|(?<=[a-z])(?=[A-Z])/g, '<wbr>')
  md.renderer.rules.code_inline = (...args) => code(...args).replace(/(?<=>)[^<]+/, breakable)
  md.renderer.rules.table_open = (tokens, index, options, env, self) => self.renderToken(tokens, index, options)
  md.core.ruler.push('tables', ({ tokens, env }) => {
    const ids = new Set(tokens.map((token) => token.attrGet('id')))
    let table, titles, column, row
    for (const [index, token] of tokens.entries()) {
      const name = token.type.replace(/_open$/, '')
      if (token.type === name || roles[name] === undefined) continue
      const next = tokens[index + 1]
      const isEmptyHead = name === 'th' && next.content === ''
      // The corner of a table whose rows have titles is no title of a column.
      if (isEmptyHead) token.tag = tokens[index + 2].tag = 'td'
      token.attrSet('role', isEmptyHead ? 'cell' : roles[name])
      if (name === 'table') [table, titles] = [token, []]
      if (name === 'tr') [row, column] = [token, 0]
      if (name === 'th') {
        titles.push(next.content.replaceAll('`', ''))
        if (titles.length === 3) table.attrJoin('class', 'rows')
        if (titles.length === 5) env.frontmatter.aside = false
      }
      if (name !== 'td') continue
      if (titles[column] !== '') token.attrSet('data-title', titles[column])
      const [, named] = column++ === 0 ? /`([^`]+)`/.exec(next.content) ?? [] : []
      if (named === undefined) continue
      const id = slugify(named)
      const free = ids.has(id) ? Array.from({ length: 100 }, (_, count) => `${id}-${count + 1}`).find((other) => !ids.has(other)) : id
      ids.add(free)
      row.attrSet('id', free)
    }
  })
}
