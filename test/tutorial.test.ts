// @slow
/**
 * docs/tutorial.md, word for word: its commands run in an empty folder, its files are written there, and its pages are opened
 * in Chromium. Only two things differ: the port, and `npm install`, which links what it would fetch.
 */
import { execFile, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { BrowserContext, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { openBrowser, skip as noBrowser } from './browser.ts'

const isMissing = spawnSync('curl', ['--version']).error !== undefined || process.platform === 'win32'
if (isMissing && process.env.CI === 'true') throw new Error('The commands of the tutorial require bash and curl.')
const skip = isMissing && 'The commands of the tutorial require bash and curl.'

const root = fileURLToPath(new URL('..', import.meta.url))
const { name, bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

const base = mkdtempSync(join(realpathSync(tmpdir()), 'tutorial-'))
/** Nothing of the test runner, and no configuration of npm. */
const env = { PATH: dirname(process.execPath) + delimiter + process.env.PATH, HOME: base, npm_config_update_notifier: 'false' }

/** A port that was free a moment ago. The tutorial has a fixed one, which another program may use. */
async function freePort (): Promise<number> {
  const server = createServer().listen(0, 'localhost')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('There is no port.')
  return address.port
}

const port = await freePort()
const address = `http://localhost:${port}`
const tutorial = readFileSync(join(root, 'docs/tutorial.md'), 'utf8').replace(/\b3000\b/g, String(port))

type Step = { line: string } | { language: string, code: string }

/** The lines and blocks of each chapter that has blocks. */
const chapters = new Map<string, Step[]>()
for (const chapter of tutorial.split(/^## /m)) {
  const [title = ''] = chapter.split('\n', 1)
  const steps = Array.from(chapter.matchAll(/^```(\w+)\n([\s\S]*?)^```$|^(.+)$/gm), ([, language, code = '', line = '']): Step => language === undefined ? { line } : { language, code })
  if (steps.some((step) => 'code' in step)) chapters.set(title, steps)
}

let folder = base
let output = ''
let service: ChildProcess | undefined

/** As `npm install` does, with what this repository has. */
const link = (packages: string) => ['mkdir -p node_modules/.bin', ...packages.split(' ').flatMap((one) => one === name
  ? [`ln -s '${root}' node_modules/${one}`, ...Object.entries(bin).map(([command, file]) => `ln -s '${root}${String(file)}' node_modules/.bin/${command}`)]
  : [`ln -s '${join(root, 'node_modules', one)}' node_modules/${one}`])].join('\n')

async function stopService (): Promise<void> {
  const running = service
  service = undefined
  if (running?.pid === undefined || running.exitCode !== null) return
  const ended = once(running, 'exit')
  // Ctrl-C reaches npm and what it has started.
  process.kill(-running.pid, 'SIGINT')
  await ended
}

async function startService (): Promise<void> {
  await stopService()
  const started = spawn('npm', ['start'], { cwd: folder, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  service = started
  // A warning of the package or of Node.js would puzzle a reader. Those of npm are about its own configuration.
  createInterface({ input: started.stderr }).on('line', (line) => { if (!line.startsWith('npm ')) t.fail(`the service prints no warnings: ${line}`) })
  for await (const line of createInterface({ input: started.stdout })) if (line === `Open ${address} in a browser.`) return
  throw new Error('The service of the tutorial did not start.')
}

t.teardown(async () => {
  await stopService()
  rmSync(base, { recursive: true, force: true })
})

async function execute (code: string): Promise<void> {
  if (code === 'npm start\n') return await startService()
  const commands = code.replace(/^npm install (.+)$/m, (_, packages: string) => link(packages))
  const { stdout } = await promisify(execFile)('bash', ['-e', '-o', 'pipefail', '-c', commands], { cwd: folder, env })
  output = stdout
  const [, entered = '.'] = /^cd (\S+)$/m.exec(code) ?? []
  folder = join(folder, entered)
}

/** Replaces the lines of a diff that are there by those that are to be there. */
function change (file: string, diff: string): void {
  const path = join(folder, file)
  const text = readFileSync(path, 'utf8')
  const linesOf = (sign: string) => diff.split(/(?<=\n)/).filter((line) => line.startsWith(' ') || line.startsWith(sign)).map((line) => line.slice(1)).join('')
  const [before = '', after, ...more] = text.split(linesOf('-'))
  if (after === undefined || more.length > 0) throw new Error(`These lines are not in ${file} exactly once:\n${diff}`)
  writeFileSync(path, before + linesOf('+') + after)
}

/** Does what a chapter says. */
async function follow (t: Test, title: string): Promise<void> {
  const steps = chapters.get(title)
  if (steps === undefined) throw new Error(`The tutorial has no chapter "${title}" with blocks.`)
  chapters.delete(title)
  let file = ''
  for (const step of steps) {
    if ('line' in step) {
      const [, made, changed] = /^(?:Create|Replace) `([^`]+)`:$|^In `([^`]+)`, .+:$/.exec(step.line) ?? []
      file = made ?? changed ?? file
      // Where a block follows, the block starts it.
      if (/^Start the service(?!, and leave it running:)/.test(step.line)) await startService()
    } else if (step.language === 'sh') {
      await execute(step.code)
    } else if (step.language === 'json') {
      t.equal(output.replaceAll('\n', ''), step.code.replaceAll('\n', ''), 'the service answers what the tutorial says')
    } else if (step.language === 'diff') {
      change(file, step.code)
    } else {
      const path = join(folder, file)
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, step.code)
    }
  }
}

const browser = openBrowser(t)
let context: BrowserContext
let page: Page

/** Waits until the page shows a text, and nothing else in this place. */
const shows = (selector: string, text: string) => page.waitForFunction(`document.querySelector('${selector}')?.textContent === '${text}'`)
async function logIn (user: string, password: string): Promise<void> {
  await page.getByLabel('Name').fill(user)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Log in' }).click()
}
async function add (note: string): Promise<void> {
  await page.getByLabel('New note').fill(note)
  await page.getByRole('button', { name: 'Add' }).click()
}
const isAt = (path: string) => page.waitForURL(address + path)
const logOut = () => page.getByRole('button', { name: 'Log out' }).click()

t.test('chapters 1 to 3 lead from an empty folder to a service that refuses strangers and answers who has logged in', { skip }, async (t) => {
  await follow(t, '1. An empty folder')
  t.match(readFileSync(join(folder, '.env'), 'utf8'), /^SERVICE_JWT_SECRET=[\w-]{43,}\n$/)
  await follow(t, '2. Users')
  await follow(t, '3. A login and a protected route')
})

t.test('chapter 4: the files give a service that starts without a warning', { skip }, async (t) => {
  await follow(t, '4. A protected page')
})

t.test('chapter 4: the browser shows the login page first, says that a password is wrong, and shows the notes after the login', { skip: skip || noBrowser }, async (t) => {
  context = await (await browser()).newContext()
  context.setDefaultTimeout(0)
  page = await context.newPage()
  page.on('pageerror', (error) => t.fail('no script of a page fails', { error }))
  await page.goto(address)
  t.equal(page.url(), `${address}/login.html`)
  await logIn('ada', 'hopper')
  await shows('[role=alert]', 'Wrong name or password.')
  await logIn('ada', 'lovelace')
  await isAt('/')
  await shows('ul', 'Buy milk')
  t.equal(await page.evaluate('document.cookie'), '', 'scripts cannot read the cookies')
})

t.test('chapter 5: a reader reads and does not write', { skip }, async (t) => {
  await follow(t, '5. Roles')
})

t.test('chapter 6: the changes of the files give a service that starts without a warning', { skip }, async (t) => {
  await follow(t, '6. Sessions and logout')
})

t.test('chapter 6: the token of chapter 4 is not enough, ada adds a note and stays logged in, and grace cannot add one', { skip: skip || noBrowser }, async () => {
  await page.goto(address)
  await shows('[role=alert]', 'Your role does not allow this.')
  await logOut()
  await isAt('/login.html')

  await logIn('ada', 'lovelace')
  await isAt('/')
  await add('Call Joan')
  await shows('ul', 'Buy milkCall Joan')
  // As if the access token had expired: the page renews it, and so does the login page.
  await context.clearCookies({ name: '__Host-access_token' })
  await add('Feed the cat')
  await shows('ul', 'Buy milkCall JoanFeed the cat')
  await context.clearCookies({ name: '__Host-access_token' })
  await page.goto(address)
  await isAt('/')
  await shows('ul', 'Buy milkCall JoanFeed the cat')
  await logOut()
  await isAt('/login.html')

  await logIn('grace', 'hopper')
  await isAt('/')
  await shows('ul', 'Buy milkCall JoanFeed the cat')
  await add('Sell milk')
  await shows('[role=alert]', 'Your role does not allow this.')
})

t.test('chapter 6: a logout in one tab sends the other to the login page, and the back button shows no notes', { skip: skip || noBrowser }, async () => {
  const other = await context.newPage()
  await other.goto(address)
  await logOut()
  await isAt('/login.html')
  await other.waitForURL(`${address}/login.html`)
  await page.goBack()
  await isAt('/login.html')
  await context.close()
})

t.test('chapter 7: the tests pass, and fail when somebody changes who may use a route', { skip }, async (t) => {
  await stopService()
  await follow(t, '7. Tests')
  t.match(output, /^# pass 6\n# fail 0$/m)
  const path = join(folder, 'app.js')
  writeFileSync(path, readFileSync(path, 'utf8').replace("auth.scoped('notes:write')", 'auth.protect()'))
  const failure = await execute('npm test').catch((error: unknown) => error)
  t.match(failure, { stdout: /^not ok \d+ - who may use which route$/m })
})

t.test('no chapter of the tutorial was left out', { skip }, async (t) => {
  t.same([...chapters.keys()], [])
})
