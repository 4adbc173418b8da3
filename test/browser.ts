/** Headless Chromium for tests: found by itself or named in CHROMIUM_PATH. Without it they are skipped; in CI that is an error. */
import { existsSync } from 'node:fs'
import { chromium, type Browser } from 'playwright-core'
import type { Test } from 'tap'

const executablePath = process.env.CHROMIUM_PATH ??
  ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path))
const isMissing = executablePath === undefined
if (isMissing && process.env.CI === 'true') throw new Error('Chromium is missing: install it, or name it in CHROMIUM_PATH.')

/** For the options of a test. */
export const skip = isMissing && 'Chromium is missing: install it, or name it in CHROMIUM_PATH, to run the tests that need a browser.'

/** The browser of a test file: started when it is asked for first, closed when the tests end. */
export function openBrowser (t: Pick<Test, 'teardown'>): () => Promise<Browser> {
  const args = ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']
  let browser: Promise<Browser> | undefined
  t.teardown(async () => (await browser)?.close())
  // Its profile is an empty folder, made anew and removed at the end.
  return () => {
    browser ??= chromium.launch({ ...(executablePath !== undefined && { executablePath }), args, chromiumSandbox: false, timeout: 0 })
    return browser
  }
}
