-- Hold a place for a retry record beside a session that need not exist, or give it up.
--
-- KEYS  1 head   2 dedup   3 dedup_age
-- ARGV  1 field of the retry record   2 the record   3 how long it is kept, ms; 0 = give it up, if it is this one
--
-- Replies {"held", record} with the record that counts now (sent again: the same one), {"taken"} where a session stands
-- in the way and knows no such record, or {"free"} once it is given up.
--
-- Nothing here can be refused half-way: the first write is to a key that holds a hash, or nothing.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function whole(number) return string.format('%.0f', number) end
local record = redis.call('HGET', KEYS[2], ARGV[1])
local until_ms = record and redis.call('ZSCORE', KEYS[3], ARGV[1])
local kept = tonumber(ARGV[3])
if kept == 0 then
  if record == ARGV[2] then
    redis.call('HDEL', KEYS[2], ARGV[1])
    redis.call('ZREM', KEYS[3], ARGV[1])
  end
  return {'free'}
end
if until_ms and tonumber(until_ms) > now then return {'held', record} end
if redis.call('EXISTS', KEYS[1]) == 1 then return {'taken'} end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[3], whole(now + kept), ARGV[1])
redis.call('PEXPIREAT', KEYS[2], whole(now + kept))
redis.call('PEXPIREAT', KEYS[3], whole(now + kept))
return {'held', ARGV[2]}
