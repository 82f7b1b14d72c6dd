-- Find out which commands the user of this connection may not run. Writes nothing.
--
-- KEYS  none
-- ARGV  1… commands, each with its arguments, between spaces
--
-- Replies those that would be refused. An engine that cannot tell refuses none of them.

local refused = {}
if not redis.acl_check_cmd then return refused end
for n = 1, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[n], '%S+') do words[#words + 1] = word end
  if not redis.acl_check_cmd(unpack(words)) then refused[#refused + 1] = ARGV[n] end
end
return refused
