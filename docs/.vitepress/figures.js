/** The figures of the landing page, from the last run of the benchmarks. */
import { readFileSync } from 'node:fs'

const { run, soak } = JSON.parse(readFileSync(new URL('../../benchmarks/results.json', import.meta.url), 'utf8'))

const rowOf = (title, name) => run.comparisons.find((comparison) => comparison.title === title).rows.find((row) => row.name === name)
const percent = ({ ratio }) => `${Math.round(ratio.median * 100)}\u00a0%`
const megabytes = ({ heap }) => `${(heap / 1e6).toFixed(0)}\u00a0MB`

const title = '1,000 tokens'
const start = run.footprint.registration.find(({ name }) => name === 'four endpoints with their schemas')

/** A number, and what it is. On narrow screens, only the part before the bar is shown. */
const rows = [
  [percent(rowOf(title, 'fastify-token-auth')), `of the speed of a route remain behind a guard | (with 1,000 tokens; @fastify/jwt with its cache: ${percent(rowOf(title, '@fastify/jwt with its cache'))})`],
  [megabytes(soak.samples.at(-1)), `of heap after ${soak.requests.toLocaleString('en')} requests | (valid, forged, expired; after 100,000: ${megabytes(soak.samples[0])})`],
  [`${start.milliseconds.median.toFixed(1)}\u00a0ms`, 'to start, with four endpoints | and their schemas']
]

export const figures = `<dl class="figures">
${rows.map(([number, text]) => {
  const [short, more] = text.split(' | ')
  return `<div><dt>${number}</dt><dd>${short} <span class="more">${more}</span></dd></div>`
}).join('\n')}
</dl>
<p class="run">Run of ${run.date}: Node.js ${run.machine.node.slice(1)}, ${run.machine.cores} cores. Repeat it: <code>npm run bench</code>, <code>npm run bench:soak</code>. <a href="./evidence/speed.html">How it is measured</a></p>`
