/** The site of the documents: its menu, and in a browser what `npm run docs:site` has built. */
import { existsSync, readdirSync } from 'node:fs'
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
    .filter((name) => !/^(?:node_modules|public)\//.test(name))
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

  t.test('every page fits a screen of 390 pixels, has a heading, and has links that lead to pages and anchors of the site', async (t) => {
    const page = await openTab(t, { viewport: { width: 390, height: 844 }, colorScheme: 'dark' })
    const anchors = new Map<string, string[]>()
    const links = new Map<string, string>()
    for (const name of names) {
      await page.goto(`/${name}.html`)
      const seen: { width: number, headings: number, ids: string[], hrefs: string[] } = await page.evaluate(`({
        width: document.documentElement.scrollWidth,
        headings: document.querySelectorAll('h1').length,
        ids: Array.from(document.querySelectorAll('[id]'), ({ id }) => id),
        hrefs: Array.from(document.querySelectorAll('a[href]'), ({ href }) => href)
      })`)
      t.equal(seen.width, 390, `${name}: width`)
      t.equal(seen.headings, 1, `${name}: headings`)
      anchors.set(`/${name}.html`, seen.ids)
      // TypeDoc checks the links of its pages.
      if (!name.startsWith('api/')) for (const href of seen.hrefs) links.set(href, name)
    }
    for (const [href, name] of links) {
      const { origin: target, pathname, hash } = new URL(href)
      if (target !== origin) continue
      const ids = anchors.get(pathname.replace(/\/$/, '/index.html'))
      t.ok(hash === '' ? ids : ids?.includes(decodeURIComponent(hash.slice(1))), `${name}: ${href}`)
    }
    t.ok(names.some((name) => name.startsWith('api/')), 'the API reference is a part of the site')
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
