/** Headless Chromium for scripts and tests: found in the usual places, or named in CHROMIUM_PATH. */
import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'

export const executablePath = process.env.CHROMIUM_PATH ??
  ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path))

export const switches = ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']

/**
 * Starts it. Its profile is an empty folder, made anew and removed at the end.
 * @param {...string} more further switches of its command line
 */
export const launchChromium = (...more) => chromium.launch({
  executablePath,
  args: [...more, ...switches],
  chromiumSandbox: false,
  timeout: 0
})
