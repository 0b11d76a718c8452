package jinja

// Jinja's compiler decides for every block where each name lives. The rules below are Jinja's: a
// name that a block stores belongs to that block and starts with the value it has outside; a name
// that is only read belongs to the first enclosing block that mentions it, or to the outermost
// block that reads it, which takes it from the render's variables.

type origin int

const (
	fromVariables origin = iota // the variables given to Render, or a global
	fromOutside                 // the same name of the enclosing scopes, when this one is entered
	fromNothing                 // missing until assigned
	fromParameter               // assigned by the block itself
)

// scope holds the names of one block and where they come from on entry.
type scope struct {
	parent *scope
	names  []string // in order of first mention
	origin map[string]origin
	stores map[string]bool
}

func newScope(parent *scope) *scope {
	return &scope{parent: parent, origin: map[string]origin{}, stores: map[string]bool{}}
}

func (s *scope) has(id string) bool {
	for ; s != nil; s = s.parent {
		if _, ok := s.origin[id]; ok {
			return true
		}
	}
	return false
}

// maxNames bounds the names of a block, because each branch of an if copies them.
const maxNames = 500

func (s *scope) define(id string, o origin) {
	if _, ok := s.origin[id]; !ok {
		if len(s.names) == maxNames {
			panic(at(failf(Limit, "a block has more than %d names", maxNames), 1))
		}
		s.names = append(s.names, id)
	}
	s.origin[id] = o
}

func (s *scope) load(id string) {
	if !s.has(id) {
		s.define(id, fromVariables)
	}
}

func (s *scope) store(id string) {
	s.stores[id] = true
	if _, ok := s.origin[id]; ok {
		return
	}
	if s.parent.has(id) {
		s.define(id, fromOutside)
	} else {
		s.define(id, fromNothing)
	}
}

func (s *scope) parameter(id string) {
	s.stores[id] = true
	s.define(id, fromParameter)
}

func (s *scope) branch() *scope {
	c := newScope(s.parent)
	for _, id := range s.names {
		c.define(id, s.origin[id])
	}
	for id := range s.stores {
		c.stores[id] = true
	}
	return c
}

// merge adds the names that the branches of an if mention. A name that only some branches store
// keeps its outer value when another branch runs.
func (s *scope) merge(branches ...*scope) {
	var stored []string
	for _, b := range branches {
		for id := range b.stores {
			if !s.stores[id] {
				stored = append(stored, id)
			}
		}
	}
	for _, b := range branches {
		for _, id := range b.names {
			s.define(id, b.origin[id])
		}
		for id := range b.stores {
			s.stores[id] = true
		}
	}
	for _, id := range stored {
		if s.parent.has(id) {
			s.define(id, fromOutside)
		} else {
			s.define(id, fromVariables)
		}
	}
}
