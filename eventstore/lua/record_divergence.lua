-- Record that a partition has lost what was acknowledged. What is recorded already is not changed, so it may be said
-- again, by anybody who notices.
--
-- KEYS  1 diverged (a hash)
-- ARGV  1 number of the partition   2 the last entry of its feed that was not lost ("0-0" = none)
--       3 the first entry that is known to be lost   4 at most so many fields
--       5… for each session: its member, the last seq that was acknowledged, the last seq that was not lost
--
-- Replies 1 if this is new; 0 if it is known, or an operator has acknowledged it.

local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
local acknowledged = tonumber(redis.call('HGET', KEYS[1], 'acknowledged') or 0)
if tonumber(ARGV[3]:match('^%d+')) <= acknowledged then return 0 end
local name, most = ARGV[1] .. ' ' .. ARGV[2], tonumber(ARGV[4])
if redis.call('HEXISTS', KEYS[1], name) == 0 and redis.call('HLEN', KEYS[1]) >= most then return 0 end
local new = redis.call('HSETNX', KEYS[1], name, now .. ' ' .. ARGV[3])
for n = 5, #ARGV, 3 do
  if redis.call('HLEN', KEYS[1]) >= most / 2 then break end  -- room for other partitions counts for more
  redis.call('HSETNX', KEYS[1], name .. ' ' .. ARGV[n], ARGV[n + 1] .. ' ' .. ARGV[n + 2])
end
return new
