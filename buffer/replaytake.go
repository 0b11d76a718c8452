package buffer

import (
	"context"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// admit makes the deliveries available whose version is published.
func (r *Replay) admit() {
	for len(r.coming) > 0 && r.coming[0].needs <= r.published {
		for _, it := range r.coming[0].items {
			r.insert(it)
		}
		r.next = r.coming[0].record + 1
		r.coming = r.coming[1:]
	}
}

// warm makes the groups available again that have cooled down.
func (r *Replay) warm() {
	now := time.Now()
	for len(r.cooling) > 0 && !r.draining() && !now.Before(r.cooling[0].due) {
		it := r.cooling[0].item
		r.cooling = r.cooling[1:]
		r.insert(it)
	}
}

// draining reports whether taken groups no longer come back. In lockstep they do until the
// trainer's last step, because the time at which explorers close depends on the clock.
func (r *Replay) draining() bool { return r.ended() && !r.Lockstep }

// setAlarm wakes the waiters when the next group has cooled down.
func (r *Replay) setAlarm() {
	if r.alarm != nil {
		r.alarm.Stop()
	}
	if len(r.cooling) == 0 || r.draining() {
		return
	}
	r.alarm = time.AfterFunc(time.Until(r.cooling[0].due), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.signal()
	})
}

// insert adds a group to the waiting ones. If the buffer is full, it drops the lowest priority.
func (r *Replay) insert(it *item) {
	if it.version < r.oldest {
		r.expire(it)
		return
	}
	var keep bool
	if it.priority, keep = r.rank(it); !keep {
		r.forget(it)
		return
	}
	if len(r.waiting.items) >= r.Capacity {
		lowest := r.waiting.items[0]
		if it.priority < lowest.priority {
			r.evict(it)
			return
		}
		r.waiting.remove(0)
		r.evict(lowest)
	}
	r.waiting.insert(it)
}

func (r *Replay) rank(it *item) (priority float64, keep bool) {
	return r.Priority.Priority(Replayed{Version: it.version, Uses: it.uses, Noise: it.noise(r.Seed)})
}

func (r *Replay) evict(it *item) {
	r.metrics.evicted += it.to - it.from
	r.forget(it)
}

func (r *Replay) expire(it *item) {
	r.metrics.expired += it.to - it.from
	r.forget(it)
}

// hold keeps the experiences of a group in memory, unless memory is full.
func (r *Replay) hold(it *item) {
	if r.bytes >= r.Memory {
		it.exps = nil
		return
	}
	for _, e := range it.exps {
		r.bytes += size(e)
	}
}

// forget frees the memory of a group's experiences.
func (r *Replay) forget(it *item) {
	for _, e := range it.exps {
		r.bytes -= size(e)
	}
	it.exps = nil
}

// available returns how many rollouts or experiences Take can give now.
func (r *Replay) available() int {
	n := r.count(slices.Concat(r.first...)) + r.waiting.size
	if r.rest != nil {
		n += r.rest.size
	}
	return n
}

// give takes the first n rollouts or experiences, or all if there are fewer.
func (r *Replay) give(ctx context.Context, n int) ([]trinity.Group, error) {
	out := r.giveFirst(n)
	n -= r.count(slices.Concat(out...))
	for joins := len(out) > 0; n > 0; joins = false {
		it, exps, err := r.best(ctx)
		if it == nil || err != nil {
			return out, err
		}
		exps = exps[:r.cut(it, exps, n)]
		n -= it.size
		r.forget(it)
		it.uses++
		r.metrics.used(it.uses, len(exps))
		if r.Cooldown != nil {
			r.cooling = append(r.cooling, cooling{it, time.Now().Add(*r.Cooldown)})
		}
		if joins { // the checkpoint may have the part before
			out = trinity.JoinGroups(out, exps)
		} else {
			out = append(out, exps)
		}
	}
	return out, nil
}

// giveFirst takes up to n rollouts or experiences from the groups of the checkpoint.
func (r *Replay) giveFirst(n int) (out []trinity.Group) {
	for len(r.first) > 0 && n > 0 {
		g := r.first[0]
		end := r.end(g, n)
		out = append(out, g[:end:end])
		n -= r.count(g[:end])
		if end < len(g) {
			r.first[0] = g[end:]
		} else {
			r.first = r.first[1:]
		}
	}
	return out
}

// best removes and returns the group that comes first; nil if there is none.
func (r *Replay) best(ctx context.Context) (*item, []*trinity.Experience, error) {
	it, at := r.rest, -1
	if it == nil {
		if at = r.waiting.first(); at < 0 {
			return nil, nil, nil
		}
		it = r.waiting.items[at]
	}
	exps, err := r.load(ctx, it)
	if err != nil {
		return nil, nil, err
	}
	if at < 0 {
		r.rest = nil
	} else {
		r.waiting.remove(at)
	}
	return it, exps, nil
}

// cut keeps n rollouts or experiences of a group and makes the others the rest. It returns the
// number of experiences that it keeps.
func (r *Replay) cut(it *item, exps []*trinity.Experience, n int) int {
	if it.size <= n {
		return len(exps)
	}
	end := r.end(exps, n)
	rest := *it
	rest.from, rest.size = it.from+end, it.size-n
	if it.exps != nil {
		it.exps, rest.exps = it.exps[:end], slices.Clone(it.exps[end:]) // a clone does not retain the given part
	}
	it.to, it.size = rest.from, n
	r.rest = &rest
	return end
}

// end returns the index after the first n rollouts or experiences.
func (r *Replay) end(exps []*trinity.Experience, n int) int {
	for i, e := range exps {
		counts := i == 0 || !r.ByRollout || !e.ID.Follows(exps[i-1].ID)
		if counts && n == 0 {
			return i
		}
		if counts {
			n--
		}
	}
	return len(exps)
}
