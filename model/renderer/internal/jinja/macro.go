package jinja

// macro is a callable block of a template together with the frame in which it was defined.
type macro struct {
	name      string
	signature *signature
	closure   *frame
}

func (m *macro) call(ev *evaluator, args []Value, named *Map) (Value, error) {
	leave, err := ev.deeper()
	defer leave()
	if err != nil {
		return nil, err
	}
	f, err := ev.enter(m.signature.scope, m.closure)
	if err != nil {
		return nil, err
	}
	if err := m.bind(ev, f, args, named); err != nil {
		return nil, err
	}
	return ev.capture(func() error {
		_, err := ev.exec(m.signature.body, f)
		return err
	})
}

// bind assigns the arguments of a call to the parameters in order, then the defaults to the
// parameters that are left.
func (m *macro) bind(ev *evaluator, f *frame, args []Value, named *Map) error {
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
	return m.defaults(ev, f, given)
}

func (m *macro) defaults(ev *evaluator, f *frame, given []bool) error {
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
		v, err := ev.eval(sig.defaults[d], f)
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

func (ev *evaluator) callBlock(n *callBlock, f *frame) error {
	caller := &macro{name: "caller", signature: &n.signature, closure: f}
	if n.generation {
		return ev.generation(caller)
	}
	v, err := ev.evalCall(n.call, f, caller)
	if err != nil {
		return err
	}
	return ev.print(v)
}

// generation writes the body of a generation block and records its place in the output.
func (ev *evaluator) generation(body *macro) error {
	v, err := body.call(ev, nil, &Map{})
	if err != nil {
		return err
	}
	begin := ev.out.Len()
	if err := ev.print(v); err != nil {
		return err
	}
	if ev.captures > 0 {
		ev.untracked = true
	} else {
		ev.generations = append(ev.generations, [2]int{begin, ev.out.Len()})
	}
	return nil
}
