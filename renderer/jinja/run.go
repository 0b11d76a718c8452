package jinja

import "time"

// run is the state of one render.
type run struct {
	limits      Limits
	steps       int
	depth       int
	clock       func() time.Time
	variables   map[string]Value
	out         *limitedText // what output statements append to
	captures    int          // how many captures are open; 0 means out is the render's own text
	generations [][2]int
	untracked   bool
}

// spend counts steps.
func (r *run) spend(steps int) error {
	r.steps += steps + 1
	if r.steps > r.limits.Steps {
		return failf(Limit, "the render takes more than %d steps", r.limits.Steps)
	}
	return nil
}

// deeper counts one nested call; the caller defers the returned function.
func (r *run) deeper() (leave func(), err error) {
	r.depth++
	if r.depth > r.limits.Depth {
		err = failf(Limit, "calls nest deeper than %d", r.limits.Depth)
	}
	return func() { r.depth-- }, err
}

func tooLarge(limit int) error { return failf(Limit, "a text or list exceeds %d", limit) }

// room checks that a text or list of n bytes or items may be built, and charges for it.
func (r *run) room(n int) error {
	if n < 0 || n > r.limits.Size {
		return tooLarge(r.limits.Size)
	}
	return r.spend(n / 64)
}

// capture runs body with its output going to a text of its own.
func (r *run) capture(body func() error) (string, error) {
	outer := r.out
	r.out = &limitedText{limit: r.limits.Size}
	r.captures++
	err := body()
	inner := r.out.String()
	r.out = outer
	r.captures--
	return inner, err
}

// missing is the content of a name that has no value yet.
type missing struct{}

// frame holds the values of the names of one scope while its block runs.
type frame struct {
	parent *frame
	names  []string
	values []Value
}

func (r *run) enter(s *scope, parent *frame) (*frame, error) {
	if err := r.spend(len(s.names)); err != nil {
		return nil, err
	}
	f := &frame{parent: parent, names: s.names, values: make([]Value, len(s.names))}
	for i, id := range s.names {
		f.values[i] = missing{}
		switch s.origin[id] {
		case fromVariables:
			if v, ok := r.variables[id]; ok {
				f.values[i] = v
			} else if g, ok := globals[id]; ok {
				f.values[i] = g
			}
		case fromOutside:
			f.values[i] = parent.find(id)
		}
	}
	return f, nil
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
