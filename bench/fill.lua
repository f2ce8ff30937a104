-- Fills redis so that its heap profile has many live stacks: each value is stored at the end of its
-- own path through pcall and string.gsub, which call back through different C functions.
local DEPTH, VALUE = 12, string.rep('x', 5000)

local function walk(path, depth, key)
    if depth == 0 then
        redis.call('SET', key, VALUE)
        return
    end
    local function step() walk(math.floor(path / 2), depth - 1, key) end
    if path % 2 == 0 then pcall(step) else string.gsub('x', 'x', step) end
end

for path = 0, tonumber(ARGV[1]) - 1 do walk(path, DEPTH, 'stack:' .. path) end
return redis.call('DBSIZE')
