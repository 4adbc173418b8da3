import { execFile } from 'node:child_process'
import { accessSync, chmodSync, constants, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { host, listen } from '../helper.ts'

/** The release script, the workflows, and the npm settings of the repository. */

const run = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const manifest = JSON.parse(read('package.json'))
// Leaves out the variables of a CI, from which npm would make a provenance, and the npm settings of the machine.
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(?:npm_|GIT|ACTIONS_|RUNNER_|CI)/i.test(name)))

interface Workflow {
  on: { push: { branches?: string[], tags?: string[] } }
  permissions: Record<string, string>
  concurrency?: Record<string, unknown>
  jobs: Record<string, {
    needs?: string
    'runs-on'?: string
    environment?: string
    permissions?: Record<string, string>
    strategy?: { matrix: Record<string, unknown> }
    steps: { uses?: string, run?: string, with?: Record<string, unknown> }[]
  }>
}
const workflow = (name: string): Workflow => parse(read(`.github/workflows/${name}.yml`))
const commandsOf = ({ steps }: Workflow['jobs'][string] = { steps: [] }) => steps.flatMap(({ run = [] }) => run)
const stepOf = (job: Workflow['jobs'][string] | undefined, action: string) => job?.steps.find(({ uses }) => uses?.startsWith(`actions/${action}@`))?.with
/** The one command with which the workflow publishes. */
const [publishCommand = ''] = commandsOf(workflow('release').jobs.publish)

/** A package that is ready for release, in its own repository, and a registry that records the methods of its requests. */
async function makeRelease (t: Test) {
  const asked: string[] = []
  const registry = host(t)
  registry.addHook('onRequest', async ({ method }) => { asked.push(method) })
  const port = await listen(registry)
  const folder = t.testdir({
    'package.json': JSON.stringify({
      name: 'released',
      version: '1.2.3',
      repository: { type: 'git', url: 'git+https://git.example/released.git' },
      publishConfig: manifest.publishConfig,
      scripts: { build: 'echo built', prepack: 'echo prepack', prepublishOnly: 'echo prepublish' }
    }),
    'CHANGELOG.md': '# Changelog\n\n## [1.2.3] - 2026-01-31\n\n### Added\n\n- All.\n',
    '.npmrc': `registry=http://127.0.0.1:${port}/\n//127.0.0.1:${port}/:_authToken=none\n`,
    '.gitignore': '*.tgz\n',
    '.ci': { run: '#!/bin/sh\necho checked\n' }
  })
  chmodSync(join(folder, '.ci/run'), 0o755)
  const git = (...args: string[]) => run('git', ['-c', 'user.name=t', '-c', 'user.email=t@t.example', ...args], { cwd: folder, env: environment })
  await git('init', '--quiet', '--initial-branch', 'main')
  const commit = async () => {
    await git('add', '--all')
    await git('commit', '--quiet', '--no-gpg-sign', '--message', 'Release')
    await git('tag', '--force', 'v1.2.3')
  }
  await commit()
  const execute = async (command: string, ...args: string[]) => {
    const result: { code?: unknown, stdout: string, stderr: string } = await run(command, args, { cwd: folder, env: environment }).catch((error) => error)
    return { code: 0, ...result }
  }
  const release = (...args: string[]) => execute(process.execPath, join(root, 'scripts/release.js'), ...args)
  const publish = (...args: string[]) => execute('sh', '-c', [publishCommand, ...args].join(' '))
  return { folder, tarball: join(folder, 'released-1.2.3.tgz'), git, commit, release, publish, asked }
}

