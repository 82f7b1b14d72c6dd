-- Read what a command is judged by, as of one moment. Writes nothing.
--
-- KEYS  1 head  2 calls  3 dedup  4 dedup_age
-- ARGV  1 how many retry fields follow   2… retry fields, then ids of calls
--
-- Replies {clock, {revision, seq, time, status, state, due, created}, retry record or false…, call record or false…}

local clock = redis.call('TIME')
local head = redis.call('HMGET', KEYS[1], 'rev', 'seq', 'time', 'status', 'state', 'due', 'created')
local clock_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
local now = math.max(clock_ms, tonumber(head[3] or 0))
local reply = {string.format('%.0f', clock_ms), head}
local retries = tonumber(ARGV[1])
for n = 2, 1 + retries do
  local until_ms = redis.call('ZSCORE', KEYS[4], ARGV[n])
  reply[n + 1] = until_ms and tonumber(until_ms) > now and redis.call('HGET', KEYS[3], ARGV[n])
end
for n = 2 + retries, #ARGV do reply[n + 1] = redis.call('HGET', KEYS[2], ARGV[n]) end
return reply
