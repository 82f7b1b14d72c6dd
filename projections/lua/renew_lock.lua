-- Go on holding a lock, or let go of it.
--
-- KEYS  1 lock
-- ARGV  1 what its holder wrote into it   2 hold it for so many ms more ("0" = let go)
--
-- Replies 1, or 0 if it is somebody else's by now.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then return redis.call('DEL', KEYS[1]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
