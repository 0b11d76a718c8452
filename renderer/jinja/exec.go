package jinja

// signal says how a list of statements ended.
type signal int

const (
	finished signal = iota
	broke
	continued
)

func (r *run) exec(body []stmt, f *frame) (signal, error) {
	for _, node := range body {
		if err := r.spend(0); err != nil {
			return finished, at(err, node.pos())
		}
		s, err := r.execOne(node, f)
		if err != nil {
			return finished, at(err, node.pos())
		}
		if s != finished {
			return s, nil
		}
	}
	return finished, nil
}

func (r *run) execOne(node stmt, f *frame) (signal, error) {
	switch n := node.(type) {
	case *text:
		return finished, r.write(n.data)
	case *output:
		v, err := r.eval(n.value, f)
		if err != nil {
			return finished, err
		}
		return finished, r.print(v)
	case *ifStmt:
		return r.ifStatement(n, f)
	case *forStmt:
		return r.forStatement(n, f)
	case *setStmt:
		return finished, r.set(n, f)
	case *setBlock:
		return r.setBlock(n, f)
	case *withStmt:
		return r.with(n, f)
	case *filterBlock:
		return r.filterBlock(n, f)
	case *macroStmt:
		f.set(n.name, &macro{name: n.name, signature: &n.signature, closure: f})
		return finished, nil
	case *callBlock:
		return finished, r.callBlock(n, f)
	case *loopControl:
		if n.exit {
			return broke, nil
		}
		return continued, nil
	}
	return finished, failf(Unsupported, "statement %T", node)
}

func (r *run) write(s string) error {
	if err := r.spend(len(s) / 64); err != nil {
		return err
	}
	return r.out.add(s)
}

func (r *run) print(v Value) error {
	s, err := r.str(v)
	if err != nil {
		return err
	}
	return r.write(s)
}

func (r *run) ifStatement(n *ifStmt, f *frame) (signal, error) {
	test, err := r.eval(n.test, f)
	if err != nil {
		return finished, err
	}
	if truth(test) {
		return r.exec(n.then, f)
	}
	for _, elif := range n.elifs {
		test, err := r.eval(elif.test, f)
		if err != nil {
			return finished, err
		}
		if truth(test) {
			return r.exec(elif.then, f)
		}
	}
	return r.exec(n.otherwise, f)
}

func (r *run) set(n *setStmt, f *frame) error {
	if err := checkNamespaces(n.target, f); err != nil {
		return err
	}
	v, err := r.eval(n.value, f)
	if err != nil {
		return err
	}
	return r.assign(n.target, v, f)
}

// checkNamespaces fails before anything is evaluated if a target ns.x is not of a namespace.
func checkNamespaces(target expr, f *frame) error {
	switch t := target.(type) {
	case *nsTarget:
		if _, ok := f.find(t.namespace).(*namespace); !ok {
			return typeErrorf("cannot assign attribute on non-namespace object '%s'", t.namespace)
		}
	case *tupleLit:
		for _, item := range t.items {
			if err := checkNamespaces(item, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// assign stores a value in a target, unpacking it over the names of a tuple.
func (r *run) assign(target expr, v Value, f *frame) error {
	switch t := target.(type) {
	case *name:
		f.set(t.id, v)
	case *nsTarget:
		ns, ok := f.find(t.namespace).(*namespace)
		if !ok {
			return typeErrorf("cannot assign attribute on non-namespace object '%s'", t.namespace)
		}
		return ns.set(t.attr, v)
	case *tupleLit:
		items, err := r.unpack(v, len(t.items))
		if err != nil {
			return err
		}
		for i, item := range t.items {
			if err := r.assign(item, items[i], f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) unpack(v Value, want int) ([]Value, error) {
	it, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	var items []Value
	for {
		item, ok, err := it.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if items = append(items, item); len(items) > want {
			return nil, typeErrorf("too many values to unpack (expected %d)", want)
		}
	}
	if len(items) < want {
		return nil, typeErrorf("not enough values to unpack (expected %d, got %d)", want, len(items))
	}
	return items, nil
}

// captured runs a block with its own scope and returns its text.
func (r *run) captured(s *scope, body []stmt, f *frame) (string, *frame, signal, error) {
	inner, err := r.enter(s, f)
	if err != nil {
		return "", nil, finished, err
	}
	var end signal
	text, err := r.capture(func() (err error) {
		end, err = r.exec(body, inner)
		return err
	})
	return text, inner, end, err
}

func (r *run) setBlock(n *setBlock, f *frame) (signal, error) {
	if err := checkNamespaces(n.target, f); err != nil {
		return finished, err
	}
	text, inner, end, err := r.captured(n.scope, n.body, f)
	if err != nil || end != finished {
		return end, err
	}
	var v Value = text
	if n.filter != nil {
		if v, err = r.filterText(n.filter, text, inner); err != nil {
			return finished, err
		}
	}
	return finished, r.assign(n.target, v, f)
}

func (r *run) filterBlock(n *filterBlock, f *frame) (signal, error) {
	text, inner, end, err := r.captured(n.scope, n.body, f)
	if err != nil || end != finished {
		return end, err
	}
	v, err := r.filterText(n.filter, text, inner)
	if err != nil {
		return finished, err
	}
	return finished, r.print(v)
}

// filterText applies the filters of a block to its text.
func (r *run) filterText(chain expr, text string, f *frame) (Value, error) {
	n := chain.(*filter)
	var object Value = text
	if n.object != nil {
		inner, err := r.filterText(n.object, text, f)
		if err != nil {
			return nil, err
		}
		object = inner
	}
	return r.applyFilter(n, object, f)
}

func (r *run) with(n *withStmt, f *frame) (signal, error) {
	inner, err := r.enter(n.scope, f)
	if err != nil {
		return finished, err
	}
	for i, target := range n.targets {
		v, err := r.eval(n.values[i], f)
		if err != nil {
			return finished, err
		}
		if err := r.assign(target, v, inner); err != nil {
			return finished, err
		}
	}
	return r.exec(n.body, inner)
}
