package jinja

// macro is a callable block of a template together with the frame in which it was defined.
type macro struct {
	name      string
	signature *signature
	closure   *frame
}

func (m *macro) call(ev *evaluator, args []Value, named *Map) Value {
	leave := ev.deeper()
	defer leave()
	f := ev.enter(m.signature.scope, m.closure)
	m.bind(ev, f, args, named)
	return ev.capture(func() {
		ev.exec(m.signature.body, f)
	})
}

// bind assigns the arguments of a call to the parameters in order, then the defaults to the
// parameters that are left.
func (m *macro) bind(ev *evaluator, f *frame, args []Value, named *Map) {
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
		panic(typeErrorf("macro '%s' takes no keyword argument '%v'", m.name, rest.keys[0]))
	}
	if sig.varargs {
		f.set("varargs", &Tuple{args[min(len(args), len(sig.params)):]})
	} else if len(args) > len(sig.params) {
		panic(typeErrorf("macro '%s' takes not more than %d argument(s)", m.name, len(sig.params)))
	}
	m.defaults(ev, f, given)
}

func (m *macro) defaults(ev *evaluator, f *frame, given []bool) {
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
		v := ev.eval(sig.defaults[d], f)
		f.set(param, v)
	}
}

var macroAttributes = map[string]func(m *macro) Value{
	"name": func(m *macro) Value { return m.name },
	"arguments": func(m *macro) Value {
		t := &Tuple{}
		for _, p := range m.signature.params {
			t.Items = append(t.Items, p)
		}
		return t
	},
	"caller":        func(m *macro) Value { return m.signature.caller },
	"catch_kwargs":  func(m *macro) Value { return m.signature.kwargs },
	"catch_varargs": func(m *macro) Value { return m.signature.varargs },
}

func (ev *evaluator) callBlock(n *callBlock, f *frame) {
	caller := &macro{name: "caller", signature: &n.signature, closure: f}
	if n.generation {
		ev.generation(caller)
		return
	}
	ev.print(ev.evalCall(n.call, f, caller))
}

// generation writes the body of a generation block and records its place in the output.
func (ev *evaluator) generation(body *macro) {
	v := body.call(ev, nil, &Map{})
	begin := ev.out.Len()
	ev.print(v)
	if ev.captures > 0 {
		ev.untracked = true
	} else {
		ev.generations = append(ev.generations, [2]int{begin, ev.out.Len()})
	}
}
