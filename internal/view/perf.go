package view

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/trace"
)

// Perf is where the time of a run went.
type Perf struct {
	Trace string // the directory of the traces
	spans []trace.Span
	step  int64 // that alone is shown; 0: the whole run

	damaged error // what could not be read of them
}

// ReadPerf reads the spans from the directory of a run or of a stage. Of several stages it takes the
// newest that has some.
func ReadPerf(dir string) (*Perf, error) {
	run, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	for _, path := range run.Traces {
		spans, damaged := trace.ReadSpans(path)
		if len(spans) > 0 {
			return &Perf{Trace: path, spans: spans, damaged: damaged}, nil
		}
		if damaged != nil {
			return nil, damaged
		}
	}
	return nil, fmt.Errorf("no spans are kept below %s: give the directory of a run that has worked with monitor.trace.spans true", dir)
}

// Only leaves of the spans what was in a train step: from the end of the trainer's step before to the end of
// this one.
func (p *Perf) Only(step int64) error {
	steps := p.trainSteps()
	if !slices.Contains(steps, step) {
		return fmt.Errorf("%s has no spans of train step %d: it has %s", p.Trace, step, cmp.Or(listed(steps), "no step"))
	}
	begin, end := int64(math.MinInt64), int64(math.MinInt64)
	for _, s := range p.spans {
		switch {
		case s.Role != trinity.RoleTrainer || s.Step > step:
		case s.Step < step:
			begin = max(begin, s.End)
		default:
			end = max(end, s.End)
		}
	}
	p.step = step
	p.spans = slices.DeleteFunc(p.spans, func(s trace.Span) bool { return s.End <= begin || s.Begin >= end })
	for i := range p.spans {
		s := &p.spans[i]
		s.Begin, s.End = max(s.Begin, begin), min(s.End, end)
	}
	return nil
}

// trainSteps returns the steps in which the trainer has computed something, in order.
func (p *Perf) trainSteps() []int64 {
	steps := map[int64]bool{}
	for _, s := range p.spans {
		if s.Role == trinity.RoleTrainer && s.Kind == trinity.SpanForward {
			steps[s.Step] = true
		}
	}
	return slices.Sorted(maps.Keys(steps))
}

func byEnd(a, b trace.Span) int { return cmp.Compare(a.End, b.End) }

// work is all that a role did of one kind.
type work struct {
	label string
	spans []trace.Span
}

// sum returns the seconds of all spans, and covered the seconds with at least one of them.
func (w *work) sum() (sum, covered float64) {
	var busy rundir.Union
	slices.SortFunc(w.spans, func(a, b trace.Span) int { return cmp.Compare(a.Begin, b.Begin) })
	for _, s := range w.spans {
		sum += seconds(s)
		busy.Add(rundir.Stretch{Begin: s.Begin, End: s.End})
	}
	return sum, float64(busy.Within(math.MinInt64, math.MaxInt64)) / 1e6
}

func seconds(s trace.Span) float64 { return float64(s.End-s.Begin) / 1e6 }

// Print writes where the time went: what each role did, for whom it waited, what bounded the run, how fast tokens
// were, and what was slowest.
func (p *Perf) Print(w io.Writer) error {
	first, last := p.spans[0].Begin, p.spans[0].End
	for _, s := range p.spans {
		first, last = min(first, s.Begin), max(last, s.End)
	}
	roles := p.works()
	whole := max(float64(last-first)/1e6, 1e-9)
	var out strings.Builder
	where := safetext.Printable(p.Trace)
	if p.step > 0 {
		where += fmt.Sprintf(", train step %d", p.step)
	}
	fmt.Fprintf(&out, "%s: %.1f s from the first span to the last\n\n", where, whole)
	t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "role\twhat\ttimes\tseconds\tof the whole\tat once\tmean ms\t\n")
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		for _, k := range p.ordered(roles[role]) {
			fmt.Fprintf(t, "%s\t%s\t%d\t%.2f\t%.1f %%\t%s\t%s\t\n", safetext.Printable(role), safetext.Printable(k.label), len(k.spans), k.covered,
				100*k.covered/whole, digits(k.sum/max(k.covered, 1e-9)), digits(1000*k.sum/float64(len(k.spans))))
		}
	}
	t.Flush()
	fmt.Fprintf(&out, "\nseconds count overlapping times once; \"at once\" is how many overlapped on average\n")
	p.bounds(&out, whole)
	var err error
	if p.step == 0 { // metrics count the tokens of the explorer's steps
		err = p.tokens(&out, roles, whole)
	}
	p.slowest(&out)
	_, writeErr := io.WriteString(w, out.String())
	return errors.Join(writeErr, p.damaged, err)
}

