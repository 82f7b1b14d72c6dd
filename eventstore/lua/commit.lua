-- Compare, then append: one commit of one session, all of it or nothing.
--
-- KEYS  1 head  2 events  3 calls  4 dedup  5 dedup_age  6 deadlines  7 feed  8 sessions  9 wake (a channel)
--       10… the TTL markers: first those to set, then those to remove
-- ARGV  1  expected revision of the head ("" = the session must not exist)
--       2  new revision
--       3  time of the events, ms                 4  refuse from this time on, ms ("" = never)
--       5  status                                 6  state (opaque)
--       7  next due time, ms ("" = none)          8  member of the session in the indexes
--       9  feed: tenant                           10 feed: session
--       11 feed: types of the events              12 feed: keep so many entries
--       13 sequence number of the first event     14 number of events
--       15 number of call records                 16 number of retry records
--       17 number of markers to set               18 how long a retry record is kept, ms
--       then: line, hash for each event; id, record, SHA-1 of the record that it replaces ("" = none yet) for each
--       call; field, record for each retry record; expiry in ms for each marker to set
--
-- Replies {"ok", clock, id of the feed entry} (without it to the same commit sent again) or, with nothing changed,
--   {"replay", clock, <head>, field, record}   a retry record exists: this was done before
--   {"stale", clock, <head>}                   the head is another one: revision, seq, time, status, state, due
--   {"changed", clock, <head>}               a call record is not what the commit was decided on
--   {"early", clock}  the time lies ahead of this clock      {"late", clock}  something falls due first
--   {"lost", clock, id}  the log and the head do not agree
--
-- A session whose time the clock has fallen behind goes on at its own time; the clock is told as it is.
--
-- Nothing may fail after the first write: Lua has no rollback. XADD with its explicit id comes first and is tried;
-- once it is through, every later write is of a kind that cannot be refused, to a user that has the rights for it (see
-- rights.lua). The announcement at the end is tried too: it only saves time.

local clock = redis.call('TIME')
local head = redis.call('HMGET', KEYS[1], 'rev', 'seq', 'time', 'status', 'state', 'due')
local clock_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
local now = math.max(clock_ms, tonumber(head[3] or 0))
local function whole(number) return string.format('%.0f', number) end
local stamp = whole(clock_ms)
if head[1] == ARGV[2] then
  redis.call('HSET', KEYS[1], 'rev', ARGV[2])  -- so that this connection, too, has a write for the engine to confirm
  return {'ok', stamp}
end

local first, events = tonumber(ARGV[13]), tonumber(ARGV[14])
local calls, retries, marks = tonumber(ARGV[15]), tonumber(ARGV[16]), tonumber(ARGV[17])
local at_calls = 19 + 2 * events
local at_retries = at_calls + 3 * calls
local at_marks = at_retries + 2 * retries

for n = 0, retries - 1 do
  local field = ARGV[at_retries + 2 * n]
  local record = redis.call('HGET', KEYS[4], field)
  local until_ms = record and redis.call('ZSCORE', KEYS[5], field)
  if until_ms and tonumber(until_ms) > now then return {'replay', stamp, head, field, record} end
end
if (head[1] or '') ~= ARGV[1] then return {'stale', stamp, head} end
for n = at_calls, at_retries - 3, 3 do
  local record = redis.call('HGET', KEYS[3], ARGV[n])
  if (record and redis.sha1hex(record) or '') ~= ARGV[n + 2] then return {'changed', stamp, head} end
end
if tonumber(ARGV[3]) > now then return {'early', stamp} end
if ARGV[4] ~= '' and now >= tonumber(ARGV[4]) then return {'late', stamp} end

for n = 0, events - 1 do
  local id = whole(first + n) .. '-0'
  local line, hash = ARGV[19 + 2 * n], ARGV[20 + 2 * n]
  local added
  if first + n == 1 then
    added = redis.pcall('XADD', KEYS[2], id, 'e', line, 'h', hash)
  else
    added = redis.pcall('XADD', KEYS[2], 'NOMKSTREAM', id, 'e', line, 'h', hash)
  end
  if type(added) ~= 'string' then return {'lost', stamp, id} end
end

local seq, entry = whole(first + events - 1), nil
redis.call('HSET', KEYS[1], 'rev', ARGV[2], 'seq', seq, 'time', ARGV[3], 'status', ARGV[5], 'state', ARGV[6],
  'due', ARGV[7])
for n = 0, calls - 1 do
  redis.call('HSET', KEYS[3], ARGV[at_calls + 3 * n], ARGV[at_calls + 3 * n + 1])
end
for n = 0, marks - 1 do
  redis.call('SET', KEYS[10 + n], '', 'PXAT', ARGV[at_marks + n])
end
for n = 10 + marks, #KEYS do redis.call('UNLINK', KEYS[n]) end
if ARGV[7] == '' then
  redis.call('ZREM', KEYS[6], ARGV[8])
else
  redis.call('ZADD', KEYS[6], ARGV[7], ARGV[8])
end

if retries > 0 then
  local kept_until = now + tonumber(ARGV[18])
  for n = 0, retries - 1 do
    local field = ARGV[at_retries + 2 * n]
    redis.call('HSET', KEYS[4], field, ARGV[at_retries + 2 * n + 1])
    redis.call('ZADD', KEYS[5], whole(kept_until), field)
  end
  -- Each commit that adds records forgets as many old ones and a few more, so that what is kept stays bounded.
  for _, field in ipairs(redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', whole(now), 'LIMIT', 0, 2 * retries + 8)) do
    redis.call('HDEL', KEYS[4], field)
    redis.call('ZREM', KEYS[5], field)
  end
  redis.call('PEXPIREAT', KEYS[4], whole(kept_until))
  redis.call('PEXPIREAT', KEYS[5], whole(kept_until))
end

if events > 0 then
  if first == 1 then redis.call('ZADD', KEYS[8], 0, ARGV[8]) end
  -- The number within the millisecond is made of the chain hash, so that no other past has an entry of this id.
  local tag = (tonumber(ARGV[18 + 2 * events]:sub(1, 4), 16) or 0) % 16384
  local fields = {'t', ARGV[9], 's', ARGV[10], 'f', whole(first), 'l', seq, 'y', ARGV[11]}
  local function feed(id) return redis.pcall('XADD', KEYS[7], 'MAXLEN', '~', ARGV[12], id, unpack(fields)) end
  entry = feed(stamp .. '-' .. whole(tag))
  if type(entry) ~= 'string' then  -- there is one of this millisecond, or of a later one
    local newest = redis.call('XREVRANGE', KEYS[7], '+', '-', 'COUNT', 1)[1] or {''}
    local ms, number = newest[1]:match('(%d+)-(%d+)')
    entry = feed(ms and ms .. '-' .. whole(number + 1 + tag) or '*')
  end
end
redis.pcall('SPUBLISH', KEYS[9], ARGV[8] .. ' ' .. seq .. ' ' .. ARGV[7])
return {'ok', stamp, entry}
