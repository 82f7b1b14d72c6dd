-- What a projector has not taken in yet. Writes nothing.
--
-- KEYS  1 generation pointer   2 checkpoint   3 feed
-- ARGV  1 at most so many entries
--
-- Replies {generation or false, checkpoint or false, newest feed id or false, "1" if what follows the checkpoint may
--          have been trimmed, else "0", {id, {field, value…}}…}

local newest = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)
local checkpoint = redis.call('GET', KEYS[2])
local reply = {redis.call('GET', KEYS[1]), checkpoint, newest[1] and newest[1][1] or false, '0'}
if not newest[1] or newest[1][1] == checkpoint then return reply end

if checkpoint and checkpoint ~= '' then
  -- The newest entries are kept: if this one is gone, so may be some that came later.
  if #redis.call('XRANGE', KEYS[3], checkpoint, checkpoint) == 0 then reply[4] = '1' end
else
  local known, info = {}, redis.call('XINFO', 'STREAM', KEYS[3])
  for n = 1, #info, 2 do known[info[n]] = info[n + 1] end
  if known['entries-added'] ~= known['length'] then reply[4] = '1' end
end
if reply[4] == '1' then return reply end

local after = checkpoint and checkpoint ~= '' and '(' .. checkpoint or '-'
for _, entry in ipairs(redis.call('XRANGE', KEYS[3], after, '+', 'COUNT', ARGV[1])) do reply[#reply + 1] = entry end
return reply
