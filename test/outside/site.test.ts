// @alone
/** The site of the documents: its menu, and in a browser what `npm run docs:site` has built. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import fastifyStatic from '@fastify/static'
import Fastify from 'fastify'
import type { BrowserContextOptions, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { openBrowser, skip as withoutBrowser } from './browser.ts'

const docs = new URL('../../docs/', import.meta.url)
const built = new URL('.vitepress/dist/', docs)

/** The files in a folder and its folders that end so, by their paths without the end. */
const namesIn = (folder: URL, end: string) => readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith(end))
  .map((path) => path.replaceAll('\\', '/').slice(0, -end.length))

t.test('the menu of the site has every page of the documents once, and a text for each', async (t) => {
  const { menu }: { menu: () => { items: { text: string, link: string }[] }[] } = await import(new URL('.vitepress/menu.js', docs).href)
  const items = menu().flatMap((group) => group.items)
  const pages = namesIn(docs, '.md')
    .filter((name) => !/^(?:\.vitepress|node_modules|public)\//.test(name))
    .map((name) => name.replace(/^site\//, ''))
    .filter((name) => name !== 'index')
  t.strictSame(items.map(({ link }) => link).sort(), pages.map((name) => `/${name}`).sort())
  t.equal(new Set(items.map(({ text }) => text)).size, items.length)
})

if (!existsSync(built) && process.env.CI === 'true') throw new Error('The site is missing: build it with "npm run docs:site".')
const skip = existsSync(built) ? withoutBrowser : 'The site is missing: to run its tests, build it with "npm run docs:site".'

const browser = openBrowser(t)

t.test('the site that was built', { skip }, async (t) => {
  const server = Fastify().register(fastifyStatic, { root: fileURLToPath(built) })
  const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
  // With a lifetime, the browser compiles it once for all pages.
  server.get('/axe.js', (_request, reply) => reply.header('cache-control', 'max-age=3600').type('text/javascript').send(axe))
  t.teardown(() => {
    server.server.closeAllConnections()
    return server.close()
  })
  const origin = await server.listen({ port: 0, host: '127.0.0.1' })

  /** A tab whose pages may neither have errors nor ask other hosts. */
  async function openTab (t: Pick<Test, 'teardown' | 'fail'>, options: BrowserContextOptions = {}): Promise<Page> {
    const context = await (await browser()).newContext({ baseURL: origin, ...options })
    t.teardown(() => context.close())
    context.setDefaultTimeout(120_000)
    const page = await context.newPage()
    const fail = (what: string) => t.fail(`${page.url()}: ${what}`)
    page.on('console', (message) => { if (message.type() === 'error') fail(message.text()) })
    page.on('pageerror', ({ message }) => fail(message))
    page.on('request', (request) => { if (!/^(?:blob|data):/.test(request.url()) && new URL(request.url()).origin !== origin) fail(request.url()) })
    return page
  }

  const names = namesIn(built, '.html').filter((name) => name !== '404')

  /** Loads a page of the site, with axe. */
  async function load (page: Page, name: string): Promise<void> {
    await page.goto(`/${name}.html`)
    // TypeDoc hides its pages until their script runs.
    await page.locator('h1').first().waitFor()
    await page.addScriptTag({ url: '/axe.js' })
  }

  /** Shows a page of the API reference where another one was loaded: without its menus and scripts, in a fraction of the time. */
  const showInstead = (page: Page, name: string) => page.evaluate(`(async () => {
    const next = new DOMParser().parseFromString(await (await fetch('/${name}.html')).text(), 'text/html')
    // Its relative address would be resolved again.
    const icon = document.querySelector('link[rel=icon]')
    icon.href = icon.href
    history.replaceState(null, '', '/${name}.html')
    document.title = next.title
    document.querySelector('.container-main').replaceWith(next.querySelector('.container-main'))
  })()`)

  /** The menus of all pages. Axe takes half the time without them. */
  const menus = '.VPNav, .VPLocalNav, .VPSidebar, .tsd-page-toolbar, .site-menu'

  /** What axe finds in a page. */
  const violationsOf = (page: Page) => page.evaluate<string[]>(`(async () => {
    const { violations } = await axe.run(document, {
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], resultTypes: ['violations'], preload: false, selectors: false
    })
    return violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' '))
  })()`)

  /** A page of each kind. */
  const examples = ['index', 'guards', 'api/classes/fastify-token-auth.InvalidToken']

  t.test('every page has headings in order and links that lead to pages and anchors, fits a screen of 390 pixels, and has nothing that axe finds; code of the documents fits its column of a wide screen', async (t) => {
    const anchors = new Map<string, string[]>()
    const links = new Map<string, string>()
    const page = await openTab(t)
    const isReference = (name: string) => name.startsWith('api/')
    let loaded = ''
    for (const [index, name] of [...names].sort().entries()) {
      await page.setViewportSize({ width: 390, height: 844 })
      await page.emulateMedia({ colorScheme: index % 2 === 0 ? 'light' : 'dark' })
      if (isReference(name) && isReference(loaded)) await showInstead(page, name)
      else await load(page, loaded = name)
      const seen: { width: number, levels: number[], ids: string[], hrefs: string[] } = await page.evaluate(`({
        width: document.documentElement.scrollWidth,
        levels: Array.from(document.querySelectorAll('h1, h2, h3, h4, h5, h6')).filter((heading) => heading.checkVisibility()).map(({ tagName }) => Number(tagName[1])),
        ids: Array.from(document.querySelectorAll('[id]'), ({ id }) => id),
        hrefs: Array.from(document.querySelectorAll('main a[href]'), ({ href }) => href)
      })`)
      t.equal(seen.width, 390, `${name}: width`)
      t.equal(seen.levels.filter((level) => level === 1).length, 1, `${name}: headings`)
      t.ok(seen.levels.every((level, index) => level <= (seen.levels[index - 1] ?? level) + 1), `${name}: levels of headings ${seen.levels.join(' ')}`)
      anchors.set(`/${name}.html`, seen.ids)
      for (const href of seen.hrefs) links.set(href, name)
      if (!isReference(name)) {
        await page.setViewportSize({ width: 1280, height: 800 })
        const wide = await page.evaluate('Array.from(document.querySelectorAll("pre")).filter((pre) => pre.scrollWidth > pre.clientWidth).map((pre) => pre.innerText)')
        t.same(wide, [], `${name}: code`)
      }
      await page.evaluate(`document.querySelectorAll('${menus}').forEach((menu) => menu.remove())`)
      t.same(await violationsOf(page), [], `${name}: axe`)
    }
    const broken: string[] = []
    for (const [href, name] of links) {
      const { origin: target, pathname, hash } = new URL(href)
      if (target !== origin) continue
      const ids = anchors.get(pathname.replace(/\/$/, '/index.html'))
      if (hash === '' ? ids === undefined : ids?.includes(decodeURIComponent(hash.slice(1))) !== true) broken.push(`${name}: ${href}`)
    }
    t.same(broken, [], 'links')
    t.ok(links.size > 500)
    t.ok(names.some(isReference), 'the API reference is a part of the site')
  })

  t.test('axe finds nothing in pages of each kind with their menus, light and dark, on narrow and wide screens', async (t) => {
    for (const colorScheme of ['light', 'dark'] as const) {
      const page = await openTab(t, { colorScheme })
      for (const name of examples) {
        await load(page, name)
        for (const [width, height] of [[390, 844], [1280, 800]] as const) {
          await page.setViewportSize({ width, height })
          t.same(await violationsOf(page), [], `${name}, ${colorScheme}, ${width} px`)
        }
      }
    }
  })

  t.test('links to recipes in lists and tables have the titles of their pages', async (t) => {
    const page = await openTab(t)
    for (const path of ['/recipes.html', '/index.html']) {
      await page.goto(path)
      const titles: Record<string, string> = await page.evaluate(`Object.fromEntries(
        Array.from(document.querySelectorAll('main :is(li > a:first-child, td > a:only-child)')).filter(({ pathname }) => pathname.startsWith('/recipes/')).map(({ pathname, textContent }) => [pathname, textContent]))`)
      t.ok(Object.keys(titles).length > 3, path)
      for (const [recipe, title] of Object.entries(titles)) {
        const [, heading] = /^# (.+)$/m.exec(readFileSync(new URL(`.${recipe.replace('.html', '.md')}`, docs), 'utf8')) ?? []
        t.equal(title, heading, `${path}: ${recipe}`)
      }
    }
  })

  t.test('the menu of the landing page leads to each guide', async (t) => {
    const page = await openTab(t)
    await page.goto('/')
    await page.getByRole('navigation', { name: 'Main Navigation' }).getByRole('button', { name: 'Guides' }).hover()
    await page.getByRole('link', { name: 'Guards and scopes', exact: true }).first().click()
    await page.getByRole('heading', { name: 'Guards and scopes', level: 1 }).waitFor()
    t.match(page.url(), /\/guards\.html$/)
  })

  t.test('the picture of the landing page is cut off where it has neither text nor buttons', async (t) => {
    for (const colorScheme of ['light', 'dark'] as const) {
      const page = await openTab(t, { colorScheme })
      await page.goto('/')
      for (const width of [390, 600, 800, 1280]) {
        await page.setViewportSize({ width, height: 800 })
        // The colours of a row of pixels of the picture, at its upper and its lower edge, without its frame.
        const colors: number[] = await page.evaluate(`(async () => {
          const image = Array.from(document.querySelectorAll('.picture img')).find((image) => image.checkVisibility())
          image.loading = 'eager'
          await image.decode()
          const { top, bottom } = image.closest('.picture').getBoundingClientRect()
          const shown = image.getBoundingClientRect()
          const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight).getContext('2d')
          canvas.drawImage(image, 0, 0)
          return [top + 1, bottom - 1].map((edge) => {
            const y = Math.max(3, Math.floor((edge - shown.top) / shown.height * image.naturalHeight))
            return new Set(new Uint32Array(canvas.getImageData(24, y, image.naturalWidth - 48, 1).data.buffer)).size
          })
        })()`)
        t.same(colors, [1, 1], `${width} px, ${colorScheme}`)
      }
    }
  })

  t.test('the search finds guides and recipes before evidence', async (t) => {
    const page = await openTab(t)
    await page.goto('/tutorial.html')
    await page.getByRole('button', { name: 'Search' }).click()
    for (const words of ['csrf', 'refresh token rotation']) {
      await page.getByRole('searchbox').fill(words)
      await page.getByRole('option').first().waitFor()
      const found: string[] = await page.evaluate("Array.from(document.querySelectorAll('a.result'), ({ pathname }) => pathname)")
      await page.getByRole('searchbox').fill('')
      await page.getByRole('option').first().waitFor({ state: 'detached' })
      t.ok(found.length > 5, words)
      for (const path of found.slice(0, 2)) t.notMatch(path, /^\/evidence/, words)
    }
  })

  t.test('the search finds a setting, and leads to the chapter about it', async (t) => {
    const page = await openTab(t)
    await page.goto('/tutorial.html')
    await page.getByRole('button', { name: 'Search' }).click()
    await page.getByRole('searchbox').fill('requireGuards')
    await page.getByRole('option').filter({ hasText: 'Require guards' }).click()
    await page.getByRole('heading', { name: 'Require guards' }).waitFor()
    t.match(page.url(), /\/guards\.html#require-guards$/)
  })

  t.test('pages are light or dark as the system, until a reader chooses; the API reference follows', async (t) => {
    const page = await openTab(t, { colorScheme: 'dark' })
    const brightness = () => page.evaluate<number>('Number(/\\d+/.exec(getComputedStyle(document.body).backgroundColor)[0])')
    await page.goto('/sessions.html')
    t.ok(await brightness() < 100, 'dark as the system')
    await page.getByRole('switch', { name: /light theme/ }).click()
    t.ok(await brightness() > 200, 'light as chosen')
    await page.goto('/api/index.html')
    t.ok(await brightness() > 200, 'the API reference is light, too')
  })
})
