package jinja

import "errors"

// eval returns the value of an expression. Errors carry its line.
func (r *run) eval(e expr, f *frame) (Value, error) {
	err := r.spend(0)
	if err == nil {
		var v Value
		if v, err = r.evalNode(e, f); err == nil {
			return v, nil
		}
	}
	return nil, at(err, e.pos())
}

func (r *run) evalNode(e expr, f *frame) (Value, error) {
	switch n := e.(type) {
	case *constant:
		return n.value, nil
	case *name:
		return f.load(n.id), nil
	case *tupleLit:
		items, err := r.evalAll(n.items, f)
		return &Tuple{items}, err
	case *listLit:
		items, err := r.evalAll(n.items, f)
		return &List{items}, err
	case *dictLit:
		return r.evalDict(n, f)
	case *condition:
		return r.evalCondition(n, f)
	case *logic:
		left, err := r.eval(n.left, f)
		if err != nil || truth(left) != n.and {
			return left, err
		}
		return r.eval(n.right, f)
	case *not:
		v, err := r.eval(n.operand, f)
		return !truth(v), err
	case *compare:
		return r.evalCompare(n, f)
	case *binary:
		left, err := r.eval(n.left, f)
		if err != nil {
			return nil, err
		}
		right, err := r.eval(n.right, f)
		if err != nil {
			return nil, err
		}
		return r.binary(n.op, left, right)
	case *unary:
		v, err := r.eval(n.operand, f)
		if err != nil {
			return nil, err
		}
		return unaryOp(n.op, v)
	case *concat:
		return r.evalConcat(n, f)
	case *attribute:
		v, err := r.eval(n.object, f)
		if err != nil {
			return nil, err
		}
		return r.getattr(v, n.name)
	case *item:
		v, err := r.eval(n.object, f)
		if err != nil {
			return nil, err
		}
		key, err := r.eval(n.key, f)
		if err != nil {
			return nil, err
		}
		return r.getitem(v, key)
	case *slice:
		return r.evalSlice(n, f)
	case *call:
		return r.evalCall(n, f, nil)
	case *filter:
		v, err := r.eval(n.object, f)
		if err != nil {
			return nil, err
		}
		return r.applyFilter(n, v, f)
	case *test:
		return r.evalTest(n, f)
	}
	return nil, failf(Unsupported, "expression %T", e)
}

func (r *run) evalAll(list []expr, f *frame) ([]Value, error) {
	items := make([]Value, len(list))
	for i, e := range list {
		v, err := r.eval(e, f)
		if err != nil {
			return nil, err
		}
		items[i] = v
	}
	return items, nil
}

func (r *run) evalDict(n *dictLit, f *frame) (Value, error) {
	m := &Map{}
	for i, k := range n.keys {
		key, err := r.eval(k, f)
		if err != nil {
			return nil, err
		}
		v, err := r.eval(n.values[i], f)
		if err != nil {
			return nil, err
		}
		if err := m.set(key, v); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (r *run) evalCondition(n *condition, f *frame) (Value, error) {
	test, err := r.eval(n.test, f)
	switch {
	case err != nil:
		return nil, err
	case truth(test):
		return r.eval(n.then, f)
	case n.otherwise != nil:
		return r.eval(n.otherwise, f)
	}
	return undefinedf("the inline if-expression on line %d evaluated to false and no else section was defined", n.pos()), nil
}

func (r *run) evalCompare(n *compare, f *frame) (Value, error) {
	left, err := r.eval(n.first, f)
	if err != nil {
		return nil, err
	}
	for i, op := range n.ops {
		right, err := r.eval(n.rest[i], f)
		if err != nil {
			return nil, err
		}
		ok, err := r.compare(op, left, right)
		if err != nil || !ok {
			return false, err
		}
		left = right
	}
	return true, nil
}

func (r *run) evalConcat(n *concat, f *frame) (Value, error) {
	w := &limitedText{limit: r.limits.Size}
	for _, part := range n.parts {
		v, err := r.eval(part, f)
		if err != nil {
			return nil, err
		}
		s, err := r.str(v)
		if err != nil {
			return nil, err
		}
		if err := w.add(s); err != nil {
			return nil, err
		}
	}
	return w.String(), r.spend(w.Len() / 64)
}

// arguments evaluates the arguments of a call.
func (r *run) arguments(a *arguments, f *frame) (args []Value, named *Map, err error) {
	if args, err = r.evalAll(a.args, f); err != nil {
		return nil, nil, err
	}
	named = &Map{}
	for i, id := range a.names {
		v, err := r.eval(a.named[i], f)
		if err != nil {
			return nil, nil, err
		}
		named.Set(id, v)
	}
	if a.varargs != nil {
		v, err := r.eval(a.varargs, f)
		if err != nil {
			return nil, nil, err
		}
		more, err := r.collect(v)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, more...)
	}
	if a.varnamed != nil {
		v, err := r.eval(a.varnamed, f)
		if err != nil {
			return nil, nil, err
		}
		if err := spread(v, named); err != nil {
			return nil, nil, err
		}
	}
	return args, named, nil
}

// spread adds the entries of a ** argument.
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
func (r *run) evalCall(n *call, f *frame, caller *macro) (Value, error) {
	callee, err := r.eval(n.callee, f)
	if err != nil {
		return nil, err
	}
	args, named, err := r.arguments(&n.arguments, f)
	if err != nil {
		return nil, err
	}
	if caller != nil {
		named.Set("caller", caller)
	}
	return r.call(callee, args, named)
}

func (r *run) call(callee Value, args []Value, named *Map) (Value, error) {
	switch c := callee.(type) {
	case *undefined:
		return nil, c.fail()
	case *macro:
		return c.call(r, args, named)
	case *function:
		return c.call(r, args, named)
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
