/** `npm run card --prefix docs`: draws the picture that other sites show beside a link to this one. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { launchChromium } from '../scripts/chromium.js'

const read = (path) => readFileSync(new URL(path, import.meta.url))
const font = read('node_modules/@fontsource-variable/atkinson-hyperlegible-next/files/atkinson-hyperlegible-next-latin-wght-normal.woff2').toString('base64')
const mark = read('public/favicon.svg').toString().replace('<svg ', '<svg width="88" height="88" ')

const page = `<!doctype html>
<style>
  @font-face { font-family: Text; src: url('data:font/woff2;base64,${font}'); font-weight: 200 800; }
  body { box-sizing: border-box; height: 630px; margin: 0; padding: 72px 80px; background: #111715; color: #e7ece9; font: 34px/1.4 Text; }
  header { display: flex; align-items: center; gap: 24px; font-size: 40px; font-weight: 600; }
  h1 { margin: 56px 0 28px; font-size: 84px; line-height: 1.06; letter-spacing: -2px; }
  p { margin: 0; color: #b4bfba; }
  i { display: block; width: 320px; height: 12px; margin-top: 48px; border-radius: 6px; background: linear-gradient(90deg, #63d6b8 0 28%, transparent 28% 31%, #e7ece9 31% 69%, transparent 69% 72%, #f6b35c 72%); }
</style>
<header>${mark} fastify-token-auth</header>
<h1>Login, sessions and<br>guards for Fastify 5</h1>
<p>JSON Web Tokens that are verified, renewed and ended.</p>
<i></i>`

const browser = await launchChromium('--font-render-hinting=none', '--disable-lcd-text')
const tab = await browser.newPage({ viewport: { width: 1200, height: 630 } })
await tab.setContent(page)
await tab.evaluate(() => document.fonts.ready)
await tab.screenshot({ path: fileURLToPath(new URL('public/card.png', import.meta.url)) })
await browser.close()
