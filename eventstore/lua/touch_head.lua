-- Write the revision of a session once more, unchanged: what is confirmed after that write was there before it.
--
-- KEYS  1 head
-- ARGV  none
--
-- Replies 1, or 0 where there is no such session. For engines that confirm only the writes of the same connection.

local revision = redis.call('HGET', KEYS[1], 'rev')
if not revision then return 0 end
redis.call('HSET', KEYS[1], 'rev', revision)
return 1
