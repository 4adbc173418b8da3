/** What pages say about themselves to other sites: a description and a picture (https://ogp.me). */
import { readFileSync } from 'node:fs'

/**
 * The address of the site without a path, such as https://docs.example.org. Without it, there are no canonical addresses
 * and no map of the site, and the address of the picture is relative, which few readers of Open Graph understand.
 */
const origin = (process.env.DOCS_ORIGIN ?? '').replace(/\/$/, '')

const picture = { path: '/card.png', width: 1200, height: 630, alt: 'fastify-token-auth: login, sessions and guards for Fastify 5' }

/** The first paragraph of a page, as text: at most as many sentences as 200 characters have room for, and one at least. */
export function describe (markdown) {
  const prose = markdown.replace(/^---\n[\s\S]*?\n---\n/, '').replace(/^(`{3,})[\s\S]*?^\1$/gm, '').replace(/<!--[\s\S]*?-->/g, '')
  const paragraph = prose.split(/\n{2,}/).map((part) => part.trim()).find((part) => /^[\p{L}`*[]/u.test(part))
  if (paragraph === undefined) return
  const text = paragraph.replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[`*]/g, '').replace(/\s+/g, ' ').replace(/, and[^.]*:$|:$/, '.')
  const sentences = text.split(/(?<=[.!?]) /)
  let description = sentences.shift()
  for (const sentence of sentences) {
    if (description.length + sentence.length > 200) break
    description += ` ${sentence}`
  }
  return description
}

export function describePage (page, { siteConfig }) {
  if (page.frontmatter.description !== undefined) return
  page.description = describe(readFileSync(`${siteConfig.srcDir}/${page.filePath}`, 'utf8')) ?? page.description
}

/** The elements in the head of a page. Scripts and styles are added by VitePress. */
export function headOf ({ pageData, title, description, assets }) {
  const path = `/${pageData.relativePath.replace(/(?:index)?\.md$/, (end) => end === '.md' ? '.html' : '')}`
  const font = assets.find((asset) => asset.endsWith('.woff2'))
  const properties = {
    'og:type': pageData.frontmatter.layout === 'page' ? 'website' : 'article',
    'og:site_name': 'fastify-token-auth',
    'og:title': title,
    'og:description': description,
    'og:image': origin + picture.path,
    'og:image:width': picture.width,
    'og:image:height': picture.height,
    'og:image:alt': picture.alt,
    ...(origin !== '' && { 'og:url': origin + path })
  }
  return [
    ...(font === undefined ? [] : [['link', { rel: 'preload', href: font, as: 'font', type: 'font/woff2', crossorigin: '' }]]),
    ...Object.entries(properties).map(([property, content]) => ['meta', { property, content: String(content) }]),
    ['meta', { name: 'twitter:card', content: 'summary_large_image' }],
    ...(origin === '' ? [] : [['link', { rel: 'canonical', href: origin + path }]])
  ]
}

export const sitemap = origin === '' ? undefined : { hostname: origin }
