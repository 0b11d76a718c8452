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
	Role     string              `json:"role"`
	ID       string              `json:"id"`
	Step     int64               `json:"step"` // of the explorer
	Task     string              `json:"task"`
	Run      int                 `json:"run"`
	Kind     trinity.FailureKind `json:"kind"`
	Reason   string              `json:"reason"`
	Retries  int                 `json:"retries"`
	Question string              `json:"question,omitempty"` // of the task
	Truth    string              `json:"truth,omitempty"`    // the task's reference answer
	Prompt   []int32             `json:"prompt,omitempty"`   // tokens of the last call of a model
	Sampled  []int32             `json:"sampled,omitempty"`  // tokens that this call gave until the failure
	Time     time.Time           `json:"time"`
}

func failureOf(f trinity.FailedRollout) Failure {
	return Failure{
		f.Role, f.ID.String(), f.ID.Step, f.ID.Task, f.ID.Run, f.Kind, f.Reason, f.Retries, f.Question, f.Truth, f.Prompt, f.Sampled, f.Time,
	}
}

// ReadSpans reads the spans of a trace as [Table.Spans] has them. With an error about a damaged file it returns what
// the others have, and what that file has before the damage.
func ReadSpans(dir string) (all []Span, err error) {
	var t Table
	_, damaged, err := t.Update(dir)
	for _, line := range damaged {
		err = errors.Join(err, errors.New(line))
	}
	for _, s := range t.Spans() {
		all = append(all, Span{Role: t.Words[s.Role], Kind: trinity.SpanKind(t.Words[s.Kind]), Name: t.Words[s.Name], For: t.Words[s.For],
			Step: s.Step, Version: s.Version, ID: t.Words[s.ID], Begin: s.Begin, End: s.End})
	}
	return all, err
}

// does reports whether a span of this kind says that its role did the step, and not only what comes
// before or after it.
func does(kind string) bool {
	return kind == string(trinity.SpanRollout) || kind == string(trinity.SpanForward)
}

// ReadFailures reads the failed rollouts of a trace, as [ReadSpans] reads spans.
func ReadFailures(dir string) (all []Failure, err error) {
	files, err := linesIn(dir, failedPrefix)
	if err != nil {
		return nil, err
	}
	type process struct {
		number int
		lines  []Failure
		life   life[string]
	}
	var processes []*process
	for _, file := range files {
		if n := len(processes); n == 0 || processes[n-1].number != file.process {
			processes = append(processes, &process{number: file.process})
		}
		p := processes[len(processes)-1]
		_, damage := eachLine(file.path, 0, math.MaxInt, appended(&p.lines, parseFailure))
		err = errors.Join(err, damage)
	}
	for i, p := range slices.Backward(processes) {
		for _, f := range p.lines {
			p.life.add(f.Role, f.Step, true, f.Time.UnixMicro(), f.Time.UnixMicro())
		}
		p.lines = slices.DeleteFunc(failedIn(p.lines), func(f Failure) bool {
			return slices.ContainsFunc(processes[i+1:], func(later *process) bool { return later.life.replaces(&p.life, f.Role, f.Step) })
		})
	}
	for _, p := range processes {
		all = append(all, p.lines...)
	}
	return all, err
}

// life is what one process did, by the role's name or number.
type life[K comparable] struct {
	First      map[K]int64 // step that a role did
	Begin, End int64       // of all its lines; µs since 1970
}

// add adds a line. does tells whether the line says that the role did the step.
func (l *life[K]) add(role K, step int64, does bool, begin, end int64) {
	if l.First == nil {
		l.First, l.Begin, l.End = map[K]int64{}, begin, end
	}
	l.Begin, l.End = min(l.Begin, begin), max(l.End, end)
	if first, ok := l.First[role]; does && (!ok || step < first) {
		l.First[role] = step
	}
}

// replaces reports whether the process did again what an earlier one did in a step: it began after that one's end, and
// the role's first step is no later one.
func (l *life[K]) replaces(earlier *life[K], role K, step int64) bool {
	first, ok := l.First[role]
	return ok && step >= first && l.Begin >= earlier.End
}

func parseFailure(line []byte, f *Failure) error {
	*f = Failure{}
	return json.Unmarshal(line, f)
}

// failedIn returns the lines that are failed rollouts.
func failedIn(all []Failure) []Failure {
	return slices.DeleteFunc(all, func(f Failure) bool { return f.Kind == "" })
}