t.test('a release that is ready is checked, built and packed, and not published', async (t) => {
  const { tarball, git, release, asked } = await makeRelease(t)
  const { code, stdout, stderr } = await release()
  t.equal(code, 0, stderr)
  t.match(stdout, /^checked$[\s\S]*^built$[\s\S]*^released-1\.2\.3\.tgz$/m, '.ci/run, the build, the tarball')
  t.notMatch(stdout, /^prepack$/m, 'no other script runs')
  t.ok(existsSync(tarball))
  t.strictSame(asked, [], 'the registry was not asked for anything')

  // The workflow checks out the tag and has only the remote branch. The tarball of the first run still exists.
  await git('update-ref', 'refs/remotes/origin/main', 'HEAD')
  await git('checkout', '--quiet', '--detach')
  await git('branch', '--quiet', '--delete', '--force', 'main')
  t.equal((await release()).code, 0)
  t.strictSame(asked, [])
})

t.test('the workflow publishes the packed tarball without running scripts, and with provenance or not at all', async (t) => {
  const { release, publish, asked } = await makeRelease(t)
  t.not((await publish()).code, 0, 'there is no tarball')
  t.equal((await release()).code, 0)

  const dryRun = await publish('--dry-run')
  t.equal(dryRun.code, 0, dryRun.stderr)
  t.match(dryRun.stdout, /^\+ released@1\.2\.3$/m)
  t.match(dryRun.stderr, /with tag latest and public access \(dry-run\)/)
  t.notMatch(dryRun.stdout, /^prep/m, 'no script runs')

  const { code, stderr } = await publish()
  t.equal(code, 1)
  t.match(stderr, /provenance generation not supported/, 'only a CI can say where a package comes from')
  t.notOk(asked.includes('PUT'))
  t.match(publishCommand, / --ignore-scripts --provenance /, 'whatever the tarball says')
  t.strictSame(manifest.publishConfig, { access: 'public', provenance: true }, 'for who publishes by hand')
})

t.test('a release is refused while anything is not ready, before its checks run', async (t) => {
  type Release = Awaited<ReturnType<typeof makeRelease>>
  const edit = ({ folder, commit }: Release, file: string, from: string, to: string) => {
    const path = join(folder, file)
    writeFileSync(path, readFileSync(path, 'utf8').replace(from, to))
    return commit()
  }
  const cases: { title: string, condition: string, spoil: (release: Release) => unknown }[] = [
    { title: 'a file that is not committed', condition: 'The working tree is clean.', spoil: ({ folder }) => writeFileSync(join(folder, 'new.js'), '') },
    {
      title: 'another branch',
      condition: 'The commit is on main.',
      spoil: async ({ git, commit, folder }) => {
        await git('checkout', '--quiet', '-b', 'other')
        writeFileSync(join(folder, 'new.js'), '')
        await commit()
      }
    },
    {
      title: 'the tag of another version',
      condition: 'The commit has the tag v1.2.3.',
      spoil: async ({ git }) => {
        await git('tag', 'v1.2.30')
        await git('tag', '--delete', 'v1.2.3')
      }
    },
    {
      title: 'a change log without the version',
      condition: 'CHANGELOG.md has a section "## [1.2.3]" with a date.',
      spoil: (release) => edit(release, 'CHANGELOG.md', '1.2.3', '1.2.2')
    },
    {
      title: 'a change log without the date',
      condition: 'CHANGELOG.md has a section "## [1.2.3]" with a date.',
      spoil: (release) => edit(release, 'CHANGELOG.md', '2026-01-31', 'soon')
    },
    {
      title: 'no repository',
      condition: 'package.json has the repository, which npm compares with the provenance.',
      spoil: (release) => edit(release, 'package.json', '"repository"', '"source"')
    }
  ]
  for (const { title, condition, spoil } of cases) {
    await t.test(title, async (t) => {
      const release = await makeRelease(t)
      await spoil(release)
      const { code, stdout } = await release.release()
      t.equal(code, 1)
      t.strictSame(stdout.split('\n').filter((line) => line.startsWith('NO')), [`NO  ${condition}`])
      t.notMatch(stdout, /^checked$/m)
      t.notOk(existsSync(release.tarball))
    })
  }

  await t.test('an option that does not exist', async (t) => {
    const { release, tarball } = await makeRelease(t)
    t.equal((await release('--dry-run')).code, 1)
    t.notOk(existsSync(tarball))
  })
})

