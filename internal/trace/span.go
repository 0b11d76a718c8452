package trace

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// Span is a line of a file of spans. Times are microseconds since 1970, UTC.
type Span struct {
	Role    string           `json:"role"`
	Kind    trinity.SpanKind `json:"kind"`
	Name    string           `json:"name,omitempty"`
	For     string           `json:"for,omitempty"`
	Step    int64            `json:"step,omitempty"`
	Version int64            `json:"version,omitempty"`
	ID      string           `json:"id,omitempty"` // of the experience
	Begin   int64            `json:"begin"`
	End     int64            `json:"end"`
}

// SpanOf returns the line of a span.
func SpanOf(s trinity.Span) Span {
	out := Span{
		Role: s.Role, Kind: s.Kind, Name: s.Name, For: s.For, Step: s.Step, Version: s.Version,
		Begin: s.Begin.UnixMicro(), End: s.End.UnixMicro(),
	}
	if s.Experience != (trinity.ExperienceID{}) {
		out.ID = s.Experience.String()
	}
	return out
}

// Failure is a line of a file of failed rollouts and dropped answers. A line without Kind says that a process began with
// a step of the role.
type Failure struct {
	Role    string              `json:"role"`
	ID      string              `json:"id"`
	Step    int64               `json:"step"` // of the explorer
	Task    string              `json:"task"`
	Run     int                 `json:"run"`
	Kind    trinity.FailureKind `json:"kind"`
	Reason  string              `json:"reason"`
	Retries int                 `json:"retries"`
	Prompt  []int32             `json:"prompt,omitempty"`  // tokens of the last call of a model
	Sampled []int32             `json:"sampled,omitempty"` // tokens that this call gave until the failure
	Time    time.Time           `json:"time"`
}

func failureOf(f trinity.FailedRollout) Failure {
	return Failure{f.Role, f.ID.String(), f.ID.Step, f.ID.Task, f.ID.Run, f.Kind, f.Reason, f.Retries, f.Prompt, f.Sampled, f.Time}
}

// ReadSpans reads the spans of a trace, in the order in which they ended. If a run was killed and has
// resumed, the steps that it did again replace what the killed process did of them. With an error about
// a damaged file it returns what the others have, and what that file has before the damage.
func ReadSpans(dir string) ([]Span, error) {
	return readLines(dir, spansPrefix, parseSpan, func(s *Span) placed {
		return placed{s.Role, s.Step, does(string(s.Kind)), s.Begin, s.End}
	})
}

// does reports whether a span of this kind says that its role did the step, and not only what comes
// before or after it.
func does(kind string) bool {
	return kind == string(trinity.SpanRollout) || kind == string(trinity.SpanForward)
}

// ReadFailures reads the failed rollouts of a trace, as [ReadSpans] reads spans.
func ReadFailures(dir string) ([]Failure, error) {
	all, err := readLines(dir, failedPrefix, parseFailure, func(f *Failure) placed {
		at := f.Time.UnixMicro()
		return placed{f.Role, f.Step, true, at, at}
	})
	return failedIn(all), err
}

func parseFailure(line []byte, f *Failure) error {
	*f = Failure{}
	return json.Unmarshal(line, f)
}

// failedIn returns the lines that are failed rollouts.
func failedIn(all []Failure) []Failure {
	return slices.DeleteFunc(all, func(f Failure) bool { return f.Kind == "" })
}

// placed tells where a line belongs.
type placed struct {
	role       string
	step       int64
	does       bool // the line says that the role did the step, and not only what comes before or after
	begin, end int64
}

// readLines reads all files with this prefix. A process that began after the end of an earlier one
// replaces the lines of its roles, from the first step on that it did, of that one.
func readLines[T any](dir, prefix string, parse func([]byte, *T) error, placeOf func(*T) placed) (all []T, err error) {
	files, err := linesIn(dir, prefix)
	if err != nil {
		return nil, err
	}
	var processes []*process[T]
	var damaged []error
	var line T
	for _, file := range files {
		if n := len(processes); n == 0 || processes[n-1].number != file.process {
			processes = append(processes, &process[T]{number: file.process, first: map[string]int64{}, begin: math.MaxInt64})
		}
		p := processes[len(processes)-1]
		_, err := eachLine(file.path, 0, math.MaxInt, func(text []byte) error {
			if err := parse(text, &line); err != nil {
				return err
			}
			p.add(line, placeOf(&line))
			return nil
		})
		damaged = append(damaged, err)
	}
	if len(processes) == 1 {
		return processes[0].lines, errors.Join(damaged...)
	}
	for i, p := range processes {
		for k, line := range p.lines {
			at := p.places[k]
			replaced := func(later *process[T]) bool {
				first, ok := later.first[p.roles[at.role]]
				return ok && at.step >= first && later.begin >= p.end
			}
			if !slices.ContainsFunc(processes[i+1:], replaced) {
				all = append(all, line)
			}
		}
	}
	return all, errors.Join(damaged...)
}

// process is what one process wrote.
type process[T any] struct {
	number     int
	lines      []T
	places     []place // of the lines
	roles      []string
	first      map[string]int64 // step that a role did
	begin, end int64            // of all its lines
}

// place is the role of a line, by its number among the roles of a process, and its step.
type place struct {
	role int
	step int64
}

func (p *process[T]) add(line T, where placed) {
	if first, ok := p.first[where.role]; where.does && (!ok || where.step < first) {
		p.first[where.role] = where.step
	}
	p.begin, p.end = min(p.begin, where.begin), max(p.end, where.end)
	role := slices.Index(p.roles, where.role)
	if role < 0 {
		role = len(p.roles)
		p.roles = append(p.roles, where.role)
	}
	p.lines, p.places = append(p.lines, line), append(p.places, place{role, where.step})
}
