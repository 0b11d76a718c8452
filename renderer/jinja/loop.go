package jinja

// loop is the variable of that name inside a for block. It looks ahead only as far as it is asked, as Jinja's does.
type loop struct {
	r         *run
	sequence  Value // what is iterated; nil once length has read the rest of an iterator
	it        *iterator
	index0    int64
	depth0    int64
	total     int64 // -1 until known
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

// peek makes n items available in ahead if there are so many.
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

// length is the number of items; an iterator is read to its end for it.
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

func (r *run) forStatement(n *forStmt, f *frame) (signal, error) {
	sequence, err := r.eval(n.iterable, f)
	if err != nil {
		return finished, err
	}
	if !n.recursive {
		return finished, r.runLoop(n, f, sequence, 0, nil)
	}
	var recurse func(v Value, depth0 int64) (Value, error)
	recurse = func(v Value, depth0 int64) (Value, error) {
		leave, err := r.deeper()
		defer leave()
		if err != nil {
			return nil, err
		}
		return r.capture(func() error { return r.runLoop(n, f, v, depth0, recurse) })
	}
	text, err := recurse(sequence, 0)
	if err != nil {
		return finished, err
	}
	return finished, r.print(text)
}

func (r *run) runLoop(n *forStmt, f *frame, sequence Value, depth0 int64, recurse func(Value, int64) (Value, error)) error {
	it, err := r.iterate(sequence)
	if err != nil {
		return err
	}
	if n.test != nil {
		it = r.filtered(n, f, it)
		sequence = it
	}
	l := &loop{r: r, sequence: sequence, it: it, index0: -1, depth0: depth0, total: -1, recurse: recurse}
	completed := false // an iteration ran to its end: break and continue do not count, as in Jinja
	for {
		v, ok, err := l.advance()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		inner, err := r.enter(n.bodyScope, f)
		if err != nil {
			return err
		}
		if n.usesLoop {
			inner.set("loop", l)
		}
		if err := r.assign(n.target, v, inner); err != nil {
			return err
		}
		end, err := r.exec(n.body, inner)
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
	inner, err := r.enter(n.otherScope, f)
	if err != nil {
		return err
	}
	_, err = r.exec(n.otherwise, inner)
	return err
}

// filtered passes the items for which the loop's condition holds, each tested when it is asked for.
func (r *run) filtered(n *forStmt, f *frame, it *iterator) *iterator {
	return &iterator{next: func() (Value, bool, error) {
		for {
			v, ok, err := it.next()
			if err != nil || !ok {
				return nil, false, err
			}
			inner, err := r.enter(n.testScope, f)
			if err != nil {
				return nil, false, err
			}
			if err := r.assign(n.target, v, inner); err != nil {
				return nil, false, err
			}
			test, err := r.eval(n.test, inner)
			if err != nil {
				return nil, false, err
			}
			if truth(test) {
				return v, true, nil
			}
		}
	}}
}

// attr is an attribute of the loop variable.
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

func (l *loop) cycle(_ *run, args []Value, named *Map) (Value, error) {
	if len(args) == 0 || named.Len() > 0 {
		return nil, typeErrorf("loop.cycle takes items to cycle through")
	}
	return args[l.index0%int64(len(args))], nil
}

func (l *loop) change(_ *run, args []Value, named *Map) (Value, error) {
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
