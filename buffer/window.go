package buffer

import "github.com/trinity-go/trinity"

// window holds the experiences of a queue that are in memory, in order.
type window struct {
	pending  []pending
	bytes    int64 // estimate
	rollouts int
}

// pending is an experience that nobody has taken yet.
type pending struct {
	*trinity.Experience
	begins bool     // it begins a rollout
	group  bool     // it begins a group
	needs  int64    // version, see trinity.Delivery
	after  position // of the next experience
	bytes  int64
	loose  bool // only a checkpoint has it, not the log
}

// holdAll adds the groups of a record from a position on. If the position is within a group, the
// rest of that group joins the part in the checkpoint.
func (w *window) holdAll(groups []trinity.Group, needs int64, pos position) {
	left := 0
	for _, g := range groups {
		left += len(g)
	}
	for i, g := range groups {
		for k, e := range g {
			left--
			pos.Index++
			after := pos
			if left == 0 {
				after = position{Record: pos.Record + 1}
			}
			w.hold(e, needs, after, k == 0 && (i > 0 || pos.Index == 1 || !w.continues(e)))
		}
	}
}

// continues reports whether an experience may belong to the group of the last one.
func (w *window) continues(e *trinity.Experience) bool {
	last := len(w.pending) - 1
	return last >= 0 && w.pending[last].ID.Step == e.ID.Step && w.pending[last].ID.Task == e.ID.Task
}

// held returns the number of rollouts or of experiences.
func (w *window) held(byRollout bool) int {
	if byRollout {
		return w.rollouts
	}
	return len(w.pending)
}

func (w *window) hold(e *trinity.Experience, needs int64, after position, group bool) {
	first := len(w.pending) == 0 || !e.ID.Follows(w.pending[len(w.pending)-1].ID)
	p := pending{Experience: e, begins: first, group: group, needs: needs, after: after, bytes: size(e)}
	w.pending = append(w.pending, p)
	w.bytes += p.bytes
	if p.begins {
		w.rollouts++
	}
}

// holdLoose adds the groups of a checkpoint, which come before the experiences at a position.
func (w *window) holdLoose(groups []trinity.Group, before position) {
	for _, g := range groups {
		for k, e := range g {
			w.hold(e, 0, before, k == 0)
			w.pending[len(w.pending)-1].loose = true
		}
	}
}

// loose returns the groups that the next checkpoint must hold.
func (w *window) loose() []trinity.Group {
	n := 0
	for n < len(w.pending) && w.pending[n].loose {
		n++
	}
	return grouped(w.pending[:n])
}

// grouped returns the groups of consecutive experiences; the first may be a part of a group.
func grouped(all []pending) (out []trinity.Group) {
	for i, p := range all {
		if i == 0 || p.group {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], p.Experience)
	}
	return out
}

// take removes the first n experiences. It returns their groups, and the position after them.
func (w *window) take(n int) (out []trinity.Group, after position) {
	out = grouped(w.pending[:n])
	for _, p := range w.pending[:n] {
		after = p.after
		w.bytes -= p.bytes
		if p.begins {
			w.rollouts--
		}
	}
	clear(w.pending[:n]) // release the memory
	w.pending = w.pending[n:]
	if len(w.pending) > 0 && !w.pending[0].begins {
		w.pending[0].begins = true
		w.rollouts++
	}
	return out, after
}

// end returns the index after the first n rollouts or experiences. It stops before a delivery that
// needs a version after published; whole reports whether there are n before that.
func (w *window) end(n int, byRollout bool, published int64) (end int, whole bool) {
	for i, p := range w.pending {
		counts := p.begins || !byRollout
		if counts && n == 0 {
			return i, true
		}
		if p.needs > published {
			return i, false
		}
		if counts {
			n--
		}
	}
	return len(w.pending), n == 0
}

// size estimates the memory of an experience, in bytes.
func size(e *trinity.Experience) int64 {
	floats := len(e.Logprobs) + len(e.Advantages) + len(e.Returns) + len(e.RefLogprobs) + len(e.TeacherLogprobs)
	return int64(512 + 5*len(e.Tokens) + 4*floats + len(e.Prompt) + len(e.Response))
}

// rollouts returns the number of rollouts.
func rollouts(exps []*trinity.Experience) int {
	n := 0
	for i, e := range exps {
		if i == 0 || !e.ID.Follows(exps[i-1].ID) {
			n++
		}
	}
	return n
}