// works returns what each role did, by its label.
func (p *Perf) works() map[string]map[string]*work {
	roles := map[string]map[string]*work{}
	for _, s := range p.spans {
		label := labelOf(s)
		if roles[s.Role] == nil {
			roles[s.Role] = map[string]*work{}
		}
		if roles[s.Role][label] == nil {
			roles[s.Role][label] = &work{label: label}
		}
		roles[s.Role][label].spans = append(roles[s.Role][label].spans, s)
	}
	return roles
}

// labelOf names what a role does in a span.
func labelOf(s trace.Span) string {
	switch {
	case s.Kind == trinity.SpanWait:
		return "waits for " + s.For
	case s.Role == trinity.RoleTrainer && s.Name != "", s.Kind == trinity.SpanOperator:
		return string(s.Kind) + " " + s.Name
	}
	return string(s.Kind)
}

// digits returns a number with three significant digits, without an exponent.
func digits(x float64) string {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64) // a number just written
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// summed is work with its times.
type summed struct {
	*work
	sum, covered float64
}

// ordered returns what a role did, what took longest first.
func (p *Perf) ordered(works map[string]*work) (all []summed) {
	for _, label := range slices.Sorted(maps.Keys(works)) {
		sum, covered := works[label].sum()
		all = append(all, summed{works[label], sum, covered})
	}
	slices.SortStableFunc(all, func(a, b summed) int { return cmp.Compare(b.covered, a.covered) })
	return all
}

// event is a trace event of Chrome's format: a complete one ("X"), or the name of a process ("M").
type event struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	Begin    int64          `json:"ts"`  // microseconds
	Duration int64          `json:"dur"` // microseconds
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Args     map[string]any `json:"args,omitempty"`
}

// Chrome writes the spans as trace events, which Perfetto and Chrome open: a process for each role,
// and as many threads as it did things at once.
func (p *Perf) Chrome(w io.Writer) error {
	spans := slices.Clone(p.spans)
	slices.SortStableFunc(spans, func(a, b trace.Span) int { return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(b.End, a.End)) })
	var events []event
	var roles []string
	busy := map[string][]int64{} // until when each thread of a role works
	for _, s := range spans {
		if busy[s.Role] == nil {
			roles = append(roles, s.Role)
			events = append(events, event{Name: "process_name", Phase: "M", Process: len(roles), Args: map[string]any{"name": s.Role}})
		}
		thread := slices.IndexFunc(busy[s.Role], func(until int64) bool { return until <= s.Begin })
		if thread < 0 {
			thread = len(busy[s.Role])
			busy[s.Role] = append(busy[s.Role], 0)
		}
		busy[s.Role][thread] = s.End
		events = append(events, event{
			Name: strings.TrimSpace(string(s.Kind) + " " + cmp.Or(s.Name, s.For)), Category: string(s.Kind), Phase: "X",
			Begin: s.Begin, Duration: s.End - s.Begin, Process: 1 + slices.Index(roles, s.Role), Thread: thread,
			Args: map[string]any{"step": s.Step, "version": s.Version, "id": s.ID, "for": s.For},
		})
	}
	return errors.Join(json.NewEncoder(w).Encode(map[string]any{"traceEvents": events}), p.damaged)
}
