-- Read the feed of a partition on from one of its entries. Writes nothing.
--
-- KEYS  1 feed
-- ARGV  1 the last entry that was consumed ("0-0" = none yet)   2 the tenant whose entries are told
--       3 look at so many entries at most                       4 "1" = tell that last entry once more
--
-- Replies {"ok", the last entry looked at, "1" if more follow, else "0", entry…}, an entry being
--   {id, session, first seq, last seq, types} or, of a deletion, {id, session}; or one of
--   {"begun", newest id}  nothing was consumed yet, and the first entries are no longer kept
--   {"old"}               the last entry that was consumed is no longer kept
--   {"other", id}         it should be there, and is not: this feed has another past. The newest entry that is older
--                         ("0-0" = none) is the last that both have

local ROOM = 64 * 1024
local after, tenant, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local fresh = after == '0-0'
local skip = fresh and 0 or 1

local entries = redis.call('XRANGE', KEYS[1], after, '+', 'COUNT', skip + limit + 1)
local function trimmed()
  if redis.call('EXISTS', KEYS[1]) == 0 then return false end
  local known, info = {}, redis.call('XINFO', 'STREAM', KEYS[1])
  for n = 1, #info, 2 do known[info[n]] = info[n + 1] end
  return known['entries-added'] ~= known['length'] and known['last-generated-id']
end
if not fresh and (not entries[1] or entries[1][1] ~= after) then
  local before = redis.call('XREVRANGE', KEYS[1], after, '-', 'COUNT', 1)[1]
  if not before and trimmed() then return {'old'} end
  return {'other', before and before[1] or '0-0'}
end
local newest = fresh and entries[1] and trimmed()
if newest then return {'begun', newest} end

local reply, room = {'ok', after, '0'}, ROOM
local function tell(id, fields)
  if fields[2] ~= tenant then return end
  if fields[5] == 'd' then
    reply[#reply + 1] = {id, fields[4]}
  else
    reply[#reply + 1] = {id, fields[4], fields[6], fields[8], fields[10]}
    room = room - #fields[10]
  end
end
if ARGV[4] == '1' and not fresh then tell(after, entries[1][2]) end
for n = skip + 1, #entries do
  if n > skip + limit or room < 0 then
    reply[3] = '1'
    break
  end
  reply[2] = entries[n][1]
  tell(entries[n][1], entries[n][2])
end
return reply
