package jinja

// evaluator evaluates the expressions of a template and executes its statements.
type evaluator struct {
	runtime
	line        int // of the innermost node that is evaluated
	variables   map[string]Value
	out         *limitedText // what output statements append to
	captures    int          // open captures; 0 means that out is the text of the whole render
	generations [][2]int     // see [Output]
	untracked   bool
}

// capture runs body and returns the text that it writes.
func (ev *evaluator) capture(body func()) string {
	outer := ev.out
	ev.out = ev.textWriter()
	ev.captures++
	body()
	inner := ev.out.String()
	ev.out = outer
	ev.captures--
	return inner
}

// missing is the content of a name that has no value yet.
type missing struct{}

// frame holds the values of the names of one scope while its block runs.
type frame struct {
	parent *frame
	names  []string
	values []Value
}

// enter makes the frame of a scope and fills it with the values that its names have on entry.
func (ev *evaluator) enter(s *scope, parent *frame) *frame {
	ev.spend(len(s.names))
	f := &frame{parent: parent, names: s.names, values: make([]Value, len(s.names))}
	for i, id := range s.names {
		f.values[i] = missing{}
		switch s.origin[id] {
		case fromVariables:
			if v, ok := ev.variables[id]; ok {
				f.values[i] = v
			} else if g, ok := globals[id]; ok {
				f.values[i] = g
			}
		case fromOutside:
			f.values[i] = parent.find(id)
		}
	}
	return f
}

// find returns the content of a name in the innermost scope that has it.
func (f *frame) find(id string) Value {
	for ; f != nil; f = f.parent {
		for i, known := range f.names {
			if known == id {
				return f.values[i]
			}
		}
	}
	return missing{}
}

// set assigns a name of this scope.
func (f *frame) set(id string, v Value) {
	for i, known := range f.names {
		if known == id {
			f.values[i] = v
			return
		}
	}
}

// load returns the value of a name.
func (f *frame) load(id string) Value {
	v := f.find(id)
	if _, none := v.(missing); none {
		return undefinedf("'%s' is undefined", id)
	}
	return v
}
