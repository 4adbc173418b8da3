import { execFile } from 'node:child_process'
import { accessSync, chmodSync, constants, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { host, listen } from './helper.ts'

/** What publishes a version, and the workflows, which run what a developer runs. */

const run = promisify(execFile)
const root = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const manifest = JSON.parse(read('package.json'))
// Nothing of the machine that runs the tests: not its CI, whose provenance npm would ask for, and not the settings of its npm.
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(?:npm_|GIT|ACTIONS_|RUNNER_|CI)/i.test(name)))

/** A package that is ready for release, in a repository of its own, and a registry that remembers what it was asked. */
async function makeRelease (t: Test) {
  const asked: string[] = []
  const registry = host(t)
  registry.addHook('onRequest', async ({ method }) => { asked.push(method) })
  const port = await listen(registry)
  const folder = t.testdir({
    'package.json': JSON.stringify({
      name: 'released', version: '1.2.3', repository: { type: 'git', url: 'git+https://git.example/released.git' }, publishConfig: manifest.publishConfig
    }),
    'CHANGELOG.md': '# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-31\n\n### Added\n\n- All.\n',
    '.npmrc': `registry=http://127.0.0.1:${port}/\n//127.0.0.1:${port}/:_authToken=none\n`,
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
  const release = async (args: string[] = [], env: Record<string, string> = {}) => {
    const child = run(process.execPath, [join(root, 'scripts/release.js'), ...args], { cwd: folder, env: { ...environment, ...env } })
    const result: { code?: unknown, stdout: string, stderr: string } = await child.catch((error) => error)
    return { code: 0, ...result }
  }
  return { folder, git, commit, release, asked }
}

t.test('a dry run of a release does all but publish', async (t) => {
  const { git, release, asked } = await makeRelease(t)
  const { code, stdout, stderr } = await release(['--dry-run'])
  t.equal(code, 0, stderr)
  t.match(stdout, /^checked$/m, '.ci/run was run')
  t.match(stdout, /^\+ released@1\.2\.3$/m)
  t.match(stderr, /with tag latest and public access \(dry-run\)/)
  t.notOk(asked.includes('PUT'), 'nothing was published')
  t.match((await release([], { npm_config_dry_run: 'true' })).stderr, /\(dry-run\)/, 'npm run release --dry-run, for which npm keeps the flag')

  // What the workflow has: the tag, and no branch but that of the server.
  await git('update-ref', 'refs/remotes/origin/main', 'HEAD')
  await git('checkout', '--quiet', '--detach')
  await git('branch', '--quiet', '--delete', '--force', 'main')
  t.equal((await release(['--dry-run'])).code, 0)
  t.notOk(asked.includes('PUT'))
})

t.test('a release is published with provenance or not at all', async (t) => {
  const { release, asked } = await makeRelease(t)
  const { code, stderr } = await release()
  t.equal(code, 1)
  t.match(stderr, /provenance generation not supported/, 'only a CI can say where a package comes from')
  t.notOk(asked.includes('PUT'))
  t.strictSame(manifest.publishConfig, { access: 'public', provenance: true })
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
      condition: 'package.json names its repository, which the provenance has to match.',
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
      t.strictSame(release.asked, [])
    })
  }

  await t.test('a misspelt dry run', async (t) => {
    const { release, asked } = await makeRelease(t)
    t.equal((await release(['--dryrun'])).code, 1)
    t.strictSame(asked, [])
  })
})

t.test('a release whose checks fail is not published', async (t) => {
  const { folder, commit, release, asked } = await makeRelease(t)
  writeFileSync(join(folder, '.ci/run'), '#!/bin/sh\necho checked\nexit 1\n')
  await commit()
  const { code, stdout } = await release()
  t.equal(code, 1)
  t.match(stdout, /^checked$/m)
  t.strictSame(asked, [])
})

t.test('the change log is in the form of Keep a Changelog', async (t) => {
  const [title, ...sections] = read('CHANGELOG.md').split(/^(?=## )/m)
  t.match(title, /^# Changelog\n/)
  const headings = sections.map((section) => section.split('\n', 1)[0] ?? '')
  t.equal(headings[0], '## [Unreleased]')
  for (const heading of headings.slice(1)) {
    const [, date = ''] = /^## \[\d+\.\d+\.\d+(?:-[\w.]+)?\] - (\d{4}-\d{2}-\d{2})$/.exec(heading) ?? []
    t.equal(new Date(date).toISOString().slice(0, 10), date, heading)
  }
  const dates = headings.slice(1).map((heading) => heading.slice(-10))
  t.strictSame(dates, [...dates].sort().reverse(), 'the latest comes first')
  for (const kind of read('CHANGELOG.md').match(/^### .*$/gm) ?? []) t.match(kind, /^### (?:Added|Changed|Deprecated|Removed|Fixed|Security)$/)
})

interface Workflow {
  on: { push: { branches?: string[], tags?: string[] } }
  permissions: Record<string, string>
  jobs: Record<string, {
    permissions?: Record<string, string>
    strategy?: { matrix: Record<string, unknown> }
    steps: { uses?: string, run?: string, with?: Record<string, unknown> }[]
  }>
}
const workflow = (name: string): Workflow => parse(read(`.github/workflows/${name}.yml`))
const commandsOf = ({ steps }: Workflow['jobs'][string] = { steps: [] }) => steps.flatMap(({ run = [] }) => run)

t.test('the workflow of each change runs .ci/run on Node 20, 22 and 24, and may only read', async (t) => {
  const { on, permissions, jobs } = workflow('ci')
  t.strictSame(Object.keys(on), ['push', 'pull_request'])
  t.strictSame(permissions, { contents: 'read' })
  t.strictSame(Object.keys(jobs), ['test'])
  t.strictSame(jobs.test?.strategy?.matrix, { 'node-version': [20, 22, 24] })
  t.match(jobs.test?.steps.find(({ uses }) => uses?.startsWith('actions/setup-node@'))?.with?.['node-version'], /matrix\.node-version/)
  t.strictSame(commandsOf(jobs.test), ['.ci/run'])
  t.doesNotThrow(() => accessSync(join(root, '.ci/run'), constants.X_OK))
})

t.test('the workflow of a version tag runs the release script and holds no secret', async (t) => {
  const { on, permissions, jobs } = workflow('release')
  t.strictSame(on, { push: { tags: ['v*'] } })
  t.strictSame(permissions, {})
  t.strictSame(jobs.publish?.permissions, { contents: 'read', 'id-token': 'write' })
  t.strictSame(commandsOf(jobs.publish), ['npm run release'])
  t.equal(manifest.scripts.release, 'node scripts/release.js')
  t.equal(jobs.publish?.steps.find(({ uses }) => uses?.startsWith('actions/checkout@'))?.with?.['fetch-depth'], 0, 'the script asks for main')
  t.notMatch(read('.github/workflows/release.yml'), /secrets\./)
})

t.test('actions of the workflows are pinned', async (t) => {
  const files = readdirSync(join(root, '.github/workflows'))
  t.strictSame(files.sort(), ['ci.yml', 'release.yml'])
  for (const file of files) {
    for (const { steps } of Object.values(workflow(file.replace('.yml', '')).jobs)) {
      for (const { uses } of steps) if (uses !== undefined) t.match(uses, /^actions\/[\w-]+@(?:v\d+|[0-9a-f]{40})$/)
    }
  }
})
