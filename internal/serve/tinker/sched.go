package tinker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// account divides what the service computes by tokens: over keys, and over what a key has, such as its models. Training and
// sampling share it. Who has had the least comes next, a slice at a time. So a newcomer waits for one slice at most; a round
// of deficit round robin may have several.
type account struct {
	mu      sync.Mutex
	now     func() time.Time
	after   func(time.Duration, func())
	perHour func(key string) int64 // tokens; 0 bounds nothing
	keys    share                  // parts are keys, and their parts models and samplers
	budgets map[string]*budget
	turns   int64 // that were asked for and given
	used    map[string]map[work]int64
}

func newAccount(perHour func(key string) int64) *account {
	after := func(d time.Duration, do func()) { time.AfterFunc(d, do) }
	return &account{now: time.Now, after: after, perHour: perHour, budgets: map[string]*budget{}, used: map[string]map[work]int64{}}
}

// share is what somebody has had, in tokens, and how it is divided over its parts.
type share struct {
	had    int64
	served int64 // its last turn, which decides between two that have had as much
	busy   int   // turns that it waits for, or has
	parts  map[string]*share
	floor  int64 // the least that a busy part has had
}

// A part that comes has had at most maxDebt tokens more than the others, which it waits for, and at most maxCredit less, as one
// has that was away for a moment. maxParts bounds the parts that are remembered while they do nothing.
const maxDebt, maxCredit, maxParts = 16 << 10, 4 << 10, 1024

// join counts a turn of a part.
func (s *share) join(name string) *share {
	s.rise()
	if s.parts == nil {
		s.parts = map[string]*share{}
	}
	p := s.parts[name]
	if p == nil {
		if len(s.parts) > maxParts {
			for other, x := range s.parts {
				if x.busy == 0 {
					delete(s.parts, other)
				}
			}
		}
		p = &share{}
		s.parts[name] = p
	}
	if p.busy == 0 {
		p.had = min(max(p.had, s.floor-maxCredit), s.floor+maxDebt)
	}
	p.busy++
	return p
}

// rise lifts the floor to the least that a busy part has had.
func (s *share) rise() {
	least, isBusy := int64(0), false
	for _, p := range s.parts {
		if p.busy > 0 && (!isBusy || p.had < least) {
			least, isBusy = p.had, true
		}
	}
	if isBusy {
		s.floor = max(s.floor, least)
	}
}

// budget is what is left of a key's tokens of an hour. It fills steadily.
type budget struct {
	left float64
	at   time.Time
}

// paused returns how long a key that has used its tokens must wait. The mutex is held.
func (a *account) paused(key string) time.Duration {
	limit := float64(a.perHour(key))
	if limit <= 0 {
		return 0
	}
	now := a.now()
	b := a.budgets[key]
	if b == nil {
		b = &budget{limit, now}
		a.budgets[key] = b
	}
	b.left = min(limit, b.left+limit*now.Sub(b.at).Hours())
	b.at = now
	if b.left > 0 {
		return 0
	}
	return time.Duration((1 - b.left) / limit * float64(time.Hour))
}

// pause returns how long a key that has used its tokens must wait, and says so.
func (a *account) pause(key string) (wait time.Duration, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wait = a.paused(key); wait > 0 {
		why = fmt.Sprintf("the key %s has used its %d tokens of an hour: more in %v", key, a.perHour(key), wait.Round(time.Second)+time.Second)
	}
	return wait, why
}

// queue gives turns at something that has room for so many units at once.
type queue struct {
	account *account
	room    int
	free    int
	lanes   []*lane
	isTimed bool // a timer will look at keys that are paused
}

func newQueue(a *account, room int) *queue { return &queue{account: a, room: room, free: room} }

// who is a part of a key that takes turns.
type who struct {
	keyName   string
	key, part *share
}

// lane are the turns that a part waits for, in the order in which they came. A queue has none that is empty.
type lane struct {
	who
	turns []*turn
}

// turn is a turn at a queue, which is waited for or given.
type turn struct {
	who
	q *queue

	units   int
	came    int64
	given   chan struct{} // closed when it is
	isGiven bool
	spent   int // tokens that were charged
}

// ask asks for a turn of a part of a key.
func (q *queue) ask(key, part string, units int) *turn {
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	k := q.account.keys.join(key)
	t := &turn{q: q, who: who{key, k, k.join(part)}, units: min(units, q.room)}
	q.put(t)
	return t
}

