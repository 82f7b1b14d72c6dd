-- Add a key to the door, if no live one has its name. Safe to repeat: a key that is there is left as it is.
--
-- KEYS  1 keyring
-- ARGV  1 field of the name  2 who holds the name from now on: <id> <expiry in ms; 0: never>
--       3 field of the record  4 record  5 version that this change makes
--
-- Replies {'ok'}, or {'taken'} if a live key has the name

if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 1 then return {'ok'} end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local holder = redis.call('HGET', KEYS[1], ARGV[1])
if holder then
  local expiry = tonumber(string.match(holder, '%d+$'))
  if expiry == 0 or now < expiry then return {'taken'} end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'version', ARGV[5])
return {'ok'}
