package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Note is a key that is set but has no meaning for the run.
type Note struct {
	Key    string `json:"key"`
	File   string `json:"file"`
	Line   int    `json:"line"`
	Value  string `json:"value"` // in the file; stars for a secret
	Reason string `json:"reason"`
}

// String returns the key with its value, its place and the reason.
func (n Note) String() string {
	return fmt.Sprintf("%s = %s (%s): %s", n.Key, n.Value, Position{n.File, n.Line, 0}.line(), n.Reason)
}

// unusedKey is a key, with all keys below it, that has no meaning for some runs.
type unusedKey struct {
	key string // * matches any segment
	// why returns why the settled run does not read a key; "" if it does.
	why func(s *Settled, key string) string
}

// always is the reason of a key that no run reads.
func always(reason string) func(*Settled, string) string {
	return func(*Settled, string) string { return reason }
}

// unless is the reason of a key that only runs of some kind read.
func unless(reads func(*Settled) bool, reason string) func(*Settled, string) string {
	return func(s *Settled, _ string) string {
		if reads(s) {
			return ""
		}
		return reason
	}
}

// onlyIf is the reason of a key that only runs which do some work read.
func onlyIf(does func(Work) bool, reason string) func(*Settled, string) string {
	return unless(func(s *Settled) bool { return does(s.Work) }, reason)
}

func trains(w Work) bool   { return w.Trains }
func explores(w Work) bool { return w.Explores }
func serves(w Work) bool   { return w.mode == "serve" }

// unused lists the keys that have no meaning for some runs, whatever their engine. Load accepts them, because
// such a run would be the same without them, and the plan lists them.
var unused = slices.Concat(unusedOfRun, unusedOfAlgorithm, unusedOfModel, unusedOfExplorer, unusedOfAuxiliaryModels, unusedOfBuffers,
	unusedOfTasksets, unusedOfDatasets, unusedOfSynchronizer, unusedOfTrainer, unusedOfDataProcessor)

// unusedReason returns why a key has no meaning for the run, "" if it has one.
func (s *Settled) unusedReason(key string) string {
	if slices.ContainsFunc(s.Engines.replaced, func(dropped string) bool { return below(key, dropped) }) {
		return "--engine replaces the engines that it is for"
	}
	for _, u := range unused {
		if !below(key, u.key) {
			continue
		}
		if reason := u.why(s, key); reason != "" {
			return reason
		}
	}
	return s.unusedByEngines(key)
}

// below reports whether a key equals the pattern or is under it; * matches any segment.
func below(key, pattern string) bool {
	k, p := strings.Split(key, "."), strings.Split(pattern, ".")
	if len(k) < len(p) {
		return false
	}
	for i := range p {
		if p[i] != "*" && p[i] != k[i] {
			return false
		}
	}
	return true
}

// Unused lists the keys that the file sets and that have no meaning for the run, in file order.
func (s *Settled) Unused() []Note {
	var notes []Note
	for _, key := range s.source.leaves("") {
		if reason := s.unusedReason(key); reason != "" {
			p := s.source.Pos(key)
			value := ""
			if n := nodeOf(s.source.root, key); n != nil {
				value = fmt.Sprint(Mask(key, n.Value))
			}
			notes = append(notes, Note{Key: key, File: p.File, Line: p.Line, Value: value, Reason: reason})
		}
	}
	return notes
}

// leaves lists the keys with values (not sections) that the file writes at or below root, in file
// order.
func (s *source) leaves(root string) []string {
	inner := map[string]bool{}
	for key := range s.positions {
		inner[parent(key)] = true
	}
	var keys []string
	for key := range s.positions {
		if !inner[key] && (root == "" || below(key, root)) && !strings.HasPrefix(key, "stages.") {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		p, q := s.Pos(a), s.Pos(b)
		return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Col, q.Col), cmp.Compare(a, b))
	})
	return keys
}

// isEmpty reports whether the value of a key is null or a mapping without keys.
func (s *source) isEmpty(key string) bool {
	n := nodeOf(s.root, key)
	return n != nil && (isNull(n) || n.Kind == yaml.MappingNode && len(n.Content) == 0)
}
