/** Headless Chromium for tests, found by scripts/chromium.js. Without it they are skipped; in CI that is an error. */
import type { Browser } from 'playwright-core'
import type { Test } from 'tap'

interface Chromium {
  executablePath: string | undefined
  launchChromium: (...more: string[]) => Promise<Browser>
  launchShell: () => Promise<Browser>
}

const { executablePath, launchChromium, launchShell }: Chromium = await import(new URL('../../scripts/chromium.js', import.meta.url).href)
const isMissing = executablePath === undefined
if (isMissing && process.env.CI === 'true') throw new Error('Chromium is missing: install it, or name it in CHROMIUM_PATH.')

/** For the options of a test. */
export const skip = isMissing && 'Chromium is missing: install it, or name it in CHROMIUM_PATH, to run the tests that need a browser.'

/** Started when it is asked for first, closed when the tests end. */
function opened (t: Pick<Test, 'teardown'>, launch: () => Promise<Browser>): () => Promise<Browser> {
  let browser: Promise<Browser> | undefined
  t.teardown(async () => (await browser)?.close())
  return () => {
    browser ??= launch()
    return browser
  }
}

/** The browser of a test file whose pages are the matter: started when it is asked for first, closed when the tests end. */
export const openBrowser = (t: Pick<Test, 'teardown'>) => opened(t, launchShell)

/**
 * The browser of a test file that tests what Chromium itself does, such as with cookies and with pages that it keeps.
 * @param more further switches of its command line
 */
export const openChromium = (t: Pick<Test, 'teardown'>, ...more: string[]) => opened(t, () => launchChromium(...more))
