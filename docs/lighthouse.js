/**
 * `npm run lighthouse --prefix docs`: measures the landing page, three guides and two pages of the API reference of the site
 * that was built last with Lighthouse, as a telephone and as a desktop, and fails if a score is below its limit. The pages are
 * compressed, as most servers do. A busy machine makes pages slow, so the performance is the best of five runs; the other
 * scores do not vary. For a telephone, the processor is slowed down by what its speed calls for.
 */
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { extname } from 'node:path'
import { gzipSync } from 'node:zlib'
import lighthouse, { desktopConfig } from 'lighthouse'
import { launchChromium } from '../scripts/chromium.js'

const limits = { performance: 97, accessibility: 100, 'best-practices': 100, seo: 100 }
const pages = ['/', '/guards.html', '/cookies.html', '/keys.html', '/api/index.html', '/api/interfaces/fastify-token-auth.Sessions.html']
const types = { '.css': 'text/css', '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.json': 'application/json', '.png': 'image/png', '.svg': 'image/svg+xml', '.woff2': 'font/woff2' }
const isCompressed = ['.png', '.woff2']
const dist = new URL('.vitepress/dist/', import.meta.url)

const server = createServer((request, response) => {
  const { pathname } = new URL(request.url, 'http://localhost')
  const file = new URL(`.${pathname.endsWith('/') ? `${pathname}index.html` : pathname}`, dist)
  const type = types[extname(file.pathname)]
  if (type === undefined || !existsSync(file)) return response.writeHead(404).end()
  const headers = { 'content-type': type, 'cache-control': pathname.startsWith('/assets/') ? 'max-age=31536000, immutable' : 'max-age=600' }
  const content = readFileSync(file)
  if (isCompressed.includes(extname(file.pathname))) response.writeHead(200, headers).end(content)
  else response.writeHead(200, { ...headers, 'content-encoding': 'gzip' }).end(gzipSync(content))
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const origin = `http://127.0.0.1:${server.address().port}`
const port = 9222 + process.pid % 1000
const browser = await launchChromium(`--remote-debugging-port=${port}`)

/**
 * How many times slower than this machine a telephone is, by the index of speed that Lighthouse measures. Lighthouse slows
 * every machine down four times, and asks in its documents to take less for slow machines.
 */
async function slowdown () {
  const { lhr: { environment: { benchmarkIndex: index } } } = await lighthouse(`${origin}/`, { port, logLevel: 'error', onlyAudits: ['document-title'] })
  if (index >= 1300) return Math.min(4, 3 + (index - 1300) / 233)
  return index >= 800 ? 2 + (index - 800) / 500 : 1 + Math.max(0, index - 150) / 650
}

/** The scores of a page, and what lowers them. */
async function measure (path, form) {
  const scores = {}
  const causes = new Set()
  for (let run = 0; run < 5 && !(scores.performance >= limits.performance); run++) {
    const config = form === 'desktop' ? desktopConfig : { extends: 'lighthouse:default', settings: { throttling: { cpuSlowdownMultiplier: await slowdown() } } }
    const { lhr } = await lighthouse(origin + path, { port, logLevel: 'error' }, config)
    for (const [id, { score, auditRefs }] of Object.entries(lhr.categories)) {
      scores[id] = Math.max(scores[id] ?? 0, Math.round(score * 100))
      if (id !== 'performance') for (const { id: audit, weight } of auditRefs) if (weight > 0 && lhr.audits[audit].score === 0) causes.add(audit)
    }
    scores.metrics = ['first-contentful-paint', 'largest-contentful-paint', 'total-blocking-time', 'cumulative-layout-shift'].map((id) => lhr.audits[id].displayValue).join(', ')
  }
  return { scores, causes: [...causes] }
}

console.log(`${'Page'.padEnd(56)}${'Form'.padEnd(10)}${Object.keys(limits).map((id) => id.padEnd(16)).join('')}FCP, LCP, TBT, CLS of the last run`)
for (const path of pages) {
  for (const form of ['mobile', 'desktop']) {
    const { scores, causes } = await measure(path, form)
    console.log(`${path.padEnd(56)}${form.padEnd(10)}${Object.keys(limits).map((id) => String(scores[id]).padEnd(16)).join('')}${scores.metrics}`)
    if (causes.length > 0) console.error(`  Below the limit: ${causes.join(', ')}`)
    if (Object.entries(limits).some(([id, limit]) => scores[id] < limit)) process.exitCode = 1
  }
}
await browser.close()
server.close()
