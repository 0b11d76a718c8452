package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

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

func spanOf(s trinity.Span) Span {
	out := Span{
		Role: s.Role, Kind: s.Kind, Name: s.Name, For: s.For, Step: s.Step, Version: s.Version,
		Begin: s.Begin.UnixMicro(), End: s.End.UnixMicro(),
	}
	if s.Experience != (trinity.ExperienceID{}) {
		out.ID = s.Experience.String()
	}
	return out
}

// Failure is a line of a file of failed rollouts. A line without Kind says that a process began with
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
	return readLines(dir, spansPrefix, func(s *Span) placed {
		does := s.Kind == trinity.SpanRollout || s.Kind == trinity.SpanForward
		return placed{s.Role, s.Step, does, s.Begin, s.End}
	})
}

// ReadFailures reads the failed rollouts of a trace, as [ReadSpans] reads spans.
func ReadFailures(dir string) ([]Failure, error) {
	all, err := readLines(dir, failedPrefix, func(f *Failure) placed {
		at := f.Time.UnixMicro()
		return placed{f.Role, f.Step, true, at, at}
	})
	return slices.DeleteFunc(all, func(f Failure) bool { return f.Kind == "" }), err
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
func readLines[T any](dir, prefix string, of func(*T) placed) (all []T, err error) {
	files, err := linesIn(dir, prefix)
	if err != nil {
		return nil, err
	}
	var processes []process[T]
	var damaged []error
	for _, file := range files {
		if n := len(processes); n == 0 || processes[n-1].number != file.process {
			processes = append(processes, process[T]{number: file.process, first: map[string]int64{}, begin: math.MaxInt64})
		}
		lines, err := readFile[T](file.path)
		damaged = append(damaged, err)
		processes[len(processes)-1].add(lines, of)
	}
	for i, p := range processes {
		for k := range p.lines {
			line := of(&p.lines[k])
			replaced := func(later process[T]) bool {
				first, ok := later.first[line.role]
				return ok && line.step >= first && later.begin >= p.end
			}
			if !slices.ContainsFunc(processes[i+1:], replaced) {
				all = append(all, p.lines[k])
			}
		}
	}
	return all, errors.Join(damaged...)
}

// process is what one process wrote.
type process[T any] struct {
	number     int
	lines      []T
	first      map[string]int64 // step that a role did
	begin, end int64            // of all its lines
}

func (p *process[T]) add(lines []T, of func(*T) placed) {
	for i := range lines {
		line := of(&lines[i])
		if first, ok := p.first[line.role]; line.does && (!ok || line.step < first) {
			p.first[line.role] = line.step
		}
		p.begin, p.end = min(p.begin, line.begin), max(p.end, line.end)
	}
	p.lines = append(p.lines, lines...)
}

// readFile reads the lines of one file. It leaves out what a running or killed process has not
// completed.
func readFile[T any](path string) (all []T, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) { // thinned out meanwhile
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	z, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	in := bufio.NewReader(z)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return all, nil
		}
		var one T
		if err == nil {
			err = json.Unmarshal(line, &one)
		}
		if err != nil {
			return all, fmt.Errorf("%s is damaged behind line %d: %w", path, n-1, err)
		}
		all = append(all, one)
	}
}
