/** The performance goals of the library, compared with the results of a run. */
const ours = 'fastify-token-auth'

/** Returns functions that look up values in the results of a run. */
function reader ({ comparisons, parts, footprint, delay }) {
  const row = (tables, title, name) => tables.find((table) => table.title === title).rows.find((found) => found.name === name)
  return {
    ratio: (title, name = ours) => row(comparisons, title, name).ratio.median,
    ratioOfMany: (title, name = ours) => row(comparisons, title, name).ratioOfMany.median,
    times: (title, name) => row(comparisons, title, name).timesOurs.median,
    microseconds: (title, name) => row(parts, title, name).median,
    registered: (name) => footprint.registration.find((found) => found.name === name),
    delayOf: (name) => delay.find((found) => found.name === name).median
  }
}

/** Other libraries, as multiples of our CPU time: the comparison, the server, and the minimum that is the goal. */
const peers = {
  '@fastify/jwt, hot token': ['hot token', '@fastify/jwt', 2],
  '@fastify/jwt, no token': ['no token', '@fastify/jwt', 2],
  '@fastify/jwt, bad signature': ['bad signature', '@fastify/jwt', 2.8],
  'express-jwt, 1,000 tokens': ['1,000 tokens, elsewhere', 'express-jwt', 15],
  'passport-jwt, 1,000 tokens': ['1,000 tokens, elsewhere', 'passport-jwt', 15],
  'hono jwt, 1,000 tokens': ['1,000 tokens, elsewhere', 'hono jwt', 3],
  'jose, 1,000 tokens': ['1,000 tokens, elsewhere', 'minimal hook, jose', 3]
}

/** The CPU time of a refresh in a database relative to the specification's own mode with a Map, by client library: the maximum that is the goal. */
const refreshesInDatabases = { ioredis: 2, 'node-redis': 2.2, pg: 4.5 }

/** The time of guards relative to one without sessions, by the number of ended sessions: the maximum that is the goal. */
const guardsWithSessions = { 0: 1.02, '1,000': 1.05, '1,000,000': 1.12 }

/**
 * The speed of a ring of four keys, relative to one key, by algorithm: the minimum that is the goal, for tokens that are not
 * remembered, the same with three trusted issuers, and for bad signatures.
 */
const ringOfFour = { HS256: [0.75, 0.64, 0.75], ES256: [0.93, 0.88, 0.95], RS256: [0.93, 0.88, 0.95], EdDSA: [0.93, 0.88, 0.95] }

/** Calls of guards: the row, the row it is relative to, and the maximum of its time that is the goal. */
const guardCalls = {
  'a guard that asks a synchronous trusted, relative to one after which the payload is read, which is the same copy': ['protect, trusted', 'protect, payload read', 1.2],
  'a guard for a POST with a cookie, relative to a GET': ['protect, cookie, POST', 'protect, cookie, GET', 1.05]
}

/** The start of an application, relative to the same with @fastify/jwt and @fastify/cookie: the maximum that is the goal. */
const atStart = { cpu: ['CPU time', 1.3], wall: ['wall time', 1.3] }

