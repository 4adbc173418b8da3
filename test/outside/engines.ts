/**
 * Three engines of browsers with one face, all as Debian packages them: Chromium by playwright-core, Firefox by puppeteer-core
 * over WebDriver BiDi, and WebKitGTK by its WebDriver, under Xvfb. playwright's own Firefox and WebKit are patched builds.
 * An engine that is missing is skipped; in CI that is an error.
 */
import { spawn } from 'node:child_process'
import { generateKeyPairSync, sign } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { chromium as playwright, type Browser as PlaywrightBrowser } from 'playwright-core'
import type { Browser as FirefoxBrowser, PuppeteerNode } from 'puppeteer-core'
import type { Test } from 'tap'

export interface Tab {
  /** The value of an expression, which may be a promise, as JSON. */
  evaluate<Result> (expression: string): Promise<Result>
  /** Opens a page and waits until it has loaded. */
  goto (url: string): Promise<void>
  reload (): Promise<void>
  /** Runs a script that may leave the page, such as one that goes back or sends a form, without waiting for the next page. */
  leave (script: string): Promise<void>
  /** Presses keys, one after the other. A text is typed. Does not wait for the next page. */
  press (...keys: Array<'Tab' | 'Enter' | { text: string }>): Promise<void>
  close (): Promise<void>
}

/** A browser with an empty profile. */
export interface Browser {
  open (url: string): Promise<Tab>
  close (): Promise<void>
}

export interface Engine {
  readonly name: string
  /** For the options of a test. */
  readonly skip: string | false
  /** The service must use TLS: over plain HTTP, WebKit keeps no cookie with `Secure`, on the loopback interface neither. */
  readonly needsTls: boolean
  /** Starts it for a test. It ends with the test. */
  start (t: Pick<Test, 'teardown'>, options?: { blockCookies?: boolean }): Promise<Browser>
}

/** Runs an expression after the answer to the driver: it may leave the page. */
const later = (expression: string) => `void setTimeout(() => { ${expression} })`

/** A keyboard of playwright-core or puppeteer-core. */
interface Keyboard { press (key: 'Tab' | 'Enter'): Promise<void>, type (text: string): Promise<void> }

const pressOn = (keyboard: Keyboard): Tab['press'] => async (...keys) => {
  for (const key of keys) await (typeof key === 'string' ? keyboard.press(key) : keyboard.type(key.text))
}

/** The reason to skip the tests of an engine. */
function missing (name: string, program: string | undefined, where: string): string | false {
  if (program !== undefined) return false
  const reason = `${name} is missing: install ${where}.`
  if (process.env.CI === 'true') throw new Error(reason)
  return reason
}

const find = (...paths: Array<string | undefined>) => paths.find((path) => path !== undefined && existsSync(path))

const { executablePath, switches }: { executablePath: string | undefined, switches: readonly string[] } = await import(new URL('../../scripts/chromium.js', import.meta.url).href)
const firefoxPath = process.env.FIREFOX_PATH ?? find('/usr/bin/firefox-esr', '/usr/bin/firefox')
const webKitDriverPath = process.env.WEBKIT_DRIVER_PATH ?? find('/usr/bin/WebKitWebDriver')
const xvfbPath = process.env.XVFB_PATH ?? find('/usr/bin/Xvfb')

/**
 * Ends a process and those that it started when the test ends, or the function is called. A test that takes too long is killed, and can
 * end nothing: then the input of this program ends. It is the leader of a group of its own, as the other is, so that no signal reaches it before.
 */
