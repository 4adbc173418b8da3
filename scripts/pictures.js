/**
 * `npm run pictures`: takes the pictures of the documents and of the landing page, which show pages of the example in
 * Chromium, and writes them to docs/pictures and docs/public, or to folders with these names in its first argument. Time and
 * data are fixed, so that they change only with the pages, with the fonts of the
 * machine, and in a few edges of letters, which Chromium draws differently now and then.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createService } from '../examples/web/server.js'
import { executablePath, launchChromium } from './chromium.js'

const [, , folder = fileURLToPath(new URL('../docs', import.meta.url))] = process.argv

/** Pictures of the landing page: two widths, of which a screen shows one, light and dark. */
const devicesOfSite = Object.fromEntries([['wide', 620], ['narrow', 374]].flatMap(([name, width]) => ['light', 'dark'].map((colorScheme) => [`public/devices-${name}-${colorScheme}.png`, {
  path: '/devices.html',
  title: 'Your devices',
  options: { colorScheme, viewport: { width, height: 800 }, deviceScaleFactor: 1.5 },
  // Without the text above the list.
  async prepare (page) { await page.locator('main > p:not([id])').evaluate((paragraph) => paragraph.remove()) },
  element: 'main'
}])))

/** The page of each picture, its size or the element that it shows, and what is done on the page first. */
const pictures = {
  'pictures/reports.png': {
    path: '/reports.html',
    title: 'Reports',
    options: { colorScheme: 'light', viewport: { width: 800, height: 710 } },
    async prepare (page) {
      await page.getByRole('button', { name: 'Expire now' }).click()
      await page.getByText('The next request renews it.').waitFor()
      await page.getByRole('button', { name: 'Send a request' }).click()
      // The order of what the browser records is known when all of it is there.
      await page.getByText('Renewed: /token 401 → /auth/me 200 → /token 200').waitFor()
      // Without the focus.
      await page.mouse.click(1, 300)
    }
  },
  'pictures/devices.png': { path: '/devices.html', title: 'Your devices', options: { colorScheme: 'dark', viewport: { width: 390, height: 780 } }, async prepare () {} },
  ...devicesOfSite
}

/** The other devices of ada, by the time of their login. */
const devices = {
  '2026-04-01T08:15:00Z': 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1',
  '2026-04-01T13:40:00Z': 'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0'
}
const now = Date.parse('2026-04-01T14:00:00Z')
const credentials = { username: 'ada', password: 'lovelace' }

if (executablePath === undefined) {
  console.error('Chromium is missing: install it, or name it in CHROMIUM_PATH.')
  process.exit(1)
}

let time = now
Date.now = () => time
const app = await createService()
const baseURL = await app.listen({ port: 0, host: '127.0.0.1' })
const browser = await launchChromium('--font-render-hinting=none', '--disable-lcd-text')

for (const [login, userAgent] of Object.entries(devices)) {
  time = Date.parse(login)
  await app.inject({ method: 'POST', url: '/auth', payload: credentials, headers: { 'user-agent': userAgent } })
}
time = now

for (const [name, { path, title, options, prepare, element }] of Object.entries(pictures)) {
  const context = await browser.newContext({ baseURL, ...options })
  const page = await context.newPage()
  await page.clock.setFixedTime(now)
  await page.goto(path)
  await page.getByLabel('Name').fill(credentials.username)
  await page.getByLabel('Password').fill(credentials.password)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('heading', { name: title }).waitFor()
  await page.waitForLoadState('networkidle')
  await prepare(page)
  await mkdir(dirname(join(folder, name)), { recursive: true })
  await writeFile(join(folder, name), await (element === undefined ? page : page.locator(element)).screenshot({ animations: 'disabled' }))
  // The next picture shows one login of this browser.
  await page.getByRole('button', { name: 'Log out' }).click()
  await page.getByRole('heading', { name: 'Log in' }).waitFor()
  await context.close()
}
await browser.close()
await app.close()
