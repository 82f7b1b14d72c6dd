-- Delete a session for ever: its log, state, calls and retry records go, a tombstone stays in the head.
--
-- KEYS  1 head  2 events  3 calls  4 dedup  5 dedup_age  6 deadlines  7 feed  8 sessions  9 wake (a channel)
--       10… the TTL markers
-- ARGV  1 expected revision of the head   2 member in the indexes   3 feed: tenant   4 feed: session
--       5 feed: keep so many entries      6 when the session was created, ms
--       7 a token of this deletion, so that the same one sent again hears the same
--
-- The announcement is tried at the end: it only saves time, and what is deleted stays deleted if it is refused.
--
-- Replies {"ok", now, id of the feed entry} (without it to the same deletion sent again) or
--   {"stale", now, {revision, seq, time, status, state, due}}

local clock = redis.call('TIME')
local head = redis.call('HMGET', KEYS[1], 'rev', 'seq', 'time', 'status', 'state', 'due')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
if (head[1] or '') ~= ARGV[1] then
  if head[1] == 'deleted' and redis.call('HGET', KEYS[1], 'token') == ARGV[7] then return {'ok', now} end
  return {'stale', now, head}
end
for n = 1, 5 do redis.call('UNLINK', KEYS[n]) end
for n = 10, #KEYS do redis.call('UNLINK', KEYS[n]) end
redis.call('HSET', KEYS[1], 'rev', 'deleted', 'status', 'deleted', 'time', now, 'created', ARGV[6], 'token', ARGV[7])
redis.call('ZREM', KEYS[6], ARGV[2])
redis.call('ZREM', KEYS[8], ARGV[2])
local entry = redis.call('XADD', KEYS[7], 'MAXLEN', '~', ARGV[5], '*', 't', ARGV[3], 's', ARGV[4], 'd', '1')
redis.pcall('SPUBLISH', KEYS[9], ARGV[2] .. ' deleted ')
return {'ok', now, entry}
