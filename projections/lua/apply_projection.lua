-- Apply what a projector made of the feed, together with how far it has come; or nothing.
--
-- KEYS  1 generation pointer   2 checkpoint   3… the keys of the models, and of the logs that they were folded from
-- ARGV  1 "served" or "built": whether the generation must be the one that is served   2 the generation
--       3 expected checkpoint ("" = none yet)   4 new checkpoint   5 number of views that were folded on
--       6 number of logs that were folded from
--       then for each of those views: number of its key in KEYS, the seq it was folded on from ("" = none yet)
--       then for each of those logs: number of its key in KEYS, id and hash of the newest entry that was folded
--       then for each command: its name, number of its key in KEYS, number of other arguments, those
--
-- Replies {"ok"}, or with nothing changed {"moved"}: somebody was here first, and this reading is old; or {"gone"}:
-- the generation that was being built has been cleared away.

local checkpoint = redis.call('GET', KEYS[2])
if ARGV[1] == 'built' and not checkpoint then return {'gone'} end
if ARGV[1] == 'served' and (redis.call('GET', KEYS[1]) or '0') ~= ARGV[2] then return {'moved'} end
if (checkpoint or '') ~= ARGV[3] then return {'moved'} end
local at_logs = 7 + 2 * tonumber(ARGV[5])
local at_writes = at_logs + 3 * tonumber(ARGV[6])
for n = 7, at_logs - 1, 2 do
  if (redis.call('HGET', KEYS[tonumber(ARGV[n])], 'seq') or '') ~= ARGV[n + 1] then return {'moved'} end
end
for n = at_logs, at_writes - 1, 3 do  -- a log may have lost what was read of it
  local entry = redis.call('XRANGE', KEYS[tonumber(ARGV[n])], ARGV[n + 1], ARGV[n + 1])[1]
  if not entry or (entry[2][4] or '') ~= ARGV[n + 2] then return {'moved'} end
end

local n = at_writes
while n <= #ARGV do
  local command, key, count = ARGV[n], KEYS[tonumber(ARGV[n + 1])], tonumber(ARGV[n + 2])
  redis.call(command, key, unpack(ARGV, n + 3, n + 2 + count))
  n = n + 3 + count
end
redis.call('SET', KEYS[2], ARGV[4])
return {'ok'}
