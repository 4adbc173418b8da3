/**
 * `npm run pictures`: takes the pictures of the documents, which show pages of the example in Chromium, and writes them to
 * docs/pictures, or to the folder in its first argument. Time and data are fixed, so that they change only with the pages
 * and with the fonts of the machine.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createService } from '../examples/web/server.js'
import { executablePath, launchChromium } from './chromium.js'

const [, , folder = fileURLToPath(new URL('../docs/pictures', import.meta.url))] = process.argv

/** The page of each picture, its size, and what is done on it first. */
const pictures = {
  'reports.png': {
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
  'devices.png': { path: '/devices.html', title: 'Your devices', options: { colorScheme: 'dark', viewport: { width: 390, height: 780 } }, async prepare () {} }
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

await mkdir(folder, { recursive: true })
for (const [name, { path, title, options, prepare }] of Object.entries(pictures)) {
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
  await writeFile(join(folder, name), await page.screenshot())
  // The next picture shows one login of this browser.
  await page.getByRole('button', { name: 'Log out' }).click()
  await page.getByRole('heading', { name: 'Log in' }).waitFor()
  await context.close()
}
await browser.close()
await app.close()
