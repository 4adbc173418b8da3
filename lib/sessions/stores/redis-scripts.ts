/**
 * The Lua scripts of {@link redisSessions}. Redis executes each of them atomically.
 *
 * Keys, all of one bucket, so that a cluster has them on one node:
 *
 * - the hash of a session: n (latest generation), r (beginning of the window), p, f and k (parent, siblings and confirmed of its
 *   family, as in rotation.ts; absent: 1, 0, 0), c (created), l (last used), e (end of its lifetime), d (data)
 * - the sorted set of the sessions of a user, by the time at which they expire
 * - the feed, the sorted set of the sessions that have ended, by time
 *
 * All times are in milliseconds, by the clock of the server.
 */
const clock = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`

/** Refuses scripts that write after the deadline, the last element of ARGV. The error contains the time of the server. */
const inTime = `${clock}
if now > tonumber(ARGV[#ARGV]) then return redis.error_reply('LATE ' .. now) end
`

/**
 * Precedes an answer without a change. The command changes nothing and is not sent to replicas, but a server that must not
 * write refuses it: a replica, or a primary without enough replicas. The data of such a server may be outdated.
 */
const requireWritable = (key: string) => `redis.call('ZREM', ${key}, '')`

/** The times in the feed never decrease, even if the clock is set back: otherwise, readers would miss an entry. */
const feed = `
local function openFeed(feed, keep)
  local last = redis.call('ZREVRANGE', feed, 0, 0, 'WITHSCORES')
  local at = now
  if last[2] and tonumber(last[2]) > at then at = tonumber(last[2]) end
  redis.call('ZREMRANGEBYSCORE', feed, '-inf', at - keep)
  return at
end
`

const prolong = `
local function prolong(key, sessions, sid, dead)
  redis.call('PEXPIREAT', key, dead)
  redis.call('ZADD', sessions, dead, sid)
  if redis.call('PTTL', sessions) < dead - now then redis.call('PEXPIREAT', sessions, dead) end
end
`

/**
 * KEYS: session, sessions of the user, feed, beginning of session keys. ARGV: sid, data, idle, lifetime, keep, maximum, deadline.
 * The first write must be one that Redis refuses when its memory is full: after a write, it accepts all others of the same script.
 */
export const create = `${inTime}${feed}${prolong}
local ended = {}
local surplus = redis.call('ZCOUNT', KEYS[2], '(' .. now, '+inf') + 1 - tonumber(ARGV[6])
local ending = surplus > 0 and redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. now, '+inf', 'LIMIT', 0, surplus) or {}
redis.call('HSET', KEYS[1], 'n', 0, 'c', now, 'l', now, 'e', now + ARGV[4], 'd', ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if surplus > 0 then
  local at = openFeed(KEYS[3], tonumber(ARGV[5]))
  for _, sid in ipairs(ending) do
    redis.call('ZREM', KEYS[2], sid)
    if redis.call('DEL', KEYS[4] .. sid) == 1 then
      redis.call('ZADD', KEYS[3], at, sid)
      ended[#ended + 1] = sid
    end
  end
  redis.call('PEXPIRE', KEYS[3], ARGV[5] * 2)
end
prolong(KEYS[1], KEYS[2], ARGV[1], now + math.min(tonumber(ARGV[3]), tonumber(ARGV[4])))
return ended
`

/** KEYS: session, sessions of the user, feed. ARGV: sid, counter, window, idle, keep, deadline. */
export const advance = `${inTime}${feed}${prolong}
local session = redis.call('HMGET', KEYS[1], 'n', 'r', 'e', 'p', 'f', 'k')
if not session[1] or not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  ${requireWritable('KEYS[2]')}
  return { 'unknown', 0 }
end
local presented, grace = tonumber(ARGV[2]), tonumber(ARGV[3])
local current, parent, siblings = tonumber(session[1]), tonumber(session[4] or 1), tonumber(session[5] or 0)
local isConfirmed = session[6] == '1'
local behind = current - presented
local isOpen = session[2] and now - tonumber(session[2]) < grace
local function use(outcome, n, parent, siblings, confirmed, windowAt)
  redis.call('HSET', KEYS[1], 'n', n, 'p', parent, 'f', siblings, 'k', confirmed, 'r', windowAt, 'l', now)
  prolong(KEYS[1], KEYS[2], ARGV[1], math.min(now + tonumber(ARGV[4]), tonumber(session[3])))
  return { outcome, n }
end
if behind < 0 then return use('recovered', presented + 1, 1, 0, 0, now) end
if behind <= siblings then
  if not isOpen then return use('rotated', current + 1, behind + 1, 0, 0, now) end
  if siblings > 0 and not isConfirmed then
    redis.call('HSET', KEYS[1], 'k', 1, 'r', now)
  else
    ${requireWritable('KEYS[2]')}
  end
  return { 'repeated', presented }
end
if behind == parent and grace > 0 and (isOpen or not isConfirmed) then
  if isOpen and siblings == 0 and not isConfirmed then
    ${requireWritable('KEYS[2]')}
    return { 'repeated', current }
  end
  return use('reissued', current + 1, parent + 1, siblings + 1, isConfirmed and 1 or 0, isConfirmed and session[2] or now)
end
local at = openFeed(KEYS[3], tonumber(ARGV[5]))
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZADD', KEYS[3], at, ARGV[1])
redis.call('PEXPIRE', KEYS[3], ARGV[5] * 2)
return { 'reused', current }
`

/** KEYS: for each entry a session and the sessions of its user. ARGV: for each entry sid and generation; deadline. */
export const confirm = `${inTime}
for index = 1, #KEYS, 2 do
  local session = redis.call('HMGET', KEYS[index], 'n', 'p', 'k')
  local isParent = session[1] and tonumber(session[1]) - tonumber(session[2] or 1) == tonumber(ARGV[index + 1])
  if isParent and session[3] ~= '1' and redis.call('ZSCORE', KEYS[index + 1], ARGV[index]) then
    redis.call('HSET', KEYS[index], 'k', 1, 'r', now)
  end
end
return {}
`

/** KEYS: sessions of the user, feed, beginning of session keys. ARGV: 'sid' or 'except', the session, keep, deadline. */
export const end = `${inTime}${feed}
local ended = {}
local at = openFeed(KEYS[2], tonumber(ARGV[3]))
local sids = ARGV[1] == 'sid' and { ARGV[2] } or redis.call('ZRANGE', KEYS[1], 0, -1)
for _, sid in ipairs(sids) do
  if (ARGV[1] == 'sid' or sid ~= ARGV[2]) and redis.call('ZREM', KEYS[1], sid) == 1 and redis.call('DEL', KEYS[3] .. sid) == 1 then
    redis.call('ZADD', KEYS[2], at, sid)
    ended[#ended + 1] = sid
  end
end
if #ended > 0 then redis.call('PEXPIRE', KEYS[2], ARGV[3] * 2) end
return ended
`

/** KEYS: sessions of the user, beginning of session keys. */
export const list = `
${requireWritable('KEYS[1]')}
local found = {}
for _, sid in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local session = redis.call('HMGET', KEYS[2] .. sid, 'c', 'l', 'e', 'd')
  if session[1] then found[#found + 1] = { sid, session[1], session[2], session[3], session[4] } end
end
return found
`

/**
 * A replica that has lost its primary still answers, but its data may be outdated. Returns the error of a server with
 * `replica-serve-stale-data no`. Ignores errors of INFO, because a Redis user may have no right to execute it.
 */
const requireLink = `
local replication = redis.pcall('INFO', 'replication')
if type(replication) == 'string' and string.find(replication, 'master_link_status:down', 1, true) then
  return redis.error_reply('MASTERDOWN This server is a replica, and its link to the primary is down.')
end
`

/** KEYS: feed. ARGV: the time at which to start. Returns the time of the server, followed by the ended sessions. */
export const since = `${requireLink}${clock}
local answer = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], '+inf')
table.insert(answer, 1, now)
return answer
`