function guard (pid: number | undefined): () => void {
  const guardian = spawn('sh', ['-c', 'read _; kill -KILL -$1 2>/dev/null', 'sh', String(pid)], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
  guardian.unref()
  return () => { guardian.stdin!.end() }
}

/** One process for a test file, and a context for each test. */
let chromiumProcess: Promise<PlaywrightBrowser> | undefined

export const chromium: Engine = {
  name: 'Chromium',
  get skip () { return missing('Chromium', executablePath, 'chromium, or name it in CHROMIUM_PATH') },
  needsTls: false,
  async start (t) {
    // Drivers switch off that pages are restored.
    chromiumProcess ??= playwright.launch({ ...(executablePath && { executablePath }), args: [...switches], ignoreDefaultArgs: ['--disable-back-forward-cache'], chromiumSandbox: false, timeout: 0 })
    const context = await (await chromiumProcess).newContext()
    context.setDefaultTimeout(0)
    t.teardown(async () => await context.close())
    return {
      async open (url) {
        const page = await context.newPage()
        await page.goto(url)
        return {
          evaluate: async (expression) => await page.evaluate(expression),
          goto: async (target) => { await page.goto(target) },
          reload: async () => { await page.reload() },
          leave: async (expression) => await page.evaluate(later(expression)),
          press: pressOn(page.keyboard),
          close: async () => await page.close()
        }
      },
      close: async () => await context.close()
    }
  }
}

let firefoxProcess: Promise<FirefoxBrowser> | undefined

async function launchFirefox (extraPrefsFirefox: Record<string, unknown>): Promise<FirefoxBrowser> {
  // As CommonJS: on Node.js 20, the loader of the test runner does not find a module of it.
  const puppeteer: PuppeteerNode = createRequire(import.meta.url)('puppeteer-core').default
  const browser = await puppeteer.launch({ browser: 'firefox', executablePath: firefoxPath!, headless: true, timeout: 0, protocolTimeout: 0, extraPrefsFirefox })
  guard(browser.process()?.pid)
  return browser
}

export const firefox: Engine = {
  name: 'Firefox',
  get skip () { return missing('Firefox', firefoxPath, 'firefox-esr, or name it in FIREFOX_PATH') },
  needsTls: false,
  async start (t, { blockCookies = false } = {}) {
    // Without cookies, a process of its own. Otherwise a context, which has cookies, storage and channels of its own.
    const browser = blockCookies ? await launchFirefox({ 'network.cookie.cookieBehavior': 2 }) : await (firefoxProcess ??= launchFirefox({}))
    const context = blockCookies ? browser : await browser.createBrowserContext()
    t.teardown(async () => await context.close())
    return {
      async open (url) {
        const page = await context.newPage()
        page.setDefaultTimeout(0)
        await page.goto(url)
        return {
          evaluate: async <Result>(expression: string) => await page.evaluate(expression) as Result,
          goto: async (target) => { await page.goto(target) },
          reload: async () => { await page.reload() },
          leave: async (expression) => { await page.evaluate(later(expression)) },
          press: pressOn(page.keyboard),
          close: async () => await page.close()
        }
      },
      close: async () => await context.close()
    }
  }
}

async function freePort (): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** Sends a command. It rejects when its signal aborts; the driver goes on then. */
type Command = (method: 'GET' | 'POST' | 'DELETE', path: string, body?: object, signal?: AbortSignal) => Promise<any>

/** A session of WebKitWebDriver, of which there is one at a time, and its screen. */
async function openWebKit (): Promise<{ command: Command, close: () => Promise<void> }> {
  const home = mkdtempSync(join(tmpdir(), 'webkit-'))
  const screen = spawn(xvfbPath!, ['-displayfd', '3', '-screen', '0', '1024x768x24', '-nolisten', 'tcp'], { detached: true, stdio: ['ignore', 'ignore', 'ignore', 'pipe'] })
  const endScreen = guard(screen.pid)
  const [display] = await once(screen.stdio[3]!, 'data')
  const port = await freePort()
  const env = { PATH: process.env.PATH, HOME: home, DISPLAY: `:${String(display).trim()}`, NO_AT_BRIDGE: '1', LIBGL_ALWAYS_SOFTWARE: '1', WEBKIT_DISABLE_DMABUF_RENDERER: '1' }
  const driver = spawn(webKitDriverPath!, [`--port=${port}`], { detached: true, stdio: 'ignore', env })
  const endDriver = guard(driver.pid)
  const send: Command = async (method, path, body, signal) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, ...(body && { body: JSON.stringify(body) }), ...(signal && { signal }) })
    const { value } = await response.json() as { value: any }
    if (!response.ok) throw new Error(`${value.error}: ${value.message}`)
    return value
  }
  const close = async () => {
    for (const [program, end] of [[driver, endDriver], [screen, endScreen]] as const) {
      end()
      if (program.exitCode === null && program.signalCode === null) await once(program, 'exit')
    }
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  }
  try {
    for (let tries = 0; await send('GET', '/status').catch(() => undefined) === undefined; tries++) {
      if (tries === 500) throw new Error('WebKitWebDriver does not start.')
      await wait(20)
    }
    const { sessionId } = await send('POST', '/session', { capabilities: { alwaysMatch: { acceptInsecureCerts: true, timeouts: { pageLoad: 60_000 } } } })
    const command: Command = async (method, path, ...rest) => await send(method, `/session/${sessionId}${path}`, ...rest)
    return { command, close: async () => { await command('DELETE', '').catch(() => {}); await close() } }
  } catch (error) {
    await close()
    throw error
  }
}

/**
 * Begins to evaluate. The driver does one thing at a time, so it cannot wait for promises: others may wait for what another tab does.
 * A page that is restored has the results of its time, so they are found by numbers that are never used again.
 */
