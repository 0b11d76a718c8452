package jinja

// macro is a callable block of a template together with the scope that it was defined in.
type macro struct {
	name      string
	signature *signature
	closure   *frame
}

func (m *macro) call(r *run, args []Value, named *Map) (Value, error) {
	leave, err := r.deeper()
	defer leave()
	if err != nil {
		return nil, err
	}
	f, err := r.enter(m.signature.scope, m.closure)
	if err != nil {
		return nil, err
	}
	if err := m.bind(r, f, args, named); err != nil {
		return nil, err
	}
	return r.capture(func() error {
		_, err := r.exec(m.signature.body, f)
		return err
	})
}

// bind assigns the arguments of a call to the parameters, and their defaults to the rest, in order.
func (m *macro) bind(r *run, f *frame, args []Value, named *Map) error {
	sig, rest := m.signature, named.clone()
	given := make([]bool, len(sig.params))
	callerBound := false
	for i, param := range sig.params {
		if i < len(args) {
			f.set(param, args[i])
			given[i] = true
			callerBound = callerBound || param == "caller"
			continue
		}
		callerBound = callerBound || param == "caller"
		if v, ok := rest.remove(param); ok {
			f.set(param, v)
			given[i] = true
		}
	}
	if sig.caller && !callerBound {
		v, ok := rest.remove("caller")
		if !ok || v == nil {
			v = undefinedf("No caller defined")
		}
		f.set("caller", v)
	}
	if sig.kwargs {
		f.set("kwargs", rest)
	} else if rest.Len() > 0 {
		return typeErrorf("macro '%s' takes no keyword argument '%v'", m.name, rest.keys[0])
	}
	if sig.varargs {
		f.set("varargs", &Tuple{args[min(len(args), len(sig.params)):]})
	} else if len(args) > len(sig.params) {
		return typeErrorf("macro '%s' takes not more than %d argument(s)", m.name, len(sig.params))
	}
	return m.defaults(r, f, given)
}

func (m *macro) defaults(r *run, f *frame, given []bool) error {
	sig := m.signature
	for i, param := range sig.params {
		if given[i] {
			continue
		}
		d := i - (len(sig.params) - len(sig.defaults))
		if d < 0 {
			f.set(param, undefinedf("parameter '%s' was not provided", param))
			continue
		}
		v, err := r.eval(sig.defaults[d], f)
		if err != nil {
			return err
		}
		f.set(param, v)
	}
	return nil
}

func (m *macro) attr(id string) (Value, bool) {
	switch id {
	case "name":
		return m.name, true
	case "arguments":
		t := &Tuple{}
		for _, p := range m.signature.params {
			t.Items = append(t.Items, p)
		}
		return t, true
	case "caller":
		return m.signature.caller, true
	case "catch_kwargs":
		return m.signature.kwargs, true
	case "catch_varargs":
		return m.signature.varargs, true
	}
	return nil, false
}

func (r *run) callBlock(n *callBlock, f *frame) error {
	caller := &macro{name: "caller", signature: &n.signature, closure: f}
	if n.generation {
		return r.generation(caller)
	}
	v, err := r.evalCall(n.call, f, caller)
	if err != nil {
		return err
	}
	return r.print(v)
}

// generation writes what the assistant wrote and notes its place in the output.
func (r *run) generation(body *macro) error {
	v, err := body.call(r, nil, &Map{})
	if err != nil {
		return err
	}
	begin := r.out.Len()
	if err := r.print(v); err != nil {
		return err
	}
	if r.captures > 0 {
		r.untracked = true
	} else {
		r.generations = append(r.generations, [2]int{begin, r.out.Len()})
	}
	return nil
}
