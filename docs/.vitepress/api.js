/**
 * A plugin of TypeDoc: its pages have the font of the site, and what readers with a screen reader or a keyboard need, which its
 * theme leaves out: landmarks, headings without gaps between their levels, and no links inside of buttons. A page is shown
 * before its scripts have run; TypeDoc hides it until then.
 */
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const font = new URL('../node_modules/@fontsource-variable/atkinson-hyperlegible-next/files/atkinson-hyperlegible-next-latin-wght-normal.woff2', import.meta.url)

/** Gives a heading at most one level more than the heading before it. */
function withHeadingsInOrder (html) {
  let above = 0
  let level = 1
  return html.replace(/<(\/?)h([1-6])\b/g, (_, end, written) => {
    if (end === '') above = level = Math.min(Number(written), above + 1)
    return `<${end}h${level}`
  })
}

const changes = [
  [/<div class="col-content">([\s\S]*)<\/div>\n<div class="col-sidebar">([\s\S]*)<\/div><\/div><footer>/, '<main class="col-content">$1</main>\n<aside class="col-sidebar" aria-label="Menus">$2</aside></div><footer>'],
  [/<nav id="tsd-sidebar-links"/, '$& aria-label="Site"'],
  [/<nav class="tsd-navigation">/, '<nav class="tsd-navigation" aria-label="API">'],
  [/document\.body\.style\.display="none";setTimeout\(.*?,500\)(?=<\/script>)/, ''],
  [/<link rel="stylesheet"/, '<link rel="preload" href="%assets/font.woff2" as="font" type="font/woff2" crossorigin=""/>$&']
]

/** Without addresses for entries that have others below them: what is clicked opens them, and cannot be a link as well. */
const withoutLinksToGroups = (entries) => entries.map(({ path, children, ...entry }) => children === undefined ? { ...entry, path } : { ...entry, children: withoutLinksToGroups(children) })

export function load ({ renderer }) {
  renderer.on('beginRender', () => {
    const { theme } = renderer
    const navigation = theme.getNavigation.bind(theme)
    theme.getNavigation = (project) => withoutLinksToGroups(navigation(project))
  })
  renderer.on('endPage', (page) => {
    if (!page.filename.endsWith('.html')) return
    const [, base] = /data-base="([^"]*)"/.exec(page.contents)
    for (const [pattern, text] of changes) {
      if (!pattern.test(page.contents)) throw new Error(`TypeDoc writes its pages differently: ${page.filename} does not match ${pattern}.`)
      page.contents = page.contents.replace(pattern, text.replace('%', base))
    }
    page.contents = withHeadingsInOrder(page.contents)
      // The heading in a summary keeps its anchor, to which the menu links.
      .replace(/<summary [\s\S]*?<\/summary>/g, (summary) => summary.replace(/<a [^>]*class="tsd-anchor-icon"[\s\S]*?<\/a>/, ''))
  })
  renderer.on('endRender', ({ outputDirectory }) => copyFileSync(fileURLToPath(font), join(outputDirectory, 'assets/font.woff2')))
}