t.test('a release whose checks or build fail is not packed', async (t) => {
  const failing = await makeRelease(t)
  writeFileSync(join(failing.folder, '.ci/run'), '#!/bin/sh\necho checked\nexit 1\n')
  await failing.commit()
  const { code, stdout } = await failing.release()
  t.equal(code, 1)
  t.match(stdout, /^checked$/m)
  t.notMatch(stdout, /^built$/m)
  t.notOk(existsSync(failing.tarball))

  const broken = await makeRelease(t)
  const path = join(broken.folder, 'package.json')
  writeFileSync(path, readFileSync(path, 'utf8').replace('echo built', 'exit 1'))
  await broken.commit()
  t.equal((await broken.release()).code, 1)
  t.notOk(existsSync(broken.tarball))
})

t.test('the change log is in the form of Keep a Changelog', async (t) => {
  const [title, ...sections] = read('CHANGELOG.md').split(/^(?=## )/m)
  t.match(title, /^# Changelog\n/)
  const headings = sections.map((section) => section.split('\n', 1)[0] ?? '')
  t.match(headings[0], `## [${manifest.version}] - `)
  for (const heading of headings) {
    const [, date = ''] = /^## \[\d+\.\d+\.\d+(?:-[\w.]+)?\] - (\d{4}-\d{2}-\d{2})$/.exec(heading) ?? []
    t.equal(new Date(date).toISOString().slice(0, 10), date, heading)
  }
  const dates = headings.map((heading) => heading.slice(-10))
  t.strictSame(dates, [...dates].sort().reverse(), 'the latest comes first')
  for (const kind of read('CHANGELOG.md').match(/^### .*$/gm) ?? []) t.match(kind, /^### (?:Added|Changed|Deprecated|Removed|Fixed|Security)$/)
})

t.test('the workflow of each change has jobs for quality, versions of Node.js, systems, and browsers and stores; it may only read, and a newer run cancels it', async (t) => {
  const { on, permissions, concurrency, jobs } = workflow('ci')
  t.strictSame(Object.keys(on), ['push', 'pull_request'])
  t.strictSame(permissions, { contents: 'read' })
  t.match(concurrency, { group: /github\.ref/, 'cancel-in-progress': true })
  const { quality, unit, package: packed, outside, ...others } = jobs
  t.strictSame(others, {})
  t.strictSame(unit?.strategy?.matrix, { 'node-version': [20, 22, 24, 26] })
  t.match(stepOf(unit, 'setup-node')?.['node-version'], /matrix\.node-version/)
  t.strictSame(packed?.strategy?.matrix, { os: ['ubuntu-latest', 'macos-latest', 'windows-latest'] })
  t.match(packed?.['runs-on'], /matrix\.os/)

  const commands = [quality, unit, packed, outside].flatMap(commandsOf)
  const scripts = commands.flatMap((command) => /^npm run (\S+)/.exec(command)?.[1] ?? [])
  t.strictSame(scripts.filter((script) => !Object.hasOwn(manifest.scripts, script)), [])
  // What .ci/run and the scripts that it runs are made of.
  for (const script of ['docs:site', 'check', 'test:unit', 'test:outside', 'test:nodes']) t.ok(scripts.includes(script), script)
  t.doesNotThrow(() => accessSync(join(root, '.ci/run'), constants.X_OK))
})

// Promise: security/dependency-build-compromised
t.test('the release workflow runs build and tests in a job without permissions, and the job that publishes runs no code of the repository', async (t) => {
  const { on, permissions, jobs } = workflow('release')
  t.strictSame(on, { push: { tags: ['v*'] } })
  t.strictSame(permissions, {})
  t.strictSame(Object.keys(jobs), ['pack', 'publish'])
  const { pack, publish } = jobs
  t.strictSame(pack?.permissions, {})
  t.equal(pack?.environment, undefined)
  t.strictSame(commandsOf(pack), ['npm run release'])
  t.equal(manifest.scripts.release, 'node scripts/release.js')
  t.match(stepOf(pack, 'checkout'), { 'fetch-depth': 0, 'persist-credentials': false }, 'the script asks for main')
  t.strictSame(stepOf(pack, 'upload-artifact'), { name: 'tarball', path: '*.tgz', 'if-no-files-found': 'error' })

  t.equal(publish?.needs, 'pack')
  t.equal(publish?.environment, 'npm')
  t.strictSame(publish?.permissions, { 'id-token': 'write' })
  t.strictSame(publish?.steps.map(({ uses, run }) => run ?? uses?.replace(/@.*$/, '')), ['actions/download-artifact', 'actions/setup-node', publishCommand])
  t.strictSame(stepOf(publish, 'download-artifact'), { name: 'tarball' })
  t.match(publishCommand, /^npm publish \.\/\*\.tgz --ignore-scripts /)
  for (const job of [pack, publish]) t.equal(stepOf(job, 'setup-node')?.['package-manager-cache'], false, 'no cache of another workflow')
  t.notMatch(read('.github/workflows/release.yml'), /secrets\./)
})

// Promise: security/dependency-build-compromised
t.test('the workflows pin actions by commit, with the version in a comment', async (t) => {
  const files = readdirSync(join(root, '.github/workflows'))
  t.strictSame(files.sort(), ['ci.yml', 'release.yml'])
  const pinned = new Map<string, string>()
  for (const file of files) {
    const text = read(`.github/workflows/${file}`)
    const uses = [...text.matchAll(/\buses:(.*)$/gm)].map(([, value = '']) => value.trim())
    t.equal(uses.length, Object.values(workflow(file.replace('.yml', '')).jobs).flatMap(({ steps }) => steps.filter((step) => step.uses !== undefined)).length)
    for (const use of uses) {
      const [, action = '', commit = ''] = /^(actions\/[\w-]+)@([0-9a-f]{40} # v\d+\.\d+\.\d+)$/.exec(use) ?? []
      t.not(commit, '', `${file}: ${use}`)
      t.equal(pinned.get(action) ?? commit, commit, `${action} is the same everywhere`)
      pinned.set(action, commit)
    }
  }
})

/** The script of esbuild makes its command faster. Those of tracing tools build native metrics, which tools.test.ts does not need. */
const worksWithout = ['node_modules/esbuild', 'node_modules/@newrelic/fn-inspect', 'node_modules/@newrelic/native-metrics', 'node_modules/protobufjs']

// Promise: security/dependency-build-compromised
t.test('npm runs no scripts of dependencies, and no script of this package depends on one that npm skips', async (t) => {
  for (const path of ['.npmrc', 'benchmarks/.npmrc', 'docs/.npmrc', 'test/outside/.npmrc']) t.match(read(path), /^ignore-scripts=true$/m, path)
  const scripts: Record<string, string> = manifest.scripts
  const lifecycle = ['install', 'prepare', 'prepack', 'postpack', 'prepublish', 'prepublishOnly', 'publish', 'dependencies']
  for (const name of Object.keys(scripts)) {
    t.notOk(lifecycle.includes(name), `npm does not run ${name}`)
    const [, of = ''] = /^(?:pre|post)(.+)$/.exec(name) ?? []
    t.notOk(['install', 'version', 'start', 'stop', 'restart', 'test'].includes(of) || of in scripts, `npm does not run ${name}`)
  }
  t.match(scripts.start, /^npm run build && /, 'npm start builds first')
  for (const file of ['package-lock.json', 'benchmarks/package-lock.json', 'docs/package-lock.json', 'test/outside/package-lock.json']) {
    const { packages }: { packages: Record<string, { hasInstallScript?: boolean }> } = JSON.parse(read(file))
    const withScripts = Object.keys(packages).filter((path) => packages[path]?.hasInstallScript === true && !worksWithout.includes(path))
    t.strictSame(withScripts, [], `${file}: nothing needs its scripts`)
  }
})
