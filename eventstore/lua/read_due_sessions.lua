-- What falls due soon in a partition. Writes nothing.
--
-- KEYS  1 deadlines
-- ARGV  1 how far to look ahead, ms  2 skip so many  3 tell so many
--
-- Replies the engine's clock, ms, then member and due time of each, the nearest first.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function whole(number) return string.format('%.0f', number) end
local until_ms = whole(now + ARGV[1])
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', until_ms, 'WITHSCORES', 'LIMIT', ARGV[2], ARGV[3])
return {whole(now), unpack(found)}
