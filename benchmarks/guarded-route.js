/**
 * How fast a guarded route is, relative to the same route without authentication: the server's CPU time for each
 * request, in turns (bare, A, bare, B ...), as medians of ratios. `node benchmarks/guarded-route.js [windows] [requests]`
 */
import { median, start } from './measure.js'
import { names } from './servers.js'
import { loads } from './tokens.js'

const [windows = 9, requests = 4000] = process.argv.slice(2).map(Number)

for (const [load, makeTokens] of Object.entries(loads)) {
  const tokens = makeTokens()
  const bare = await start('bare')
  const again = await start('bare')
  await bare.measure(tokens, 10_000)
  const results = []
  for (const name of ['bare again', ...names.filter((name) => name !== 'bare')]) {
    const server = name === 'bare again' ? again : await start(name)
    await server.measure(tokens, 10_000)
    const ratios = []
    for (let window = 0; window < windows; window++) {
      const base = await bare.measure(tokens, requests)
      ratios.push(base / await server.measure(tokens, requests))
    }
    results.push(`${name} ${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)})`)
    if (server !== again) await server.stop()
  }
  await again.stop()
  await bare.stop()
  console.log(`${load}: ${results.join('; ')}`)
}
