package buffer

import "github.com/redis/go-redis/v9"

// The scripts of a Redis buffer: each is executed as a whole. KEYS are the hash, the stream of experiences and that of news. A script whose hash is gone
// changes nothing and answers "gone", and one that has changed something puts an entry into the news.
const (
	redisPrologue = `
local hash, stream, news = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', hash) == 0 then return 'gone' end
local function get(field) return redis.call('HGET', hash, field) end
local function number(field) return tonumber(get(field) or '0') end
local function set(...) redis.call('HSET', hash, ...) end
local function text(n) return string.format('%.0f', n) end
local function tell(what) redis.call('XADD', news, 'MAXLEN', '~', '100', '*', 'what', what) return 'ok' end
`
	explorerPrologue = redisPrologue + `
local name, session = ARGV[1], ARGV[2]
local own = 'explorer:' .. name .. ':'
`
	// sessions refuses an explorer whose last delivery, of this number, is not there, and one whose name another process has taken.
	sessions = explorerPrologue + `
local last = tonumber(ARGV[3])
if number(own .. 'delivery') < last then return 'lost' end
if get(own .. 'session') ~= session then return 'other' end
`
	trainers = redisPrologue + `
if get('trainer') ~= ARGV[1] then return 'other' end
`
)

var (
	// redisMake makes the hash where there is none.
	redisMake = redis.NewScript(`return redis.call('HSETNX', KEYS[1], 'put', '0')`)

	// redisResume(explorer, session) answers the number of the last delivery and, where it had one, the cursor.
	redisResume = redis.NewScript(explorerPrologue + `
set(own .. 'session', session, own .. 'paused', '0', own .. 'closed', '0')
redis.call('HSETNX', hash, own .. 'delivery', '0')
tell('resume')
return {get(own .. 'delivery'), get(own .. 'cursor')}`)

	// redisLast(explorer, session, last delivery known) answers the number of the last delivery.
	redisLast = redis.NewScript(sessions + `
return get(own .. 'delivery')`)

	// redisPut(explorer, session, delivery before, capacity, needs, cursor or "", rollouts, experiences, and of each its rollout within the delivery and the fields
	// of putFields). A delivery that is there already is not put again.
	redisPut = redis.NewScript(sessions + `
local delivery = text(last + 1)
if get(own .. 'delivery') == delivery then return 'ok' end
if get(own .. 'closed') == '1' or get('closed') == '1' then return 'ended' end
local put, rollouts, count = number('put'), number('put_rollouts'), tonumber(ARGV[8])
if count > 0 and rollouts - number('taken_rollouts') >= tonumber(ARGV[4]) then return 'full' end
local at = 9
for i = 1, count do
	redis.call('XADD', stream, text(put + i) .. '-0', 'explorer', name, 'delivery', delivery, 'needs', ARGV[5], 'rollout', text(rollouts + tonumber(ARGV[at])),
		'step', ARGV[at + 1], 'task', ARGV[at + 2], 'run', ARGV[at + 3], 'turn', ARGV[at + 4], 'version', ARGV[at + 5], 'reward', ARGV[at + 6],
		'prompt', ARGV[at + 7], 'response', ARGV[at + 8], 'experience', ARGV[at + 9])
	at = at + 10
end
set('put', text(put + count), 'put_rollouts', text(rollouts + tonumber(ARGV[7])), own .. 'delivery', delivery)
if ARGV[6] == '' then redis.call('HDEL', hash, own .. 'cursor') else set(own .. 'cursor', ARGV[6]) end
return tell('put')`)

	// redisSet(explorer, session, last delivery, what, value) sets what is known of an explorer.
	redisSet = redis.NewScript(sessions + `
set(own .. ARGV[4], ARGV[5])
return tell(ARGV[4])`)

	// redisClaim(trainer, taken, rollouts) makes a process the trainer.
	redisClaim = redis.NewScript(redisPrologue + `
local taken, trimmed = tonumber(ARGV[2]), number('trimmed')
if taken > number('put') then return 'ahead' end
if taken < trimmed then return 'trimmed' end
if taken > trimmed and #redis.call('XRANGE', stream, ARGV[2] .. '-0', ARGV[2] .. '-0') == 0 then return 'ahead' end
set('trainer', ARGV[1], 'closed', '0', 'taken', ARGV[2], 'taken_rollouts', ARGV[3])
return tell('trainer')`)

	// redisTake(trainer, taken, rollouts) says what was taken.
	redisTake = redis.NewScript(trainers + `
set('taken', ARGV[2], 'taken_rollouts', ARGV[3])
return tell('take')`)

	// redisTrim(trainer, taken) removes what was taken.
	redisTrim = redis.NewScript(trainers + `
local taken = tonumber(ARGV[2])
if taken <= number('trimmed') then return 'ok' end
if #redis.call('XRANGE', stream, ARGV[2] .. '-0', ARGV[2] .. '-0') == 0 then return 'gone' end
set('trimmed', ARGV[2])
redis.call('XTRIM', stream, 'MINID', text(taken + 1) .. '-0')
return 'ok'`)

	// redisEnd(trainer) says that nothing more is taken.
	redisEnd = redis.NewScript(trainers + `
set('closed', '1')
return tell('end')`)
)
