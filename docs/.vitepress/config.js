import { readFileSync } from 'node:fs'
import { defineConfig } from 'vitepress'
import { describePage, headOf, sitemap } from './head.js'
import { figures } from './figures.js'
import { indentLines, likeGitHub, slugify, withDiagrams, withNamedPages, withTables } from './markdown.js'
import { menu } from './menu.js'
import { renderForSearch } from './search.js'

const groups = menu()
/** The menu of the pages in a folder. The pages of other folders are left out, except the first: long menus make pages slow on telephones. */
const menuIn = (own) => groups.map(({ text, items }) => ({
  text,
  items: items.filter(({ link }, index) => {
    const [, folder, page] = link.split('/')
    return index === 0 || page === undefined || folder === own
  })
}))
const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')

/** Writes a section of the README where a page has `<!-- README: Heading -->`, and the figures where it has `<!-- figures -->`. */
const insertions = {
  name: 'insertions',
  enforce: 'pre',
  transform (source, id) {
    if (!id.endsWith('.md')) return
    return source.replace('<!-- figures -->', figures).replace(/^<!-- README: (.+) -->$/gm, (_, heading) => {
      const section = readme.split(/^(?=## )/m).find((part) => part.startsWith(`## ${heading}\n`))
      if (section === undefined) throw new Error(`README.md has no section "${heading}", which ${id} includes.`)
      return section
    })
  }
}

export default defineConfig({
  lang: 'en-US',
  title: 'fastify-token-auth',
  description: 'Login, sessions and guards for Fastify 5: a plugin that issues, verifies, renews and ends JSON Web Tokens.',
  rewrites: { 'site/:page': ':page' },
  head: [
    ['link', { rel: 'icon', href: '/favicon.svg', type: 'image/svg+xml' }],
    ['meta', { name: 'theme-color', content: '#fbfaf6', media: '(prefers-color-scheme: light)' }],
    ['meta', { name: 'theme-color', content: '#111715', media: '(prefers-color-scheme: dark)' }]
  ],
  // Otherwise, each page computes all of its styles twice when it is loaded.
  appearance: { disableTransition: false },
  transformPageData: describePage,
  transformHead: headOf,
  sitemap,
  markdown: {
    anchor: { slugify },
    attrs: { disable: true },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    codeTransformers: [indentLines],
    config (md) {
      likeGitHub(md)
      withNamedPages(md)
      withDiagrams(md)
      withTables(md)
    }
  },
  vite: { plugins: [insertions] },
  themeConfig: {
    logo: { src: '/favicon.svg', width: 24, height: 24, alt: '' },
    nav: [
      { text: 'Tutorial', link: '/tutorial' },
      { text: 'Guides', items: groups.find(({ text }) => text === 'Guides').items },
      { text: 'Recipes', link: '/recipes', activeMatch: '^/recipes' },
      { text: 'Settings', link: '/settings' },
      // TypeDoc builds these pages, so the router must not open them.
      { text: 'API', link: '/api/index.html', target: '_self' }
    ],
    sidebar: { '/recipes': menuIn('recipes'), '/evidence/': menuIn('evidence'), '/': menuIn() },
    outline: [2, 3],
    search: {
      provider: 'local',
      options: {
        _render: renderForSearch,
        // VitePress writes this function into the pages as text: it must not use anything outside itself.
        miniSearch: { searchOptions: { boostDocument: (id) => id.startsWith('/evidence/') || id.startsWith('/changelog') ? 0.1 : 1 } }
      }
    }
  }
})
