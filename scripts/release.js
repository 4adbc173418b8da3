/**
 * Publishes the version of package.json, with provenance, where everything is ready for it; with `--dry-run` all but that
 * happens. .github/workflows/release.yml runs it on the tag of a version.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'

// Refuses what it does not know: a misspelt dry run must not publish.
const { values } = parseArgs({ options: { 'dry-run': { type: 'boolean' } } })
const { version, repository } = JSON.parse(readFileSync('package.json', 'utf8'))
const git = (...args) => execFileSync('git', args, { encoding: 'utf8' }).trim()
const isDated = (line) => line.startsWith(`## [${version}] - `) && /\d{4}-\d{2}-\d{2}$/.test(line)

const conditions = [
  ['The working tree is clean.', git('status', '--porcelain') === ''],
  // The workflow has no branch of its own: it checks out the tag.
  ['The commit is on main.', git('for-each-ref', '--contains', 'HEAD', 'refs/heads/main', 'refs/remotes/origin/main') !== ''],
  [`The commit has the tag v${version}.`, git('tag', '--points-at', 'HEAD').split('\n').includes(`v${version}`)],
  [`CHANGELOG.md has a section "## [${version}]" with a date.`, readFileSync('CHANGELOG.md', 'utf8').split('\n').some(isDated)],
  ['package.json names its repository, which the provenance has to match.', repository !== undefined]
]
for (const [condition, isMet] of conditions) console.log(`${isMet ? 'yes' : 'NO '} ${condition}`)
if (conditions.some(([, isMet]) => !isMet)) process.exit(1)

function run (command, ...args) {
  const { status } = spawnSync(command, args, { stdio: 'inherit' })
  if (status !== 0) process.exit(1)
}

run('.ci/run')
// publishConfig of package.json asks for provenance: npm publishes nothing where it cannot be had.
run('npm', 'publish', ...values['dry-run'] ? ['--dry-run'] : [])
