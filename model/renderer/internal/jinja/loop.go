package jinja

// loop is the variable loop inside a for block. It reads ahead only when the template asks for
// more, as in Jinja.
type loop struct {
	r         *runtime
	sequence  Value // the value that the block iterates over
	it        *iterator
	index0    int64
	depth0    int64
	total     int64 // number of items; -1 until it is known
	ahead     []Value
	done      bool
	current   Value
	previous  Value
	hasBefore bool
	changed   *Tuple
	recurse   func(v Value, depth0 int64) (Value, error)
}

// advance moves to the next item.
func (l *loop) advance() (Value, bool, error) {
	if err := l.peek(1); err != nil || len(l.ahead) == 0 {
		return nil, false, err
	}
	v := l.ahead[0]
	l.ahead = l.ahead[1:]
	l.index0++
	l.hasBefore = l.index0 > 0
	l.previous, l.current = l.current, v
	return v, true, nil
}

// peek fills ahead with n items, or with all that are left.
func (l *loop) peek(n int) error {
	for len(l.ahead) < n && !l.done {
		v, ok, err := l.it.next()
		if err != nil {
			return err
		}
		if !ok {
			l.done = true
			break
		}
		l.ahead = append(l.ahead, v)
	}
	return nil
}

// length returns the number of items. It reads an iterator to its end.
func (l *loop) length() (int64, error) {
	if l.total >= 0 {
		return l.total, nil
	}
	if n, err := length(l.sequence); err == nil {
		l.total = n
		return n, nil
	}
	if err := l.peek(l.r.limits.Size); err != nil {
		return 0, err
	}
	l.total = l.index0 + 1 + int64(len(l.ahead))
	return l.total, nil
}

func (ev *evaluator) forStatement(n *forStmt, f *frame) (signal, error) {
	sequence, err := ev.eval(n.iterable, f)
	if err != nil {
		return finished, err
	}
	if !n.recursive {
		return finished, ev.runLoop(n, f, sequence, 0, nil)
	}
	var recurse func(v Value, depth0 int64) (Value, error)
	recurse = func(v Value, depth0 int64) (Value, error) {
		leave, err := ev.deeper()
		defer leave()
		if err != nil {
			return nil, err
		}
		return ev.capture(func() error { return ev.runLoop(n, f, v, depth0, recurse) })
	}
	text, err := recurse(sequence, 0)
	if err != nil {
		return finished, err
	}
	return finished, ev.print(text)
}

func (ev *evaluator) runLoop(n *forStmt, f *frame, sequence Value, depth0 int64, recurse func(Value, int64) (Value, error)) error {
	it, err := ev.iterate(sequence)
	if err != nil {
		return err
	}
	if n.test != nil {
		it = ev.filtered(n, f, it)
		sequence = it
	}
	l := &loop{r: &ev.runtime, sequence: sequence, it: it, index0: -1, depth0: depth0, total: -1, recurse: recurse}
	completed := false // an iteration ran to its end: break and continue do not count, as in Jinja
	for {
		v, ok, err := l.advance()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		inner, err := ev.enter(n.bodyScope, f)
		if err != nil {
			return err
		}
		if n.usesLoop {
			inner.set("loop", l)
		}
		if err := ev.assign(n.target, v, inner); err != nil {
			return err
		}
		end, err := ev.exec(n.body, inner)
		if err != nil {
			return err
		}
		if end == broke {
			break
		}
		completed = completed || end == finished
	}
	if completed || len(n.otherwise) == 0 {
		return nil
	}
	inner, err := ev.enter(n.otherScope, f)
	if err != nil {
		return err
	}
	_, err = ev.exec(n.otherwise, inner)
	return err
}

// filtered returns the items for which the loop's condition holds. It tests an item when it is
// read.
func (ev *evaluator) filtered(n *forStmt, f *frame, it *iterator) *iterator {
	return &iterator{next: func() (Value, bool, error) {
		for {
			v, ok, err := it.next()
			if err != nil || !ok {
				return nil, false, err
			}
			inner, err := ev.enter(n.testScope, f)
			if err != nil {
				return nil, false, err
			}
			if err := ev.assign(n.target, v, inner); err != nil {
				return nil, false, err
			}
			test, err := ev.eval(n.test, inner)
			if err != nil {
				return nil, false, err
			}
			if truth(test) {
				return v, true, nil
			}
		}
	}}
}

// attr returns an attribute of the loop variable.
func (l *loop) attr(id string) (Value, bool, error) {
	var n int64
	var err error
	switch id {
	case "index":
		return l.index0 + 1, true, nil
	case "index0":
		return l.index0, true, nil
	case "depth":
		return l.depth0 + 1, true, nil
	case "depth0":
		return l.depth0, true, nil
	case "first":
		return l.index0 == 0, true, nil
	case "last":
		err = l.peek(1)
		return len(l.ahead) == 0, true, err
	case "length":
		n, err = l.length()
		return n, true, err
	case "revindex":
		n, err = l.length()
		return n - l.index0, true, err
	case "revindex0":
		n, err = l.length()
		return n - l.index0 - 1, true, err
	case "previtem":
		if !l.hasBefore {
			return undefinedf("there is no previous item"), true, nil
		}
		return l.previous, true, nil
	case "nextitem":
		if err := l.peek(1); err != nil || len(l.ahead) == 0 {
			return undefinedf("there is no next item"), true, err
		}
		return l.ahead[0], true, nil
	case "cycle":
		return &function{"cycle", l.cycle}, true, nil
	case "changed":
		return &function{"changed", l.change}, true, nil
	}
	return nil, false, nil
}

func (l *loop) cycle(_ *runtime, args []Value, named *Map) (Value, error) {
	if len(args) == 0 || named.Len() > 0 {
		return nil, typeErrorf("loop.cycle takes items to cycle through")
	}
	return args[l.index0%int64(len(args))], nil
}

func (l *loop) change(_ *runtime, args []Value, named *Map) (Value, error) {
	if named.Len() > 0 {
		return nil, typeErrorf("loop.changed takes no keyword arguments")
	}
	now := &Tuple{args}
	if l.changed != nil {
		same, err := l.r.equal(l.changed, now, 0)
		if err != nil || same {
			return false, err
		}
	}
	l.changed = now
	return true, nil
}
