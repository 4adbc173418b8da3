// @alone
/**
 * docs/tutorial.md and the page in JavaScript that is made of it, word for word: their commands run in empty folders, their
 * files are written there, and their pages are opened in Chromium. Only two things differ: the port, and `npm install`, which
 * links what it would fetch. On Node.js 20, which does not run TypeScript, the hook of the tests does.
 */
import { execFile, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { openBrowser, skip as noBrowser } from './browser.ts'

const isMissing = spawnSync('curl', ['--version']).error !== undefined || process.platform === 'win32'
if (isMissing && process.env.CI === 'true') throw new Error('The commands of the tutorial require bash and curl.')
const skip = isMissing && 'The commands of the tutorial require bash and curl.'

const root = fileURLToPath(new URL('../..', import.meta.url))
const { name, bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

// Node.js 20 has no such feature, and its types have none.
const runsTypeScript = Boolean(Reflect.get(process.features, 'typescript'))

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

type Step = { line: string } | { language: string, code: string }

/** As `npm install` does, with what this repository has. */
const link = (packages: string) => ['mkdir -p node_modules/.bin node_modules/@types', ...packages.split(' ').flatMap((one) => {
  if (one === name) return [`ln -s '${root}' node_modules/${one}`, ...Object.entries(bin).map(([command, file]) => `ln -s '${root}${String(file)}' node_modules/.bin/${command}`)]
  // The compiler that takes a tenth of the time. It does not start under the hook.
  const command = one === 'typescript' ? [`printf '#!/bin/sh\\nNODE_OPTIONS= exec ${join(root, 'node_modules/typescript-7/bin/tsc')} "$@"\\n' >node_modules/.bin/tsc`, 'chmod +x node_modules/.bin/tsc'] : []
  return [`ln -s '${join(root, 'node_modules', one)}' node_modules/${one}`, ...command]
})].join('\n')

/** Somebody who does what a tutorial says, in a folder of its own. */
async function readerOf (path: string) {
  const base = mkdtempSync(join(realpathSync(tmpdir()), 'tutorial-'))
  /** Nothing of the test runner, and no configuration of npm. */
  const env = {
    PATH: dirname(process.execPath) + delimiter + process.env.PATH,
    HOME: base,
    npm_config_update_notifier: 'false',
    ...(!runsTypeScript && { NODE_OPTIONS: `--require=${join(root, 'test/typescript.cjs')}` })
  }
  const port = await freePort()
  const address = `http://localhost:${port}`

  /** The lines and blocks of each chapter that has blocks. */
  const chapters = new Map<string, Step[]>()
  for (const chapter of readFileSync(join(root, path), 'utf8').replace(/\b3000\b/g, String(port)).replace(/<!-- JavaScript:[^]*?-->/g, '').split(/^## /m)) {
    const [title = ''] = chapter.split('\n', 1)
    const steps = Array.from(chapter.matchAll(/^```(\w+)\n([\s\S]*?)^```$|^(.+)$/gm), ([, language, code = '', line = '']): Step => language === undefined ? { line } : { language, code })
    if (steps.some((step) => 'code' in step)) chapters.set(title, steps)
  }

  let folder = base
  let output = ''
  let service: ChildProcess | undefined

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
    createInterface({ input: started.stderr }).on('line', (line) => {
      if (!line.startsWith('npm ') && runsTypeScript) t.fail(`the service prints no warnings: ${line}`)
    })
    for await (const line of createInterface({ input: started.stdout })) if (line === address) return
    throw new Error('The service of the tutorial did not start.')
  }

  async function execute (code: string): Promise<void> {
    if (code === 'npm start\n') return await startService()
    const commands = code.replace(/^npm install (?:--save-dev )?(.+)$/gm, (_, packages: string) => link(packages))
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
    let file: string | undefined
    let isNew = false
    for (const step of steps) {
      if ('line' in step) {
        const [, made, changed] = /^Create `([^`]+)`:$|^In `([^`]+)`, .+:$/.exec(step.line) ?? []
        file = made ?? changed ?? file
        isNew = made !== undefined
        // Where a block follows, the block starts it.
        if (/^Start the service(?!, and leave it running:)/.test(step.line)) await startService()
      } else if (step.language === 'sh') {
        await execute(step.code)
      } else if (file !== undefined && step.language === 'diff') {
        change(file, step.code)
      } else if (file !== undefined && isNew) {
        writeFileSync(join(folder, file), step.code)
        isNew = false
      } else {
        t.equal(step.language, 'json')
        t.equal(output.replaceAll('\n', ''), step.code.replaceAll('\n', ''), 'the service answers what the tutorial says')
      }
    }
  }

  t.teardown(async () => {
    await stopService()
    rmSync(base, { recursive: true, force: true })
  })
  return {
    address,
    chapters,
    follow,
    execute,
    stopService,
    read: (file: string) => readFileSync(join(folder, file), 'utf8'),
    write: (file: string, text: string) => writeFileSync(join(folder, file), text),
    output: () => output
  }
}

const browser = openBrowser(t)

for (const [language, path] of [['TypeScript', 'docs/tutorial.md'], ['JavaScript', 'docs/site/tutorial-javascript.md']] as const) {
  t.test(`the tutorial in ${language}`, { skip }, async (t) => {
    const reader = await readerOf(path)
    const { address, follow } = reader
    const end = language === 'TypeScript' ? 'ts' : 'js'

    await t.test('chapters 1 to 4 lead from an empty folder to a service that refuses strangers, answers who has logged in, and lets a reader not write', async (t) => {
      await follow(t, '1. An empty folder')
      t.match(reader.read('.env'), /^SERVICE_JWT_SECRET=[\w-]{43,}\n$/)
      await follow(t, '2. Users')
      await follow(t, '3. A login and a protected route')
      await follow(t, '4. Roles')
    })

    await t.test('the files of chapters 5 and 6 give a service that starts without a warning', async (t) => {
      await follow(t, '5. Sessions in cookies')
      await follow(t, '6. Pages')
    })

    await t.test('the browser shows the login page first, says that a password is wrong, keeps ada logged in while she adds notes, and grace cannot add one', { skip: noBrowser }, async (t) => {
      const context = await (await browser()).newContext()
      t.teardown(() => context.close())
      context.setDefaultTimeout(0)
      const page = await context.newPage()
      page.on('pageerror', (error) => t.fail('no script of a page fails', { error }))
      /** Waits until the page shows a text, and nothing else in this place. */
      const shows = (selector: string, text: string) => page.waitForFunction(`document.querySelector('${selector}')?.textContent === ${JSON.stringify(text)}`)
      const isAt = (where: string) => page.waitForURL(address + where)
      const logOut = () => page.getByRole('button', { name: 'Log out' }).click()
      const logIn = async (user: string, password: string) => {
        await page.getByLabel('Name').fill(user)
        await page.getByLabel('Password').fill(password)
        await page.getByRole('button', { name: 'Log in' }).click()
      }
      const add = async (note: string) => {
        await page.getByLabel('New note').fill(note)
        await page.getByRole('button', { name: 'Add' }).click()
      }

      await page.goto(address)
      t.equal(page.url(), `${address}/login.html`)
      await logIn('ada', 'hopper')
      await shows('[role=alert]', 'Wrong name or password.')
      await logIn('ada', 'lovelace')
      await isAt('/')
      await shows('pre', 'Buy milk')
      t.equal(await page.evaluate('document.cookie'), '', 'scripts cannot read the cookies')
      await add('Call Joan')
      await shows('pre', 'Buy milk\nCall Joan')
      // As if the access token had expired: the script renews it, and so does the guard of the page.
      await context.clearCookies({ name: '__Host-access_token' })
      await add('Feed the cat')
      await shows('pre', 'Buy milk\nCall Joan\nFeed the cat')
      await context.clearCookies({ name: '__Host-access_token' })
      t.equal((await page.goto(address))?.status(), 200)
      t.equal(page.url(), `${address}/`)
      await shows('pre', 'Buy milk\nCall Joan\nFeed the cat')
      await logOut()
      await isAt('/login.html')

      await logIn('grace', 'hopper')
      await isAt('/')
      await shows('pre', 'Buy milk\nCall Joan\nFeed the cat')
      await add('Sell milk')
      await shows('[role=alert]', 'Your role does not allow this.')

      const other = await context.newPage()
      await other.goto(address)
      await logOut()
      await isAt('/login.html')
      await other.waitForURL(`${address}/login.html`)
      await page.goBack()
      await isAt('/login.html')
    })

    await t.test('the tests pass, and fail when somebody opens a route', async (t) => {
      await reader.stopService()
      await follow(t, '7. Tests')
      t.match(reader.output(), /^# pass 3\n# fail 0$/m)
      const app = reader.read(`app.${end}`)
      reader.write(`app.${end}`, app.replace("auth.scoped('notes:write')", 'auth.protect()'))
      t.match(await reader.execute('npm test').catch((error: unknown) => error), { stdout: /^not ok \d+ - a reader does not write$/m })
      reader.write(`app.${end}`, app.replace("{ onRequest: auth.scoped('notes:write'), schema }", '{ schema }'))
      t.match(await reader.execute('npm test').catch((error: unknown) => error), { stdout: /these routes have no guard/ })
    })

    if (language === 'TypeScript') {
      await t.test('the code is strict TypeScript', async (t) => {
        reader.write('wrong.ts', "import { findUser } from './users.ts'\nexport const wrong: number = findUser(1)?.role\n")
        t.match(await reader.execute('npx tsc').catch((error: unknown) => error), { stdout: /^wrong\.ts\(2,14\): error TS2322/m }, 'an error would be noticed')
      })
    }

    t.same([...reader.chapters.keys()], [], 'no chapter was left out')
  })
}
