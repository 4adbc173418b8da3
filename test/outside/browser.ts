/** Headless Chromium for tests, found by scripts/chromium.js. Without it they are skipped; in CI that is an error. */
import type { Browser } from 'playwright-core'
import type { Test } from 'tap'

interface Chromium {
  executablePath: string | undefined
  launchChromium: (...more: string[]) => Promise<Browser>
}

const { executablePath, launchChromium }: Chromium = await import(new URL('../../scripts/chromium.js', import.meta.url).href)
const isMissing = executablePath === undefined
if (isMissing && process.env.CI === 'true') throw new Error('Chromium is missing: install it, or name it in CHROMIUM_PATH.')

/** For the options of a test. */
export const skip = isMissing && 'Chromium is missing: install it, or name it in CHROMIUM_PATH, to run the tests that need a browser.'

/**
 * The browser of a test file: started when it is asked for first, closed when the tests end.
 * @param more further switches of its command line
 */
export function openBrowser (t: Pick<Test, 'teardown'>, ...more: string[]): () => Promise<Browser> {
  let browser: Promise<Browser> | undefined
  t.teardown(async () => (await browser)?.close())
  return () => {
    browser ??= launchChromium(...more)
    return browser
  }
}
