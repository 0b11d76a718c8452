package config

import (
	"fmt"
	"slices"

	"github.com/trinity-go/trinity/registry"
)

// SharedKeys is implemented by a trainer or sampler plug-in to say what it makes of the keys that all engines share. Keys of its own are
// its arguments.
type SharedKeys interface {
	// Reads maps keys to "" if the engine honours them, and otherwise to the reason why they have no meaning for it. A key stands for all
	// below it, * for any segment, and a longer key beats a shorter one. trinity check lists keys without meaning that a file sets.
	Reads() map[string]string
	// Refuses returns the values of the configuration that the engine cannot do, and that would change a run if it ignored them.
	Refuses(s *Settled) []Refusal
}

// Refusal is a valid value that an engine does not support.
type Refusal struct {
	Key  string
	What string // what the value asks for
	Hint string // what to do; may be empty
}

// engine is a plug-in that the mode opens.
type engine struct{ kind, name string }

// opened lists the engines that the mode opens.
func (s *Settled) opened() (all []engine) {
	if s.Trains {
		all = append(all, engine{"trainer", s.Engines.Train})
	}
	if s.Samples {
		all = append(all, engine{"sampler", s.Engines.Sample})
	}
	return all
}

// sharedKeys is what the engine says of shared keys; false if it says nothing.
func (e engine) sharedKeys() (SharedKeys, bool) {
	catalog, ok := registry.Find(e.kind)
	if !ok {
		return nil, false
	}
	keys, ok := catalog.Default(e.name).(SharedKeys)
	return keys, ok
}

// reads returns what the engine says of a key; false if it says nothing.
func (e engine) reads(key string) (reason string, says bool) {
	keys, ok := e.sharedKeys()
	if !ok {
		return "", false
	}
	longest := -1
	for pattern, why := range keys.Reads() {
		if below(key, pattern) && len(pattern) > longest {
			reason, says, longest = why, true, len(pattern)
		}
	}
	return reason, says
}

// unusedByEngines returns why none of the engines reads a key that engines share, "" if one does or if it is no such key. A key is shared if
// any engine of this program says something of it.
func (s *Settled) unusedByEngines(key string) string {
	opened, silent := s.opened(), ""
	for _, e := range opened {
		reason, says := e.reads(key)
		switch {
		case says && reason == "":
			return ""
		case says:
			silent = reason
		}
	}
	if silent != "" {
		return silent
	}
	for _, kind := range []string{"trainer", "sampler"} {
		catalog, ok := registry.Find(kind)
		if !ok {
			continue
		}
		for _, name := range catalog.Names() {
			reason, says := engine{kind, name}.reads(key)
			at := slices.IndexFunc(opened, func(e engine) bool { return e.kind == kind })
			switch {
			case !says:
			case at >= 0:
				return fmt.Sprintf("the %s %q does not say that it reads it", kind, opened[at].name)
			case reason != "":
				return reason
			}
		}
	}
	return ""
}

// refusedByEngines reports what the engines of the mode refuse; refuse reports one value.
func (s *Settled) refusedByEngines(refuse func(key, what, hint string)) {
	told := map[string]bool{}
	for _, e := range s.opened() {
		keys, ok := e.sharedKeys()
		if !ok {
			continue
		}
		for _, r := range keys.Refuses(s) {
			if !told[r.Key] {
				told[r.Key] = true
				refuse(r.Key, r.What, r.Hint)
			}
		}
	}
}
