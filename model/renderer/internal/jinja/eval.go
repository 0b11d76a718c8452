package jinja

import "errors"

// eval returns the value of an expression. Errors carry its line.
func (ev *evaluator) eval(e expr, f *frame) (Value, error) {
	err := ev.spend(0)
	if err == nil {
		var v Value
		if v, err = ev.evalNode(e, f); err == nil {
			return v, nil
		}
	}
	return nil, at(err, e.pos())
}

func (ev *evaluator) evalNode(e expr, f *frame) (Value, error) {
	switch n := e.(type) {
	case *constant:
		return n.value, nil
	case *name:
		return f.load(n.id), nil
	case *tupleLit:
		items, err := ev.evalAll(n.items, f)
		return &Tuple{items}, err
	case *listLit:
		items, err := ev.evalAll(n.items, f)
		return &List{items}, err
	case *dictLit:
		return ev.evalDict(n, f)
	case *condition:
		return ev.evalCondition(n, f)
	case *logic:
		left, err := ev.eval(n.left, f)
		if err != nil || truth(left) != n.and {
			return left, err
		}
		return ev.eval(n.right, f)
	case *not:
		v, err := ev.eval(n.operand, f)
		return !truth(v), err
	case *compare:
		return ev.evalCompare(n, f)
	case *binary:
		left, err := ev.eval(n.left, f)
		if err != nil {
			return nil, err
		}
		right, err := ev.eval(n.right, f)
		if err != nil {
			return nil, err
		}
		return ev.binary(n.op, left, right)
	case *unary:
		v, err := ev.eval(n.operand, f)
		if err != nil {
			return nil, err
		}
		return unaryOp(n.op, v)
	case *concat:
		return ev.evalConcat(n, f)
	case *attribute:
		v, err := ev.eval(n.object, f)
		if err != nil {
			return nil, err
		}
		return ev.getattr(v, n.name)
	case *item:
		v, err := ev.eval(n.object, f)
		if err != nil {
			return nil, err
		}
		key, err := ev.eval(n.key, f)
		if err != nil {
			return nil, err
		}
		return ev.getitem(v, key)
	case *slice:
		return ev.evalSlice(n, f)
	case *call:
		return ev.evalCall(n, f, nil)
	case *filter:
		v, err := ev.eval(n.object, f)
		if err != nil {
			return nil, err
		}
		return ev.applyFilter(n, v, f)
	case *test:
		return ev.evalTest(n, f)
	}
	return nil, failf(Unsupported, "expression %T", e)
}

func (ev *evaluator) evalAll(list []expr, f *frame) ([]Value, error) {
	items := make([]Value, len(list))
	for i, e := range list {
		v, err := ev.eval(e, f)
		if err != nil {
			return nil, err
		}
		items[i] = v
	}
	return items, nil
}

func (ev *evaluator) evalDict(n *dictLit, f *frame) (Value, error) {
	m := &Map{}
	for i, k := range n.keys {
		key, err := ev.eval(k, f)
		if err != nil {
			return nil, err
		}
		v, err := ev.eval(n.values[i], f)
		if err != nil {
			return nil, err
		}
		if err := m.set(key, v); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (ev *evaluator) evalCondition(n *condition, f *frame) (Value, error) {
	test, err := ev.eval(n.test, f)
	switch {
	case err != nil:
		return nil, err
	case truth(test):
		return ev.eval(n.then, f)
	case n.otherwise != nil:
		return ev.eval(n.otherwise, f)
	}
	return undefinedf("the inline if-expression on line %d evaluated to false and no else section was defined", n.pos()), nil
}

func (ev *evaluator) evalCompare(n *compare, f *frame) (Value, error) {
	left, err := ev.eval(n.first, f)
	if err != nil {
		return nil, err
	}
	for i, op := range n.ops {
		right, err := ev.eval(n.rest[i], f)
		if err != nil {
			return nil, err
		}
		ok, err := ev.compare(op, left, right)
		if err != nil || !ok {
			return false, err
		}
		left = right
	}
	return true, nil
}

func (ev *evaluator) evalConcat(n *concat, f *frame) (Value, error) {
	w := &limitedText{limit: ev.limits.Size}
	for _, part := range n.parts {
		v, err := ev.eval(part, f)
		if err != nil {
			return nil, err
		}
		s, err := ev.str(v)
		if err != nil {
			return nil, err
		}
		if err := w.add(s); err != nil {
			return nil, err
		}
	}
	return w.String(), ev.spend(w.Len() / 64)
}

// arguments evaluates the arguments of a call.
func (ev *evaluator) arguments(a *arguments, f *frame) (args []Value, named *Map, err error) {
	if args, err = ev.evalAll(a.args, f); err != nil {
		return nil, nil, err
	}
	named = &Map{}
	for i, id := range a.names {
		v, err := ev.eval(a.named[i], f)
		if err != nil {
			return nil, nil, err
		}
		named.Set(id, v)
	}
	if a.varargs != nil {
		v, err := ev.eval(a.varargs, f)
		if err != nil {
			return nil, nil, err
		}
		more, err := ev.collect(v)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, more...)
	}
	if a.varnamed != nil {
		v, err := ev.eval(a.varnamed, f)
		if err != nil {
			return nil, nil, err
		}
		if err := spread(v, named); err != nil {
			return nil, nil, err
		}
	}
	return args, named, nil
}

// spread adds the entries of a ** argument to named.
func spread(v Value, named *Map) error {
	m, ok := v.(*Map)
	if !ok {
		return typeErrorf("argument after ** must be a mapping, not %s", typeName(v))
	}
	for i, k := range m.keys {
		id, ok := k.(string)
		if !ok {
			return typeErrorf("keywords must be strings")
		}
		if _, twice := named.Get(id); twice {
			return typeErrorf("multiple values for keyword argument '%s'", id)
		}
		named.Set(id, m.vals[i])
	}
	return nil
}

// evalCall calls a value; caller is the body of a call block or nil.
func (ev *evaluator) evalCall(n *call, f *frame, caller *macro) (Value, error) {
	callee, err := ev.eval(n.callee, f)
	if err != nil {
		return nil, err
	}
	args, named, err := ev.arguments(&n.arguments, f)
	if err != nil {
		return nil, err
	}
	if caller != nil {
		named.Set("caller", caller)
	}
	return ev.call(callee, args, named)
}

func (ev *evaluator) call(callee Value, args []Value, named *Map) (Value, error) {
	switch c := callee.(type) {
	case *undefined:
		return nil, c.fail()
	case *macro:
		return c.call(ev, args, named)
	case *function:
		return c.call(&ev.runtime, args, named)
	case *loop:
		if c.recurse == nil {
			return nil, typeErrorf("the loop must have the 'recursive' marker to be called")
		}
		if len(args) != 1 || named.Len() > 0 {
			return nil, typeErrorf("loop takes one sequence")
		}
		return c.recurse(args[0], c.depth0+1)
	}
	return nil, typeErrorf("'%s' object is not callable", typeName(callee))
}

func isKind(err error, kind Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == kind
}