const begin = `const [number, expression] = arguments
const results = globalThis.webDriverResults ??= {}
results[number] = null
Promise.resolve(expression).then(eval).then((value) => { results[number] = { value } }, (error) => { results[number] = { error: String(error) } })`
const look = "const result = globalThis.webDriverResults?.[arguments[0]]; return result === undefined ? { error: 'The page was left.' } : result"
let evaluations = 0
const setMark = 'globalThis.webDriverLeaves = arguments[0]; setTimeout(() => { eval(arguments[1]) })'
const readMark = 'return globalThis.webDriverLeaves'

export const webKit: Engine = {
  name: 'WebKit',
  get skip () { return missing('WebKit', xvfbPath && webKitDriverPath, 'webkit2gtk-driver and xvfb, or name them in WEBKIT_DRIVER_PATH and XVFB_PATH') },
  needsTls: true,
  async start (t) {
    const { command, close } = await openWebKit()
    t.teardown(close)
    let last: Promise<unknown> = Promise.resolve()
    const inTurn = <Result>(run: () => Promise<Result>): Promise<Result> => {
      const result = last.then(run)
      last = result.catch(() => {})
      return result
    }
    return {
      async open (url) {
        const handle = await inTurn(async () => (await command('POST', '/window/new', { type: 'tab' })).handle)
        const here: Command = async (...given) => await inTurn(async () => {
          await command('POST', '/window', { handle })
          return await command(...given)
        })
        const goto = async (target: string) => { await here('POST', '/url', { url: target }) }
        const evaluate = async <Result>(expression: string): Promise<Result> => {
          const number = evaluations++
          await here('POST', '/execute/sync', { script: begin, args: [number, expression] })
          for (;;) {
            const result = await here('POST', '/execute/sync', { script: look, args: [number] })
            if (result?.error !== undefined) throw new Error(result.error)
            if (result) return result.value
            await wait(10)
          }
        }
        // Where a page is kept for Back while a script of the driver runs, the driver never gets the result.
        const leave = async (expression: string) => {
          const number = evaluations++
          await here('POST', '/execute/sync', { script: setMark, args: [number, expression] })
          for (;;) {
            const mark = await here('POST', '/execute/sync', { script: readMark, args: [] }, AbortSignal.timeout(2000)).catch(() => number)
            if (mark !== number) return
            await wait(10)
          }
        }
        const press: Tab['press'] = async (...keys) => {
          // The keys of WebDriver, section 17.4.2.
          const values = keys.flatMap((key) => typeof key === 'string' ? [{ Tab: '\uE004', Enter: '\uE007' }[key]] : [...key.text])
          const actions = values.flatMap((value) => [{ type: 'keyDown', value }, { type: 'keyUp', value }])
          await here('POST', '/actions', { actions: [{ type: 'key', id: 'keyboard', actions }] })
        }
        await goto(url)
        return { evaluate, goto, leave, press, reload: async () => { await here('POST', '/refresh', {}) }, close: async () => { await here('DELETE', '/window') } }
      },
      close
    }
  }
}

/** Ends what the tests of a file share. */
export async function endEngines (): Promise<void> {
  await (await chromiumProcess)?.close()
  await (await firefoxProcess)?.close()
}

/** A key and its certificate, which nobody trusts, for the options of a server. Node.js reads certificates, but makes none. */
export function certificate (): { key: string, cert: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const der = (tag: number, ...parts: Buffer[]): Buffer => {
    const content = Buffer.concat(parts)
    const { length } = content
    return Buffer.concat([Buffer.from(length < 128 ? [tag, length] : [tag, 0x82, length >> 8, length & 0xff]), content])
  }
  const text = (tag: number, value: string) => der(tag, Buffer.from(value))
  const [sequence, set, integer, bits, oid, utf8, time] = [0x30, 0x31, 0x02, 0x03, 0x06, 0x0c, 0x17] as const
  const algorithm = der(sequence, der(oid, Buffer.from('2a8648ce3d040302', 'hex')))
  const name = der(sequence, der(set, der(sequence, der(oid, Buffer.from('550403', 'hex')), text(utf8, 'localhost'))))
  const content = der(sequence, der(integer, Buffer.from([1])), algorithm, name,
    der(sequence, text(time, '200101000000Z'), text(time, '491231000000Z')), name, publicKey.export({ type: 'spki', format: 'der' }))
  const signed = der(sequence, content, algorithm, der(bits, Buffer.from([0]), sign('sha256', content, privateKey)))
  const lines = signed.toString('base64').match(/.{1,64}/g)!.join('\n')
  return { key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n` }
}
