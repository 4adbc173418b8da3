/** Headless Chromium for scripts and tests: found in the usual places, or named in CHROMIUM_PATH and CHROMIUM_SHELL_PATH. */
import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'

export const executablePath = process.env.CHROMIUM_PATH ??
  ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path))

/**
 * Chromium without what surrounds a page, which playwright starts for pages without windows, too: half of the processor time.
 * It does not block the cookies of other sites. Without it, Chromium itself.
 */
export const shellPath = process.env.CHROMIUM_SHELL_PATH ??
  ['/usr/bin/chromium-headless-shell'].find((path) => existsSync(path)) ?? executablePath

export const switches = ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']

const launch = (executablePath, more) => chromium.launch({ executablePath, args: [...more, ...switches], chromiumSandbox: false, timeout: 0 })

/**
 * Starts it. Its profile is an empty folder, made anew and removed at the end.
 * @param {...string} more further switches of its command line
 */
export const launchChromium = (...more) => launch(executablePath, more)

/** The same, without what surrounds a page. */
export const launchShell = () => launch(shellPath, [])
