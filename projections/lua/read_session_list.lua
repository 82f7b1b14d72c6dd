-- A stretch of the steps or of the calls of one session, as of one moment. Writes nothing.
--
-- KEYS  1 head   2 generation pointer   3 view   4 steps, or order of the calls   5 only for these: the calls
-- ARGV  1 start with this one, from 0   2 end with this one   3 how many bytes are enough
--
-- Replies {now, generation or false, {revision, seq, due} of the head, seq of the view or false, document…}; where there
-- are enough, an empty text stands for all that follow

local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
local head = redis.call('HMGET', KEYS[1], 'rev', 'seq', 'due')
local reply = {now, redis.call('GET', KEYS[2]), head, redis.call('HGET', KEYS[3], 'seq')}
local room = tonumber(ARGV[3])
for _, document in ipairs(redis.call('LRANGE', KEYS[4], ARGV[1], ARGV[2])) do
  if room <= 0 then
    reply[#reply + 1] = ''
    break
  end
  if KEYS[5] then document = redis.call('HGET', KEYS[5], document) end
  reply[#reply + 1] = document
  room = room - #document
end
return reply
