"""The Lua scripts. Redis runs each one atomically, and a client may send each one twice.

The scripts compare strings and never parse a manifest. The client works out which manifests fall
out of the list. Its result is valid because the script checks that the newest manifest has not
changed.
"""

ACQUIRE = """
-- KEYS lease, token, head, frozen
-- ARGV holder, lease in ms, nonce of the token, longest lease in ms
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  -- The holder's name ends with the length of its lease. If more than twice that is left, the clock
  -- of Redis was set back, and the lease counts as expired. Twice, because a living learner must
  -- not lose its lease to a small step of the clock.
  local longest = tonumber(ARGV[4])
  local length = math.min(tonumber(string.match(holder, ':(%d+)$')) or longest, longest)
  local left = redis.pcall('PTTL', KEYS[1])
  -- A lease without an expiry was restored from a dump and belongs to nobody. A user whose ACL
  -- forbids PTTL waits.
  if type(left) ~= 'number' or (left ~= -1 and left <= 2 * length) then return {''} end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local counter = tonumber(string.match(redis.call('GET', KEYS[2]) or '', '^(%d+):') or '0') + 1
local token = string.format('%.0f', counter) .. ':' .. ARGV[3]
redis.call('SET', KEYS[2], token)
return {token, redis.call('GET', KEYS[4]) or '', redis.call('LRANGE', KEYS[3], 0, -1)}
"""

RENEW = """
-- KEYS lease, token, frozen  ARGV holder, lease in ms, token
local frozen = redis.call('GET', KEYS[3]) or ''
if redis.call('GET', KEYS[2]) ~= ARGV[3] then return {'FENCED', frozen} end
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return {'LOST', frozen} end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {'OK', frozen}
"""

RELEASE = """
-- KEYS lease  ARGV holder
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('UNLINK', KEYS[1]) end
return 'OK'
"""

# The push comes first. If Redis has no memory or disk left, the push fails and nothing has changed.
COMMIT = """
-- KEYS token, head, lease, new keys..., keys to remove...
-- ARGV token, token afterwards, manifest, newest manifest now, holder or '', lease in ms,
--      number of new keys, their lengths..., manifests to remove...
local newest = redis.call('LINDEX', KEYS[2], 0) or ''
if newest == ARGV[3] then return 'OK' end
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 'FENCED' end
if newest ~= ARGV[4] then return 'CONFLICT' end
local new = tonumber(ARGV[7])
for i = 1, new do
  if redis.call('STRLEN', KEYS[3 + i]) ~= tonumber(ARGV[7 + i]) then return 'INCOMPLETE' end
end
redis.call('LPUSH', KEYS[2], ARGV[3])
for i = 1, new do redis.call('PERSIST', KEYS[3 + i]) end
for i = 8 + new, #ARGV do redis.call('LREM', KEYS[2], 0, ARGV[i]) end
for i = 4 + new, #KEYS do redis.call('UNLINK', KEYS[i]) end
if ARGV[2] ~= ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) end
if ARGV[5] ~= '' then redis.call('SET', KEYS[3], ARGV[5], 'PX', ARGV[6]) end
return 'OK'
"""

DISCARD = """
-- KEYS head, chunks...  ARGV commit
-- FENCED may be the answer to the second sending of a commit that was made. So look for the commit
-- itself. Without its chunks a commit that arrives late is INCOMPLETE.
for _, manifest in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if string.find(manifest, ARGV[1], 1, true) then return 'KEPT' end
end
for i = 2, #KEYS do redis.call('UNLINK', KEYS[i]) end
return 'GONE'
"""

FREEZE = """
-- KEYS token, head, frozen  ARGV freeze, newest manifest, nonce of the token
local frozen = redis.call('GET', KEYS[3]) or ''
if frozen ~= '' then return frozen end
if (redis.call('LINDEX', KEYS[2], 0) or '') ~= ARGV[2] then return '' end
redis.call('SET', KEYS[3], ARGV[1])
local counter = tonumber(string.match(redis.call('GET', KEYS[1]) or '', '^(%d+):') or '0') + 1
redis.call('SET', KEYS[1], string.format('%.0f', counter) .. ':' .. ARGV[3])
return ARGV[1]
"""

FENCE = """
-- KEYS token, head  ARGV nonce of the token
local counter = tonumber(string.match(redis.call('GET', KEYS[1]) or '', '^(%d+):') or '0') + 1
local token = string.format('%.0f', counter) .. ':' .. ARGV[1]
redis.call('SET', KEYS[1], token)
return {token, redis.call('LRANGE', KEYS[2], 0, -1)}
"""
