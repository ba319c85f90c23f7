"""The decisions, in Lua, so that each is made whole and at one moment; all may be sent twice.

They compare strings and never parse a manifest: what falls out is worked out by the client, and holds because the
newest manifest is still the one the client saw.
"""

ACQUIRE = """
-- KEYS lease, token, head, frozen  ARGV holder, lease in ms, nonce of the token
local holder = redis.call('GET', KEYS[1])
-- A lease that never ends is nobody's (a dump brought it back); a user that may not ask PTTL waits.
if holder and holder ~= ARGV[1] and redis.pcall('PTTL', KEYS[1]) ~= -1 then return {''} end
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

# The push comes first: without memory or disk it is what fails, and then nothing has happened.
COMMIT = """
-- KEYS token, head, lease, what is new..., what is no longer needed...
-- ARGV token, token afterwards, manifest, newest manifest now, holder or '', lease in ms,
--      how many are new, their lengths..., manifests that fall out...
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
-- Whether it was made is asked here and now: the answer FENCED may be that to a second sending. Without its chunks one
-- that comes late is INCOMPLETE.
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
