-- Serve another generation of a partition's read models, if the one that is served is still the expected one.
--
-- KEYS  1 generation pointer   2 checkpoint of the new generation
-- ARGV  1 generation that is served   2 the new one
--
-- Replies {"ok"} or {"moved"}

local served = redis.call('GET', KEYS[1]) or '0'
if served == ARGV[2] then return {'ok'} end  -- said again to the same call sent again
if served ~= ARGV[1] or redis.call('EXISTS', KEYS[2]) == 0 then return {'moved'} end
redis.call('SET', KEYS[1], ARGV[2])
return {'ok'}
