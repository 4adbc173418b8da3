/**
 * Prepares a release: checks that the version in package.json is ready, runs the tests, builds, and packs the tarball. It
 * never publishes. The first job of .github/workflows/release.yml runs it, and the second job publishes the tarball.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'

// There are no options. Without this check, an option that does nothing would be ignored silently.
parseArgs()
const { version, repository } = JSON.parse(readFileSync('package.json', 'utf8'))
const git = (...args) => execFileSync('git', args, { encoding: 'utf8' }).trim()
const isDated = (line) => line.startsWith(`## [${version}] - `) && /\d{4}-\d{2}-\d{2}$/.test(line)

const conditions = [
  ['The working tree is clean.', git('status', '--porcelain') === ''],
  // The workflow checks out the tag, so there is no local branch: the remote one counts as well.
  ['The commit is on main.', git('for-each-ref', '--contains', 'HEAD', 'refs/heads/main', 'refs/remotes/origin/main') !== ''],
  [`The commit has the tag v${version}.`, git('tag', '--points-at', 'HEAD').split('\n').includes(`v${version}`)],
  [`CHANGELOG.md has a section "## [${version}]" with a date.`, readFileSync('CHANGELOG.md', 'utf8').split('\n').some(isDated)],
  ['package.json has the repository, which npm compares with the provenance.', repository !== undefined]
]
for (const [condition, isMet] of conditions) console.log(`${isMet ? 'yes' : 'NO '} ${condition}`)
if (conditions.some(([, isMet]) => !isMet)) process.exit(1)

function run (command, ...args) {
  const { status } = spawnSync(command, args, { stdio: 'inherit' })
  if (status !== 0) process.exit(1)
}

run('.ci/run')
// The tests have run code of many packages. Build again, so that the tarball contains only what the compiler wrote.
run('npm', 'run', 'build')
run('npm', 'pack', '--ignore-scripts')
