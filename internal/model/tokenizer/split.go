package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
)

// splitBehavior says what a Split does with its matches.
type splitBehavior string

const (
	removed            splitBehavior = "Removed"
	isolated           splitBehavior = "Isolated"
	mergedWithPrevious splitBehavior = "MergedWithPrevious"
	mergedWithNext     splitBehavior = "MergedWithNext"
	contiguous         splitBehavior = "Contiguous"
)

// patternSplit is the Split pre-tokenizer.
type patternSplit struct {
	pattern  pattern
	behavior splitBehavior
	invert   bool
}

func newPatternSplit(data json.RawMessage, where string) (*patternSplit, error) {
	var d struct {
		Type     string
		Pattern  json.RawMessage
		Behavior splitBehavior
		Invert   bool
	}
	if err := strict(data, where, &d); err != nil {
		return nil, err
	}
	known := []splitBehavior{removed, isolated, mergedWithPrevious, mergedWithNext, contiguous}
	if !slices.Contains(known, d.Behavior) {
		return nil, fmt.Errorf("%s.behavior is %q; expected one of %q", where, d.Behavior, known)
	}
	p, err := newPattern(d.Pattern, where+".pattern")
	return &patternSplit{p, d.Behavior, d.Invert}, err
}

func (t *patternSplit) split(dst []piece, p piece) []piece {
	if t.pattern.scan != nil && t.behavior == isolated {
		return splitScan(dst, p, t.pattern.scan)
	}
	return splitSpans(dst, p, t.pattern.find(nil, p.text), t.behavior, t.invert)
}

// splitScan is splitSpans for a scanner, whose matches cover the text and become the pieces.
func splitScan(dst []piece, p piece, scan scanner) []piece {
	for i := 0; i < len(p.text); {
		next := scan(p.text, i)
		dst = append(dst, piece{p.text[i:next], p.first && i == 0})
		i = next
	}
	return dst
}

// splitSpans splits p at the matches; invert exchanges the matches and the text between them.
func splitSpans(dst []piece, p piece, matches []span, behavior splitBehavior, invert bool) []piece {
	for _, s := range applyBehavior(cover(matches, len(p.text), invert), behavior) {
		if s.start < s.end {
			dst = append(dst, piece{p.text[s.start:s.end], p.first && s.start == 0})
		}
	}
	return dst
}

// cover adds the spans between the matches.
func cover(matches []span, length int, invert bool) []span {
	all := make([]span, 0, 2*len(matches)+1)
	done := 0
	for _, m := range matches {
		if done < m.start {
			all = append(all, span{done, m.start, invert})
		}
		all = append(all, span{m.start, m.end, !invert})
		done = m.end
	}
	if done < length {
		all = append(all, span{done, length, invert})
	}
	return all
}

func applyBehavior(spans []span, behavior splitBehavior) []span {
	switch behavior {
	case removed:
		return slices.DeleteFunc(spans, func(s span) bool { return s.match })
	case contiguous:
		return join(spans, func(before, s span) bool { return before.match == s.match })
	case mergedWithPrevious:
		return join(spans, func(before, s span) bool { return s.match && !before.match })
	case mergedWithNext:
		return join(spans, func(before, s span) bool { return before.match && !s.match })
	}
	return spans
}

// join joins neighbours for which with returns true.
func join(spans []span, with func(before, s span) bool) []span {
	var out []span
	for i, s := range spans {
		if i > 0 && with(spans[i-1], s) {
			out[len(out)-1].end = s.end
			continue
		}
		out = append(out, s)
	}
	return out
}
