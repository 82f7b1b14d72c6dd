-- JSON documents that are fields of hashes, each of one. Writes nothing.
--
-- KEYS  the hashes     ARGV  the field of each
-- Replies one text, a line for each document, which has no line feed; empty for one that is not there

local found = {}
for n, key in ipairs(KEYS) do found[n] = redis.call('HGET', key, ARGV[n]) or '' end
return table.concat(found, '\n')
