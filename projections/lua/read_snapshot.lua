-- Everything stored that a session's snapshot shows, as of one moment. Writes nothing.
--
-- KEYS  1 head  2 generation pointer  3 view  4 steps  5 calls  6 order of the calls
-- ARGV  1 how many steps, and how many calls that are not open
--
-- Replies {now, generation or false, {revision, seq, due} of the head, {seq, record} of the view,
--          {step…}, {name of a call, call…} in the order they were asked}

local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
local shown = tonumber(ARGV[1])
local head = redis.call('HMGET', KEYS[1], 'rev', 'seq', 'due')
local view = redis.call('HMGET', KEYS[3], 'seq', 'record', 'open')
local open = view[3] and view[3] ~= '' and cjson.decode(view[3]) or {}

local is_open = {}
for _, name in ipairs(open) do is_open[name] = true end
local newest = redis.call('LRANGE', KEYS[6], -shown - #open, -1)
local others, in_range = 0, {}
for n = #newest, 1, -1 do
  in_range[newest[n]] = true
  if not is_open[newest[n]] then
    others = others + 1
    if others > shown then newest[n] = false end
  end
end

local calls = {}
local function add(name)
  calls[#calls + 1] = name
  calls[#calls + 1] = redis.call('HGET', KEYS[5], name)
end
for _, name in ipairs(open) do
  if not in_range[name] then add(name) end
end
for _, name in ipairs(newest) do
  if name then add(name) end
end
return {now, redis.call('GET', KEYS[2]), head, {view[1], view[2]}, redis.call('LRANGE', KEYS[4], -shown, -1), calls}
