-- A page of some indexes in each of some partitions, and whether the models there are current. Writes nothing.
--
-- KEYS  for each partition: generation pointer, checkpoint, feed, deadlines, then its indexes (zsets)
-- ARGV  1 how many indexes a partition has   2 "asc" or "desc"   3 score of the cursor ("" = from the start)
--       4 its member   5 at most so many entries of an index   6 at most so many overdue sessions
--       7… for each partition: the generation of the keys
--
-- Replies for each partition one text, since lines are cheaper to read than replies, and no name has a line feed:
-- the generation that is served; and if that is the one of the keys: "1" if the models are behind the feed, number of
-- entries in all, number of overdue sessions, those; for each index number of entries, then member and score of each

local indexes, order, member, limit = tonumber(ARGV[1]), ARGV[2], ARGV[4], tonumber(ARGV[5])
local cursor = tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))

local function precedes(one, other)  -- byte by byte, as the server sorts; `<` would ask its locale
  for n = 1, math.min(#one, #other) do
    local a, b = one:byte(n), other:byte(n)
    if a ~= b then return a < b end
  end
  return #one < #other
end

local function is_past(entry, score)
  if order == 'asc' then return score > cursor or (score == cursor and precedes(member, entry)) end
  return score < cursor or (score == cursor and precedes(entry, member))
end

local function range(index, first, last)
  if order == 'asc' then return redis.call('ZRANGE', index, first, last, 'WITHSCORES') end
  return redis.call('ZRANGE', index, first, last, 'REV', 'WITHSCORES')
end

local function start(index)
  local low, high = 0, cursor and redis.call('ZCARD', index) or 0
  while low < high do
    local middle = math.floor((low + high) / 2)
    local entry = range(index, middle, middle)
    if is_past(entry[1], tonumber(entry[2])) then high = middle else low = middle + 1 end
  end
  return low
end

local function add(lines, found, size)
  lines[#lines + 1] = #found / size
  for _, part in ipairs(found) do lines[#lines + 1] = part end
end

local function page(generation, at)
  local newest = redis.call('XREVRANGE', KEYS[at + 2], '+', '-', 'COUNT', 1)[1]
  local behind = newest and newest[1] ~= redis.call('GET', KEYS[at + 1])
  local lines = {generation, behind and '1' or '0', 0}
  add(lines, redis.call('ZRANGEBYSCORE', KEYS[at + 3], '-inf', now, 'LIMIT', 0, ARGV[6]), 1)
  for n = 1, indexes do
    local index = KEYS[at + 3 + n]
    lines[3] = lines[3] + redis.call('ZCARD', index)
    local first = start(index)
    add(lines, range(index, first, first + limit - 1), 2)
  end
  return table.concat(lines, '\n')
end

local replies = {}
for n = 7, #ARGV do
  local at = 1 + (n - 7) * (4 + indexes)
  local generation = redis.call('GET', KEYS[at]) or '0'
  replies[#replies + 1] = generation == ARGV[n] and page(generation, at) or generation
end
return replies
