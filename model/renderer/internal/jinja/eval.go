package jinja

// eval returns the value of an expression.
func (ev *evaluator) eval(e expr, f *frame) Value {
	outer := ev.line
	ev.line = e.pos()
	ev.spend(0)
	v := ev.evalNode(e, f)
	ev.line = outer
	return v
}

func (ev *evaluator) evalNode(e expr, f *frame) Value {
	switch n := e.(type) {
	case *constant:
		return n.value
	case *name:
		ev.spend(len(f.names) / 16)
		return f.load(n.id)
	case *tupleLit:
		return &Tuple{ev.evalAll(n.items, f)}
	case *listLit:
		return &List{ev.evalAll(n.items, f)}
	case *dictLit:
		return ev.evalDict(n, f)
	case *condition:
		return ev.evalCondition(n, f)
	case *logic:
		left := ev.eval(n.left, f)
		if truth(left) != n.and {
			return left
		}
		return ev.eval(n.right, f)
	case *not:
		v := ev.eval(n.operand, f)
		return !truth(v)
	case *compare:
		return ev.evalCompare(n, f)
	case *binary:
		left := ev.eval(n.left, f)
		right := ev.eval(n.right, f)
		return ev.binary(n.op, left, right)
	case *unary:
		v := ev.eval(n.operand, f)
		return unaryOp(n.op, v)
	case *concat:
		return ev.evalConcat(n, f)
	case *attribute:
		return ev.getattr(ev.eval(n.object, f), n.name)
	case *item:
		v := ev.eval(n.object, f)
		key := ev.eval(n.key, f)
		return ev.getitem(v, key)
	case *slice:
		return ev.evalSlice(n, f)
	case *call:
		return ev.evalCall(n, f, nil)
	case *filter:
		v := ev.eval(n.object, f)
		return ev.applyFilter(n, v, f)
	case *test:
		return ev.evalTest(n, f)
	}
	panic(failf(Unsupported, "expression %T", e))
}

func (ev *evaluator) evalAll(list []expr, f *frame) []Value {
	items := make([]Value, len(list))
	for i, e := range list {
		v := ev.eval(e, f)
		items[i] = v
	}
	return items
}

func (ev *evaluator) evalDict(n *dictLit, f *frame) Value {
	m := &Map{}
	for i, k := range n.keys {
		key := ev.eval(k, f)
		v := ev.eval(n.values[i], f)
		ev.key(key)
		m.set(key, v)
	}
	return m
}

func (ev *evaluator) evalCondition(n *condition, f *frame) Value {
	test := ev.eval(n.test, f)
	switch {
	case truth(test):
		return ev.eval(n.then, f)
	case n.otherwise != nil:
		return ev.eval(n.otherwise, f)
	}
	return undefinedf("the inline if-expression on line %d evaluated to false and no else section was defined", n.pos())
}

func (ev *evaluator) evalCompare(n *compare, f *frame) Value {
	left := ev.eval(n.first, f)
	for i, op := range n.ops {
		right := ev.eval(n.rest[i], f)
		ok := ev.compare(op, left, right)
		if !ok {
			return false
		}
		left = right
	}
	return true
}

func (ev *evaluator) evalConcat(n *concat, f *frame) Value {
	w := ev.textWriter()
	for _, part := range n.parts {
		v := ev.eval(part, f)
		w.add(ev.str(v))
	}
	ev.spend(w.Len() / 64)
	return w.String()
}

// arguments evaluates the arguments of a call.
func (ev *evaluator) arguments(a *arguments, f *frame) (args []Value, named *Map) {
	args = ev.evalAll(a.args, f)
	named = &Map{}
	for i, id := range a.names {
		v := ev.eval(a.named[i], f)
		named.Set(id, v)
	}
	if a.varargs != nil {
		v := ev.eval(a.varargs, f)
		more := ev.collect(v)
		args = append(args, more...)
	}
	if a.varnamed != nil {
		ev.spread(ev.eval(a.varnamed, f), named)
	}
	return args, named
}

// spread adds the entries of a ** argument to named.
func (ev *evaluator) spread(v Value, named *Map) {
	m, ok := v.(*Map)
	if !ok {
		panic(typeErrorf("argument after ** must be a mapping, not %s", typeName(v)))
	}
	ev.spend(2 * m.Len())
	for i, k := range m.keys {
		id, ok := k.(string)
		if !ok {
			panic(typeErrorf("keywords must be strings"))
		}
		if _, twice := named.Get(id); twice {
			panic(typeErrorf("multiple values for keyword argument '%s'", id))
		}
		named.Set(id, m.vals[i])
	}
}

// evalCall calls a value; caller is the body of a call block or nil.
func (ev *evaluator) evalCall(n *call, f *frame, caller *macro) Value {
	callee := ev.eval(n.callee, f)
	args, named := ev.arguments(&n.arguments, f)
	if caller != nil {
		named.Set("caller", caller)
	}
	return ev.call(callee, args, named)
}

func (ev *evaluator) call(callee Value, args []Value, named *Map) Value {
	switch c := callee.(type) {
	case *undefined:
		panic(c.fail())
	case *macro:
		return c.call(ev, args, named)
	case *function:
		return ev.apply(c.name, c.builtin, c.self, args, named)
	case *loop:
		if c.recurse == nil {
			panic(typeErrorf("the loop must have the 'recursive' marker to be called"))
		}
		if len(args) != 1 || named.Len() > 0 {
			panic(typeErrorf("loop takes one sequence"))
		}
		return c.recurse(args[0], c.depth0+1)
	}
	panic(typeErrorf("'%s' object is not callable", typeName(callee)))
}
