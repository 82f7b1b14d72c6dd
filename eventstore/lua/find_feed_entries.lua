-- Find out which of these entries a feed still holds. Writes nothing.
--
-- KEYS  1 feed
-- ARGV  1… ids of entries, the oldest first
--
-- Replies {the newest entry that is older than the first that is gone ("0-0" = none, or none is gone), then for each id
-- "kept", "trimmed" (so old that it need not be kept) or "gone"}

local first_is_trimmed = false
if redis.call('EXISTS', KEYS[1]) == 1 then
  local known, info = {}, redis.call('XINFO', 'STREAM', KEYS[1])
  for n = 1, #info, 2 do known[info[n]] = info[n + 1] end
  first_is_trimmed = known['entries-added'] ~= known['length']
end
local reply, found = {'0-0'}, false
for n = 1, #ARGV do
  local id = ARGV[n]
  if #redis.call('XRANGE', KEYS[1], id, id) == 1 then
    reply[n + 1] = 'kept'
  else
    local before = redis.call('XREVRANGE', KEYS[1], id, '-', 'COUNT', 1)[1]
    reply[n + 1] = first_is_trimmed and not before and 'trimmed' or 'gone'
    if reply[n + 1] == 'gone' and not found then reply[1], found = before and before[1] or '0-0', true end
  end
end
return reply