// enter waits for a turn of a part of a key. The caller charges it, and leaves.
func (q *queue) enter(ctx context.Context, key, part string, units int) (*turn, error) {
	t := q.ask(key, part, units)
	return t, t.wait(ctx)
}

// put makes a turn wait. The mutex is held.
func (q *queue) put(t *turn) {
	q.account.turns++
	t.came, t.given = q.account.turns, make(chan struct{})
	at := q.laneOf(t)
	if at < 0 {
		at = len(q.lanes)
		q.lanes = append(q.lanes, &lane{who: t.who})
	}
	q.lanes[at].turns = append(q.lanes[at].turns, t)
	q.give()
}

// laneOf returns the place of a turn's lane, -1 if there is none.
func (q *queue) laneOf(t *turn) int {
	return slices.IndexFunc(q.lanes, func(l *lane) bool { return l.part == t.part })
}

// take takes a turn out of its lane.
func (q *queue) take(lane, at int) {
	l := q.lanes[lane]
	if l.turns = slices.Delete(l.turns, at, at+1); len(l.turns) == 0 {
		q.lanes = slices.Delete(q.lanes, lane, lane+1)
	}
}

// give gives turns while there is room. The mutex is held.
func (q *queue) give() {
	for len(q.lanes) > 0 {
		next, wait := -1, time.Duration(0)
		for i, l := range q.lanes {
			if d := q.account.paused(l.keyName); d > 0 {
				if wait == 0 || d < wait {
					wait = d
				}
			} else if next < 0 || l.turns[0].before(q.lanes[next].turns[0]) {
				next = i
			}
		}
		if next < 0 && !q.isTimed {
			q.isTimed = true
			q.account.after(wait, q.look)
		}
		if next < 0 || q.lanes[next].turns[0].units > q.free {
			return
		}
		t := q.lanes[next].turns[0]
		q.take(next, 0)
		q.free -= t.units
		q.account.turns++
		t.key.served, t.part.served, t.isGiven = q.account.turns, q.account.turns, true
		close(t.given)
	}
}

// look gives turns to keys that were paused.
func (q *queue) look() {
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	q.isTimed = false
	q.give()
}

// before reports whether a turn comes before another one.
func (t *turn) before(other *turn) bool {
	a, b := t.key, other.key
	if a == b {
		a, b = t.part, other.part
	}
	switch {
	case a == b:
		return t.came < other.came
	case a.had != b.had:
		return a.had < b.had
	case a.served != b.served:
		return a.served < b.served
	}
	return t.came < other.came
}

// wait waits until the turn is given. If it is an error, the turn is over.
func (t *turn) wait(ctx context.Context) error {
	select {
	case <-t.given:
		return nil
	case <-ctx.Done():
		t.leave()
		return context.Cause(ctx)
	}
}

// compute charges tokens, and counts them among what the key has used.
func (t *turn) compute(what work, tokens int) {
	t.charge(tokens)
	t.q.account.count(t.keyName, what, tokens)
}

// charge takes tokens that the turn computes from the key.
func (t *turn) charge(tokens int) {
	q := t.q
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	t.spent += tokens
	t.key.had += int64(tokens)
	t.part.had += int64(tokens)
	if q.account.paused(t.keyName); q.account.budgets[t.keyName] != nil {
		q.account.budgets[t.keyName].left -= float64(tokens)
	}
}

// again asks for the next turn at the end of this one.
func (t *turn) again() {
	t.q.account.mu.Lock()
	defer t.q.account.mu.Unlock()
	t.q.free += t.units
	t.isGiven = false
	t.q.put(t)
}

// yield lets others have theirs between two slices.
func (t *turn) yield(ctx context.Context) error {
	t.again()
	return t.wait(ctx)
}

// leave ends the turn, also one that is still waited for. The second time it does nothing.
func (t *turn) leave() {
	q := t.q
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	if t.isGiven {
		t.isGiven = false
		q.free += t.units
	} else {
		in, at := q.laneOf(t), -1
		if in >= 0 {
			at = slices.Index(q.lanes[in].turns, t)
		}
		if at < 0 {
			return
		}
		q.take(in, at)
	}
	t.key.busy--
	t.part.busy--
	q.give()
}

// units returns the units that turns of a key wait for.
func (q *queue) units(key string) (sum int) {
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	for _, l := range q.lanes {
		for _, t := range l.turns {
			if l.keyName == key {
				sum += t.units
			}
		}
	}
	return sum
}
