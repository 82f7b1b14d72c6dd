-- JSON documents that are fields of hashes, each of one. Writes nothing.
--
-- KEYS  the hashes     ARGV  the field of each, then how many bytes are enough
-- Replies one text, a line for each document, which has no line feed; empty for one that is not there. Where there are
-- enough, those that follow are left out.

local found, room = {}, tonumber(ARGV[#KEYS + 1])
for n, key in ipairs(KEYS) do
  if room <= 0 then break end
  found[n] = redis.call('HGET', key, ARGV[n]) or ''
  room = room - #found[n]
end
return table.concat(found, '\n')
