package tinker

import (
	"context"
	"slices"
	"time"
)

// share is what somebody has had at a queue, in tokens, and how it is divided over its parts. The part that has had the least
// comes next, a slice at a time. Who has been away has no credit: it counts as having had what the others have.
type share struct {
	had     int64
	level   int64 // what the part had had that got the last turn: none that comes counts as having had less
	served  int64 // its last turn, which decides between two that have had as much
	busy    int   // turns that it waits for, or has
	running int   // turns that it has
	parts   map[string]*share
}

// A part that comes has had at most maxDebt tokens more than the others, which it waits for. maxParts bounds the parts that
// are remembered while they do nothing.
const maxDebt, maxParts = 16 << 10, 1024

// part returns a part, which it makes if there is none.
func (s *share) part(name string) *share {
	if p := s.parts[name]; p != nil {
		return p
	}
	if s.parts == nil {
		s.parts = map[string]*share{}
	}
	if len(s.parts) > maxParts {
		for other, x := range s.parts {
			if x.busy == 0 {
				delete(s.parts, other)
			}
		}
	}
	p := &share{had: s.level}
	s.parts[name] = p
	return p
}

// join counts a turn of a part.
func (s *share) join(name string) *share {
	p := s.part(name)
	if p.busy == 0 {
		p.had = min(p.had, s.level+maxDebt)
	}
	p.busy++
	return p
}

// queue gives turns at something that has room for so many units at once.
type queue struct {
	account *account
	room    int
	slice   int64 // tokens of the longest slice
	free    int
	keys    share // parts are keys, and their parts models or samplers
	lanes   []*lane
	isTimed bool // a timer will look at keys that are paused
}

func newQueue(a *account, room, slice int) *queue {
	q := &queue{account: a, room: room, free: room, slice: int64(slice)}
	a.queues = append(a.queues, q)
	return q
}

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
	isFirst bool          // its part neither waited for a turn nor had one
	given   chan struct{} // closed when it is
	isGiven bool
	spent   int  // tokens that were charged
	repeats bool // what the service has lost: its key's tokens of an hour were charged before
}

// ask asks for a turn of a part of a key.
func (q *queue) ask(key, part string, units int) *turn {
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	k := q.keys.join(key)
	t := &turn{q: q, who: who{key, k, k.join(part)}, units: min(units, q.room)}
	t.isFirst = t.part.busy == 1
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
		next, wait := q.next()
		if next == nil && !q.isTimed {
			q.isTimed = true
			q.account.after(wait, q.look)
		}
		if next == nil || next.units > q.free {
			return
		}
		q.take(q.laneOf(next), 0)
		q.free -= next.units
		q.account.turns++
		for _, x := range []struct{ all, one *share }{{&q.keys, next.key}, {next.key, next.part}} {
			if !x.one.leads(x.all, next, q.slice) {
				x.all.level = x.one.had
			}
			x.one.served = q.account.turns
			x.one.running++
		}
		next.isGiven = true
		close(next.given)
	}
}

// next returns the turn that comes next: that of the key, and then of its part, that has had the least. If all keys are paused
// it returns nil, and for how long.
func (q *queue) next() (next *turn, wait time.Duration) {
	best := map[*share]*turn{}
	for _, l := range q.lanes {
		if d := q.account.paused(l.keyName); d > 0 {
			if wait == 0 || d < wait {
				wait = d
			}
			continue
		}
		l.key.had, l.part.had = max(l.key.had, q.keys.level), max(l.part.had, l.key.level) // who was paused has no credit
		t := l.turns[0]
		if other := best[t.key]; other == nil || t.before(other, t.key, t.part, other.part) {
			best[t.key] = t
		}
	}
	for _, t := range best {
		if next == nil || t.before(next, &q.keys, t.key, next.key) {
			next = t
		}
	}
	return next, wait
}

// look gives turns to keys that were paused.
func (q *queue) look() {
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	q.isTimed = false
	q.give()
}

// leads reports whether a part comes before all others: its turn is a first one, and it has had a slice more than another at most.
// So a short request of it waits for the slice that is computed, and not for those of all others.
func (s *share) leads(all *share, t *turn, slice int64) bool {
	return t.isFirst && s.running == 0 && s.had-all.level <= slice
}

// before reports whether a turn comes before another one, of two parts of all.
func (t *turn) before(other *turn, all, a, b *share) bool {
	aLeads, bLeads := a.leads(all, t, t.q.slice), b.leads(all, other, t.q.slice)
	switch {
	case a == b || aLeads && bLeads:
		return t.came < other.came
	case aLeads != bLeads:
		return aLeads
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
	if !t.repeats {
		t.q.account.count(t.keyName, what, tokens)
	}
}

// charge takes tokens that the turn computes from the key.
func (t *turn) charge(tokens int) {
	q := t.q
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	t.spent += tokens
	t.part.had += int64(tokens)
	for _, each := range q.account.queues {
		each.keys.part(t.keyName).had += int64(tokens)
	}
	if q.account.paused(t.keyName); q.account.budgets[t.keyName] != nil && !t.repeats {
		q.account.budgets[t.keyName].left -= float64(tokens)
	}
}

// again asks for the next turn at the end of this one.
func (t *turn) again() {
	t.q.account.mu.Lock()
	defer t.q.account.mu.Unlock()
	t.stop()
	t.isFirst = false
	t.q.put(t)
}

// stop gives back the room of a turn. The mutex is held.
func (t *turn) stop() {
	t.isGiven = false
	t.q.free += t.units
	t.key.running--
	t.part.running--
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
		t.stop()
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
