package jinja

// signal says how a list of statements ended.
type signal int

const (
	finished signal = iota
	broke
	continued
)

func (ev *evaluator) exec(body []stmt, f *frame) signal {
	outer, end := ev.line, finished
	for i := 0; i < len(body) && end == finished; i++ {
		ev.line = body[i].pos()
		ev.spend(0)
		end = ev.execOne(body[i], f)
	}
	ev.line = outer
	return end
}

func (ev *evaluator) execOne(node stmt, f *frame) signal {
	switch n := node.(type) {
	case *text:
		ev.write(n.data)
		return finished
	case *output:
		ev.print(ev.eval(n.value, f))
		return finished
	case *ifStmt:
		return ev.ifStatement(n, f)
	case *forStmt:
		return ev.forStatement(n, f)
	case *setStmt:
		ev.set(n, f)
		return finished
	case *setBlock:
		return ev.setBlock(n, f)
	case *withStmt:
		return ev.with(n, f)
	case *filterBlock:
		return ev.filterBlock(n, f)
	case *macroStmt:
		f.set(n.name, &macro{name: n.name, signature: &n.signature, closure: f})
		return finished
	case *callBlock:
		ev.callBlock(n, f)
		return finished
	case *loopControl:
		if n.exit {
			return broke
		}
		return continued
	}
	panic(failf(Unsupported, "statement %T", node))
}

func (ev *evaluator) write(s string) {
	ev.spend(len(s) / 64)
	ev.out.add(s)
}

func (ev *evaluator) print(v Value) {
	ev.write(ev.str(v))
}

func (ev *evaluator) ifStatement(n *ifStmt, f *frame) signal {
	test := ev.eval(n.test, f)
	if truth(test) {
		return ev.exec(n.then, f)
	}
	for _, elif := range n.elifs {
		test := ev.eval(elif.test, f)
		if truth(test) {
			return ev.exec(elif.then, f)
		}
	}
	return ev.exec(n.otherwise, f)
}

func (ev *evaluator) set(n *setStmt, f *frame) {
	checkNamespaces(n.target, f)
	v := ev.eval(n.value, f)
	ev.assign(n.target, v, f)
}

// checkNamespaces fails if ns in a target ns.x is not a namespace. It runs before the value is
// evaluated, as in Jinja.
func checkNamespaces(target expr, f *frame) {
	switch t := target.(type) {
	case *nsTarget:
		if _, ok := f.find(t.namespace).(*namespace); !ok {
			panic(typeErrorf("cannot assign attribute on non-namespace object '%s'", t.namespace))
		}
	case *tupleLit:
		for _, item := range t.items {
			checkNamespaces(item, f)
		}
	}
}

// assign stores a value in a target, unpacking it over the names of a tuple.
func (ev *evaluator) assign(target expr, v Value, f *frame) {
	switch t := target.(type) {
	case *name:
		ev.spend(len(f.names) / 16)
		f.set(t.id, v)
	case *nsTarget:
		ns, ok := f.find(t.namespace).(*namespace)
		if !ok {
			panic(typeErrorf("cannot assign attribute on non-namespace object '%s'", t.namespace))
		}
		ns.set(t.attr, v)
	case *tupleLit:
		items := ev.unpack(v, len(t.items))
		for i, item := range t.items {
			ev.assign(item, items[i], f)
		}
	}
}

func (r *runtime) unpack(v Value, want int) []Value {
	var items []Value
	for item := range r.iterate(v).all {
		if items = append(items, item); len(items) > want {
			panic(typeErrorf("too many values to unpack (expected %d)", want))
		}
	}
	if len(items) < want {
		panic(typeErrorf("not enough values to unpack (expected %d, got %d)", want, len(items)))
	}
	return items
}

// captured runs a block with its own scope and returns its text.
func (ev *evaluator) captured(s *scope, body []stmt, f *frame) (string, *frame, signal) {
	inner := ev.enter(s, f)
	var end signal
	text := ev.capture(func() {
		end = ev.exec(body, inner)
	})
	return text, inner, end
}

func (ev *evaluator) setBlock(n *setBlock, f *frame) signal {
	checkNamespaces(n.target, f)
	text, inner, end := ev.captured(n.scope, n.body, f)
	if end != finished {
		return end
	}
	var v Value = text
	if n.filter != nil {
		v = ev.filterText(n.filter, text, inner)
	}
	ev.assign(n.target, v, f)
	return finished
}

func (ev *evaluator) filterBlock(n *filterBlock, f *frame) signal {
	text, inner, end := ev.captured(n.scope, n.body, f)
	if end != finished {
		return end
	}
	ev.print(ev.filterText(n.filter, text, inner))
	return finished
}

// filterText applies the filters of a block to its text.
func (ev *evaluator) filterText(chain expr, text string, f *frame) Value {
	n := chain.(*filter)
	var object Value = text
	if n.object != nil {
		inner := ev.filterText(n.object, text, f)
		object = inner
	}
	return ev.applyFilter(n, object, f)
}

func (ev *evaluator) with(n *withStmt, f *frame) signal {
	inner := ev.enter(n.scope, f)
	for i, target := range n.targets {
		v := ev.eval(n.values[i], f)
		ev.assign(target, v, inner)
	}
	return ev.exec(n.body, inner)
}
