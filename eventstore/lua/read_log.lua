-- Read stored lines, and what is known of the session at the same moment. Writes nothing.
--
-- KEYS  1 head  2 events
-- ARGV  1 sequence number to start at (negative: so many from the end; 0: the end)   2 "asc" or "desc"
--       3 at most so many lines   4 at most so many bytes, but always one line
--
-- Replies {now, revision, status, seq, due, sequence number of the first line, chain hash of the event before the first
-- line ("" = there is none, or the order is descending), chain hash of the last line ("" = no line), line…}; sequence
-- numbers are dense, so a log with a hole is read up to the hole.

local SLICE = 64
local clock = redis.call('TIME')
local head = redis.call('HMGET', KEYS[1], 'rev', 'status', 'seq', 'due')
local function whole(number) return string.format('%.0f', number) end
local last = tonumber(head[3] or 0)
local start, limit, room = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
local step = ARGV[2] == 'desc' and -1 or 1
if start == 0 then start = step == 1 and last + 1 or last end
if start < 0 then start = math.max(1, last + 1 + start) end
if step == -1 then start = math.min(start, last) end

local now = whole(clock[1] * 1000 + math.floor(clock[2] / 1000))
local reply = {now, head[1], head[2], head[3], head[4], whole(start), '', ''}
if step == 1 and start > 1 then
  local before = whole(start - 1) .. '-0'
  local entry = redis.call('XRANGE', KEYS[2], before, before)[1]
  reply[7] = entry and entry[2][4] or ''
end
local at, count = start, 0
while count < limit and at >= 1 and at <= last do
  local slice = math.min(SLICE, limit - count)
  local entries
  if step == 1 then
    entries = redis.call('XRANGE', KEYS[2], whole(at) .. '-0', '+', 'COUNT', slice)
  else
    entries = redis.call('XREVRANGE', KEYS[2], whole(at) .. '-0', '-', 'COUNT', slice)
  end
  if #entries == 0 then break end
  for _, entry in ipairs(entries) do
    local line = entry[2][2]
    if entry[1] ~= whole(at) .. '-0' or (count > 0 and #line > room) then return reply end
    count, room, at = count + 1, room - #line, at + step
    reply[8 + count], reply[8] = line, entry[2][4] or ''
  end
end
return reply
