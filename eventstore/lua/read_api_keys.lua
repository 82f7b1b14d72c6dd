-- Read the keys to the door, unless they are as the caller knows them. Writes nothing.
--
-- KEYS  1 keyring
-- ARGV  1 the version that is known, empty if none is
--
-- Replies {clock, version}, and where the version is another {clock, version, {field, value, …}}; the version is empty
-- as long as there never was a key

local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
local version = redis.call('HGET', KEYS[1], 'version') or ''
if version == ARGV[1] then return {now, version} end
return {now, version, redis.call('HGETALL', KEYS[1])}