/** For each goal: what is measured, the limit, the result, and, if the run measures it, the best possible result. */
export function goals (run) {
  const { ratio, ratioOfMany, times, microseconds, registered, delayOf } = reader(run)
  const { footprint: { memory, flood }, forgedRefreshes, feed, starts } = run
  const has = (name) => run.comparisons.some(({ title, rows }) => title === 'refreshing' && rows.some((found) => found.name === name))
  // Compares with the precision that the report shows.
  const shown = (value) => Number(value.toFixed(2))
  const least = (what, limit, found, unit = '', best = undefined) => ({ what, goal: `at least ${limit}${unit}`, found, unit, best, isMet: shown(found) >= limit })
  const most = (what, limit, found, unit = '', best = undefined) => ({ what, goal: `at most ${limit}${unit}`, found, unit, best, isMet: shown(found) <= limit })
  const started = (name) => starts.find((found) => found.name === name)
  const jwt = '@fastify/jwt and @fastify/cookie'
  const manyInstances = ratio('instances, hot token', '1,000 instances') / ratio('instances, hot token', '1 instance')
  const manyContexts = ratio('instances, hot token', '1,000 contexts with a hook') / ratio('instances, hot token', '1 context with a hook')
  const memoised = microseconds('guards', 'scoped, remembered token with 100 scopes') - microseconds('guards', 'protect, remembered token')
  return [
    least('hot token, HS256', 0.92, ratio('hot token')),
    least('1,000 tokens', 0.9, ratio('1,000 tokens')),
    least('100,000 tokens', 0.5, ratio('100,000 tokens')),
    least('100,000 tokens, relative to fastify-token-auth without a cache', 0.95, ratio('100,000 tokens') / ratio('100,000 tokens', `${ours}, tokenCacheSize 0`)),
    least('no token', 0.9, ratio('no token')),
    least('bad signature', 0.6, ratio('bad signature')),
    least('expired', 0.5, ratio('expired')),
    least('hot token, ES256', 0.85, ratio('hot token, ES256')),
    least('hot token, PS256', 0.85, ratio('hot token, PS256')),
    least('hot token, RS256', 0.75, ratio('hot token, RS256')),
    // The best possible result is that of a guard that costs nothing.
    ...Object.entries(peers).flatMap(([what, [title, name, limit]]) => [
      least(`CPU time of ${what}`, limit, times(title, name), ' x', 1 / ratio(title, name)),
      least(`CPU time of ${what}, 32 connections`, limit, ratioOfMany(title) / ratioOfMany(title, name), ' x', 1 / ratioOfMany(title, name))
    ]),
    least('issuing HS256', 0.58, ratio('issuing HS256')),
    least('issuing ES256', 0.34, ratio('issuing ES256')),
    most('RS256 issuing: p99 of the event-loop delay beyond idle', 1.5, delayOf(ours), ' ms'),
    most('boot of an instance, verify only', 0.5, registered('verify only').milliseconds.median, ' ms'),
    most('boot of an instance, four endpoints', 3, registered('four endpoints with their schemas').milliseconds.median, ' ms'),
    most('heap of an instance, verify only', 5, registered('verify only').kilobytes.median, ' KB'),
    // The best possible result is that of the same routes in a separate context, without the plugin.
    most('heap of an instance, four endpoints', 30, registered('four endpoints with their schemas').kilobytes.median, ' KB', registered('the routes of four endpoints alone').kilobytes.median),
    // The best possible result is that of an application without a guard.
    ...Object.entries(atStart).map(([unit, [what, limit]]) =>
      most(`start of an application until it is ready, ${what}, relative to @fastify/jwt and @fastify/cookie`, limit, started(ours)[unit].median / started(jwt)[unit].median, '', started('bare')[unit].median / started(jwt)[unit].median)),
    most('the same, heap beyond that with @fastify/jwt and @fastify/cookie', 4, started(ours).heap.median - started(jwt).heap.median, ' MB'),
    most('heap of a remembered token', 1.3, memory.kilobytes, ' KB'),
    most('100 scopes in a token, not remembered', 4, microseconds('scopes, not remembered', '100 scopes'), ' us'),
    most('100 scopes in a token, remembered, in addition to protect', 0.1, Math.max(0, memoised), ' us'),
    ...Object.entries(guardCalls).map(([what, [name, base, limit]]) => most(`call of ${what}`, limit, microseconds('guarding', name) / microseconds('guarding', base))),
    least(`remembered tokens, of ${flood.remembered.toLocaleString('en')}, that remain after ${flood.bad.toLocaleString('en')} invalid tokens`, flood.remembered, flood.left),
    least('1,000 instances relative to one, requests to one of them', 0.95, ratio('instances, hot token', '1,000 instances, one asked') / ratio('instances, hot token', '1 instance')),
    // The best possible result is that of the same number of contexts without an instance.
    least('1,000 instances relative to one, requests to all in turn', 0.95, manyInstances, '', manyContexts),
    least('1,000 instances relative to one, divided by 1,000 contexts relative to one', 0.95, manyInstances / manyContexts),
    ...[['', ratio], [', 32 connections', ratioOfMany]].flatMap(([connections, of]) => [
      most(`CPU time of a refresh with sessions in memory, relative to the specification's own mode${connections}`, 1.5, 1 / of('refreshing', 'sessions')),
      // The best possible result is that of the specification's own mode, which asks the same database for the refresh token.
      ...Object.entries(refreshesInDatabases).filter(([client]) => has(`sessions, ${client}`)).map(([client, limit]) =>
        most(`CPU time of a refresh with sessions over ${client}, relative to the specification's own mode${connections}`, limit, 1 / of('refreshing', `sessions, ${client}`), '', 1 / of('refreshing', `the specification's own mode, ${client}`))),
      // The best possible result is that of a route that accepts everything.
      ...has('sessions, ioredis')
        ? [most(`CPU time of a forged refresh token, relative to an accepted one over ioredis${connections}`, 0.6, of('refreshing', 'sessions, ioredis') / of('refreshing', 'sessions, ioredis, forged token'), '', of('refreshing', 'sessions, ioredis') / of('refreshing', 'bare'))]
        : [],
      ...Object.entries(guardsWithSessions).map(([ended, limit]) =>
        most(`CPU time of a guarded route with ${ended} ended sessions, relative to one without sessions${connections}`, limit, 1 / of('guards with sessions', `${ended} ended sessions`)))
    ]),
    least('hot token with a ring of four keys, relative to one key', 0.99, ratio('guards with keys', 'a ring of four')),
    least('the same with three trusted issuers', 0.99, ratio('guards with keys', 'a ring of four and three issuers')),
    ...Object.entries(ringOfFour).flatMap(([algorithm, [valid, withIssuers, bad]]) => {
      const ofOne = (what, ring = 'ring') => microseconds(`ring of four, ${algorithm}`, `one key, ${what}`) / microseconds(`ring of four, ${algorithm}`, `${ring}, ${what}`)
      return [
        least(`not remembered, ${algorithm}, with a ring of four keys, relative to one key`, valid, ofOne('not remembered')),
        least(`not remembered, ${algorithm}, with a ring of four keys and three trusted issuers, relative to one key`, withIssuers, ofOne('not remembered', 'ring and issuers')),
        least(`bad signature, ${algorithm}, with a ring of four keys, relative to one key`, bad, ofOne('bad signature'))
      ]
    }),
    most('unknown kid', 3, Math.max(...Object.keys(ringOfFour).map((algorithm) => microseconds(`ring of four, ${algorithm}`, 'ring, unknown kid'))), ' us'),
    most('start of a ring of three Ed25519 keys', 2, registered('verify only, a ring of three Ed25519 keys for each').milliseconds.median - registered('verify only').milliseconds.median, ' ms'),
    most(`calls of the session store for ${forgedRefreshes.forged.toLocaleString('en')} forged refresh tokens`, 0, forgedRefreshes.calls),
    ...(feed?.rows ?? []).flatMap(({ client, poll, fullReads }) => [
      ...poll === undefined ? [] : [most(`CPU time of the server for a poll of the ended sessions over ${client}`, 0.15, poll, ' ms')],
      most(`reading ${feed.ended.toLocaleString('en')} ended sessions over ${client}`, 250, Math.max(...fullReads.map(({ milliseconds }) => milliseconds.median)), ' ms'),
      most(`the same: the longest time for which it holds the event loop, over ${client}`, 60, Math.max(...fullReads.map(({ held }) => held.median)), ' ms')
    ])
  ]
}
