package jinja

// loop is the variable loop inside a for block. It reads ahead only when the template asks for
// more, as in Jinja.
type loop struct {
	r        *runtime
	sequence Value // the value that the block iterates over
	it       *iterator
	index0   int64
	depth0   int64
	total    int64 // number of items; -1 until it is known
	ahead    []Value
	done     bool
	current  Value
	previous Value
	changed  *Tuple
	recurse  func(v Value, depth0 int64) Value
}

// advance moves to the next item.
func (l *loop) advance() (Value, bool) {
	if l.peek(1); len(l.ahead) == 0 {
		return nil, false
	}
	v := l.ahead[0]
	l.ahead = l.ahead[1:]
	l.index0++
	l.previous, l.current = l.current, v
	return v, true
}

// peek fills ahead with n items, or with all that are left.
func (l *loop) peek(n int) {
	for len(l.ahead) < n && !l.done {
		v, ok := l.it.next()
		if !ok {
			l.done = true
			break
		}
		l.ahead = append(l.ahead, v)
	}
}

// length returns the number of items. It reads an iterator to its end.
func (l *loop) length() int64 {
	if l.total >= 0 {
		return l.total
	}
	var known bool
	if l.total, known = size(l.sequence); !known {
		l.peek(l.r.limits.Size)
		l.total = l.index0 + 1 + int64(len(l.ahead))
	}
	return l.total
}

func (ev *evaluator) forStatement(n *forStmt, f *frame) signal {
	sequence := ev.eval(n.iterable, f)
	if !n.recursive {
		ev.runLoop(n, f, sequence, 0, nil)
		return finished
	}
	var recurse func(v Value, depth0 int64) Value
	recurse = func(v Value, depth0 int64) Value {
		leave := ev.deeper()
		defer leave()
		return ev.capture(func() { ev.runLoop(n, f, v, depth0, recurse) })
	}
	ev.print(recurse(sequence, 0))
	return finished
}

func (ev *evaluator) runLoop(n *forStmt, f *frame, sequence Value, depth0 int64, recurse func(Value, int64) Value) {
	it := ev.iterate(sequence)
	if n.test != nil {
		it = ev.filtered(n, f, it)
		sequence = it
	}
	l := &loop{r: &ev.runtime, sequence: sequence, it: it, index0: -1, depth0: depth0, total: -1, recurse: recurse}
	completed := false // an iteration ran to its end: break and continue do not count, as in Jinja
	for {
		v, ok := l.advance()
		if !ok {
			break
		}
		inner := ev.enter(n.bodyScope, f)
		if n.usesLoop {
			inner.set("loop", l)
		}
		ev.assign(n.target, v, inner)
		end := ev.exec(n.body, inner)
		if end == broke {
			break
		}
		completed = completed || end == finished
	}
	if completed || len(n.otherwise) == 0 {
		return
	}
	inner := ev.enter(n.otherScope, f)
	_ = ev.exec(n.otherwise, inner)
}

// filtered returns the items for which the loop's condition holds. It tests an item when it is
// read.
func (ev *evaluator) filtered(n *forStmt, f *frame, it *iterator) *iterator {
	return &iterator{next: func() (Value, bool) {
		for {
			v, ok := it.next()
			if !ok {
				return nil, false
			}
			inner := ev.enter(n.testScope, f)
			ev.assign(n.target, v, inner)
			test := ev.eval(n.test, inner)
			if truth(test) {
				return v, true
			}
		}
	}}
}

var loopAttributes = map[string]func(l *loop) Value{
	"index":  func(l *loop) Value { return l.index0 + 1 },
	"index0": func(l *loop) Value { return l.index0 },
	"depth":  func(l *loop) Value { return l.depth0 + 1 },
	"depth0": func(l *loop) Value { return l.depth0 },
	"first":  func(l *loop) Value { return l.index0 == 0 },
	"last": func(l *loop) Value {
		l.peek(1)
		return len(l.ahead) == 0
	},
	"length":    func(l *loop) Value { return l.length() },
	"revindex":  func(l *loop) Value { return l.length() - l.index0 },
	"revindex0": func(l *loop) Value { return l.length() - l.index0 - 1 },
	"previtem": func(l *loop) Value {
		if l.index0 == 0 {
			return undefinedf("there is no previous item")
		}
		return l.previous
	},
	"nextitem": func(l *loop) Value {
		if l.peek(1); len(l.ahead) == 0 {
			return undefinedf("there is no next item")
		}
		return l.ahead[0]
	},
}

var loopMethods = map[string]builtin{
	"cycle": {"*", func(c *input) Value {
		if len(c.args) == 0 || c.named.Len() > 0 {
			panic(typeErrorf("loop.cycle takes items to cycle through"))
		}
		return c.args[c.self.(*loop).index0%int64(len(c.args))]
	}},
	"changed": {"*", func(c *input) Value {
		if c.named.Len() > 0 {
			panic(typeErrorf("loop.changed takes no keyword arguments"))
		}
		l, now := c.self.(*loop), &Tuple{c.args}
		if l.changed != nil && c.r.equal(l.changed, now, 0) {
			return false
		}
		l.changed = now
		return true
	}},
}
