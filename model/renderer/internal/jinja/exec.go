package jinja

// signal says how a list of statements ended.
type signal int

const (
	finished signal = iota
	broke
	continued
)

func (ev *evaluator) exec(body []stmt, f *frame) (signal, error) {
	for _, node := range body {
		if err := ev.spend(0); err != nil {
			return finished, at(err, node.pos())
		}
		s, err := ev.execOne(node, f)
		if err != nil {
			return finished, at(err, node.pos())
		}
		if s != finished {
			return s, nil
		}
	}
	return finished, nil
}

func (ev *evaluator) execOne(node stmt, f *frame) (signal, error) {
	switch n := node.(type) {
	case *text:
		return finished, ev.write(n.data)
	case *output:
		v, err := ev.eval(n.value, f)
		if err != nil {
			return finished, err
		}
		return finished, ev.print(v)
	case *ifStmt:
		return ev.ifStatement(n, f)
	case *forStmt:
		return ev.forStatement(n, f)
	case *setStmt:
		return finished, ev.set(n, f)
	case *setBlock:
		return ev.setBlock(n, f)
	case *withStmt:
		return ev.with(n, f)
	case *filterBlock:
		return ev.filterBlock(n, f)
	case *macroStmt:
		f.set(n.name, &macro{name: n.name, signature: &n.signature, closure: f})
		return finished, nil
	case *callBlock:
		return finished, ev.callBlock(n, f)
	case *loopControl:
		if n.exit {
			return broke, nil
		}
		return continued, nil
	}
	return finished, failf(Unsupported, "statement %T", node)
}

func (ev *evaluator) write(s string) error {
	if err := ev.spend(len(s) / 64); err != nil {
		return err
	}
	return ev.out.add(s)
}

func (ev *evaluator) print(v Value) error {
	s, err := ev.str(v)
	if err != nil {
		return err
	}
	return ev.write(s)
}

func (ev *evaluator) ifStatement(n *ifStmt, f *frame) (signal, error) {
	test, err := ev.eval(n.test, f)
	if err != nil {
		return finished, err
	}
	if truth(test) {
		return ev.exec(n.then, f)
	}
	for _, elif := range n.elifs {
		test, err := ev.eval(elif.test, f)
		if err != nil {
			return finished, err
		}
		if truth(test) {
			return ev.exec(elif.then, f)
		}
	}
	return ev.exec(n.otherwise, f)
}

func (ev *evaluator) set(n *setStmt, f *frame) error {
	if err := checkNamespaces(n.target, f); err != nil {
		return err
	}
	v, err := ev.eval(n.value, f)
	if err != nil {
		return err
	}
	return ev.assign(n.target, v, f)
}

// checkNamespaces returns an error if ns in a target ns.x is not a namespace. It runs before the
// value is evaluated, as in Jinja.
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
func (ev *evaluator) assign(target expr, v Value, f *frame) error {
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
		items, err := ev.unpack(v, len(t.items))
		if err != nil {
			return err
		}
		for i, item := range t.items {
			if err := ev.assign(item, items[i], f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *runtime) unpack(v Value, want int) ([]Value, error) {
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
func (ev *evaluator) captured(s *scope, body []stmt, f *frame) (string, *frame, signal, error) {
	inner, err := ev.enter(s, f)
	if err != nil {
		return "", nil, finished, err
	}
	var end signal
	text, err := ev.capture(func() (err error) {
		end, err = ev.exec(body, inner)
		return err
	})
	return text, inner, end, err
}

func (ev *evaluator) setBlock(n *setBlock, f *frame) (signal, error) {
	if err := checkNamespaces(n.target, f); err != nil {
		return finished, err
	}
	text, inner, end, err := ev.captured(n.scope, n.body, f)
	if err != nil || end != finished {
		return end, err
	}
	var v Value = text
	if n.filter != nil {
		if v, err = ev.filterText(n.filter, text, inner); err != nil {
			return finished, err
		}
	}
	return finished, ev.assign(n.target, v, f)
}

func (ev *evaluator) filterBlock(n *filterBlock, f *frame) (signal, error) {
	text, inner, end, err := ev.captured(n.scope, n.body, f)
	if err != nil || end != finished {
		return end, err
	}
	v, err := ev.filterText(n.filter, text, inner)
	if err != nil {
		return finished, err
	}
	return finished, ev.print(v)
}

// filterText applies the filters of a block to its text.
func (ev *evaluator) filterText(chain expr, text string, f *frame) (Value, error) {
	n := chain.(*filter)
	var object Value = text
	if n.object != nil {
		inner, err := ev.filterText(n.object, text, f)
		if err != nil {
			return nil, err
		}
		object = inner
	}
	return ev.applyFilter(n, object, f)
}

func (ev *evaluator) with(n *withStmt, f *frame) (signal, error) {
	inner, err := ev.enter(n.scope, f)
	if err != nil {
		return finished, err
	}
	for i, target := range n.targets {
		v, err := ev.eval(n.values[i], f)
		if err != nil {
			return finished, err
		}
		if err := ev.assign(target, v, inner); err != nil {
			return finished, err
		}
	}
	return ev.exec(n.body, inner)
}
