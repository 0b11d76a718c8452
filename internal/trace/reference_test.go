package trace

import (
	"errors"
	"math"
	"slices"
)

// readSlowly reads the spans of a trace line by line, as a reference for [Table].
func readSlowly(dir string) (all []Span, err error) {
	files, err := linesIn(dir, spansPrefix)
	if err != nil {
		return nil, err
	}
	type process struct {
		number     int
		spans      []Span
		first      map[string]int64 // step that a role did
		begin, end int64
	}
	var processes []*process
	for _, file := range files {
		if n := len(processes); n == 0 || processes[n-1].number != file.process {
			processes = append(processes, &process{number: file.process, first: map[string]int64{}, begin: math.MaxInt64})
		}
		p := processes[len(processes)-1]
		var s Span
		_, damage := eachLine(file.path, 0, math.MaxInt, func(text []byte) error {
			if err := parseSpan(text, &s); err != nil {
				return err
			}
			if first, ok := p.first[s.Role]; does(string(s.Kind)) && (!ok || s.Step < first) {
				p.first[s.Role] = s.Step
			}
			p.spans, p.begin, p.end = append(p.spans, s), min(p.begin, s.Begin), max(p.end, s.End)
			return nil
		})
		err = errors.Join(err, damage)
	}
	for i, p := range processes {
		for _, s := range p.spans {
			if !slices.ContainsFunc(processes[i+1:], func(later *process) bool {
				first, ok := later.first[s.Role]
				return ok && s.Step >= first && later.begin >= p.end
			}) {
				all = append(all, s)
			}
		}
	}
	return all, err
}
