import { readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { defineConfig } from 'vitepress'

const read = (path) => readFileSync(new URL(path, import.meta.url), 'utf8')

/** The pages in their order: groups, and in them the texts of links with names of pages. */
const menu = JSON.parse(read('menu.json'))

/** The address of a heading, by the rule of GitHub, where the documents are read as well. */
const slugify = (heading) => heading.trim().toLowerCase().replace(/[^\p{L}\p{N}\p{M}\s_-]/gu, '').replace(/\s/g, '-')

/** The pages that show files outside docs/, whose links start from there. */
const sources = { 'changelog.md': 'CHANGELOG.md', 'index.md': 'README.md', 'reporting.md': 'SECURITY.md', 'tutorial-javascript.md': 'docs/site/tutorial-javascript.md' }

/** Returns the link between two pages of the site for a link between two files of the repository. */
function linkOnSite (link, page) {
  const [, path, anchor = ''] = /^([\w./-]+\.md)(#.*)?$/.exec(link) ?? []
  if (path === undefined) return link
  const target = posix.join(posix.dirname(sources[page] ?? `docs/${page}`), path)
  const [targetPage] = Object.entries(sources).find(([, source]) => source === target) ?? [posix.relative('docs', target)]
  return posix.relative(posix.dirname(page), targetPage) + anchor
}

/** HTML that the documents use inside of paragraphs and tables. */
const isHtml = (text) => /^<(?:br>|!--)/.test(text)

/** Renders Markdown as GitHub does, and not as Vue templates. */
function likeGitHub (md) {
  md.disable('emoji')
  const { escapeHtml } = md.utils
  const { fence, link_open: linkOpen } = md.renderer.rules
  for (const name of ['text', 'code_inline']) {
    const render = md.renderer.rules[name]
    md.renderer.rules[name] = (...args) => render(...args).replaceAll('{{', '&#123;&#123;')
  }
  md.renderer.rules.html_inline = (tokens, index) => isHtml(tokens[index].content) ? tokens[index].content : escapeHtml(tokens[index].content)
  md.renderer.rules.link_open = (tokens, index, options, env, self) => {
    tokens[index].attrSet('href', linkOnSite(tokens[index].attrGet('href'), env.relativePath))
    return linkOpen(tokens, index, options, env, self)
  }
  md.renderer.rules.fence = (tokens, index, ...rest) => {
    const { info, content } = tokens[index]
    return info.trim() === 'mermaid' ? `<Diagram text="${escapeHtml(content)}" />` : fence(tokens, index, ...rest)
  }
}

/** Leaves out the outline beside a page with a table of five or more columns, and breaks the names of environment variables. */
function makeRoomForTables (md) {
  const { code_inline: code } = md.renderer.rules
  md.renderer.rules.code_inline = (...args) => code(...args).replace(/(?<=[A-Z]_)(?=[A-Z])/g, '<wbr>')
  md.core.ruler.push('make-room-for-tables', ({ tokens, env }) => {
    let columns = 0
    for (const { type } of tokens) {
      if (type === 'thead_open') columns = 0
      if (type === 'th_open' && ++columns === 5) env.frontmatter.aside = false
    }
  })
}

/** Writes a section of the README where a page has `<!-- README: Heading -->`. */
const sectionsOfReadme = {
  name: 'sections-of-readme',
  enforce: 'pre',
  transform (source, id) {
    if (!id.endsWith('.md')) return
    return source.replace(/^<!-- README: (.+) -->$/gm, (_, heading) => {
      const section = read('../../README.md').split(/^(?=## )/m).find((part) => part.startsWith(`## ${heading}\n`))
      if (section === undefined) throw new Error(`README.md has no section "${heading}", which ${id} includes.`)
      return section
    })
  }
}

export default defineConfig({
  lang: 'en-US',
  title: 'fastify-token-auth',
  description: 'JWT token authentication for Fastify 5',
  rewrites: { 'site/:page': ':page' },
  head: [['link', { rel: 'icon', href: '/favicon.svg' }]],
  markdown: {
    anchor: { slugify },
    attrs: { disable: true },
    config (md) {
      likeGitHub(md)
      makeRoomForTables(md)
    }
  },
  vite: { plugins: [sectionsOfReadme] },
  themeConfig: {
    nav: [
      { text: 'Tutorial', link: '/tutorial' },
      { text: 'Settings', link: '/settings' },
      // TypeDoc builds these pages, so the router must not open them.
      { text: 'API', link: '/api/index.html', target: '_self' }
    ],
    sidebar: Object.entries(menu).map(([text, pages]) => ({
      text, items: Object.entries(pages).map(([text, page]) => ({ text, link: `/${page}` }))
    })),
    outline: [2, 3],
    search: { provider: 'local' }
  }
})
