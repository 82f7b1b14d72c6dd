-- Revoke the key that holds a name. Its record stays: a door that had a key does not open by itself again. Safe to
-- repeat: the first revocation counts.
--
-- KEYS  1 keyring
-- ARGV  1 field of the name  2 who holds the name, as it was read  3 field of the revocation
--       4 version that this change makes
--
-- Replies {'ok'}, or {'moved'} if somebody else holds the name by now

if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 1 then return {'ok'} end
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return {'moved'} end
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], ARGV[3], now, 'version', ARGV[4])
return {'ok'}
