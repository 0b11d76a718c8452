package view

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/trace"
)

// tokens writes how many tokens a second each phase had: the run's metrics count them, and the spans have
// the seconds. What a resumed run did again counts twice.
func (p *Perf) tokens(out *strings.Builder, roles map[string]map[string]*work, whole float64) error {
	sampled, trained, err := countedTokens(filepath.Dir(p.Trace))
	if sampled+trained == 0 {
		return err
	}
	fmt.Fprint(out, "\ntokens a second, in the seconds of each phase\n")
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "role\twhat\ttokens\tseconds\ttokens a second\t\n")
	line := func(role, what string, tokens, seconds float64) {
		if tokens > 0 && seconds > 0 {
			fmt.Fprintf(t, "%s\t%s\t%.0f\t%.2f\t%s\t\n", role, safetext.Printable(what), tokens, seconds, digits(tokens/seconds))
		}
	}
	var calls work // of all explorers
	for role, works := range roles {
		if of := works[string(trinity.SpanCall)]; of != nil && strings.HasPrefix(role, trinity.RoleExplorer) {
			calls.spans = append(calls.spans, of.spans...)
		}
	}
	_, seconds := calls.sum()
	line(trinity.RoleExplorer, string(trinity.SpanCall), sampled, seconds)
	trains := roles[trinity.RoleTrainer]
	for _, label := range slices.Sorted(maps.Keys(trains)) {
		if kind := trains[label].spans[0].Kind; kind == trinity.SpanForward || kind == trinity.SpanBackward {
			_, seconds := trains[label].sum()
			line(trinity.RoleTrainer, label, trained, seconds)
		}
	}
	line(trinity.RoleExplorer, "the whole run", sampled, whole)
	line(trinity.RoleTrainer, "the whole run", trained, whole)
	return errors.Join(err, t.Flush())
}

// countedTokens returns how many tokens the run in a directory has sampled to learn from, and how many its
// updates have had, each epoch's. Both are 0 without the jsonl monitor.
func countedTokens(dir string) (sampled, trained float64, err error) {
	for _, dir := range rundir.Monitors(dir) {
		table, damaged := rundir.ReadTable(dir, func(name string) bool { return slices.Contains(rates[:], name) })
		err = errors.Join(err, damaged)
		sampled += product(table.Column(rates[0]), table.Column(rates[1]))
		trained += product(table.Column(rates[2]), table.Column(rates[3]))
	}
	return sampled, trained, err
}

// rates are of tokens, each with the seconds over which it is.
var rates = [...]string{"rollout/tokens_per_second", "time/explore_step", "perf/throughput", "time/train_step"}

// product returns the sum of the products of two metrics of the same records.
func product(a, b rundir.Column) (sum float64) {
	for i, record := range a.Records {
		if j, ok := slices.BinarySearch(b.Records, record); ok {
			sum += a.Values[i] * b.Values[j]
		}
	}
	return sum
}

// most is how many of the slowest are shown.
const most = 5

// slowest writes the slowest rollouts with what they spent on calls and on rewards, the tasks whose
// rollouts are slow, and the slowest rewards.
func (p *Perf) slowest(out *strings.Builder) {
	var rollouts, rewards []trace.Span
	parts := map[string]map[trinity.SpanKind]float64{}
	tasks := map[does]*mean{}
	for _, s := range p.spans {
		switch {
		case s.ID == "":
			continue
		case s.Kind == trinity.SpanRollout:
			rollouts = append(rollouts, s)
			task := does{s.Role, s.Name}
			if tasks[task] == nil {
				tasks[task] = &mean{}
			}
			tasks[task].sum += seconds(s)
			tasks[task].n++
			continue
		case s.Kind == trinity.SpanReward:
			rewards = append(rewards, s)
		}
		key := s.Role + s.ID
		if parts[key] == nil {
			parts[key] = map[trinity.SpanKind]float64{}
		}
		parts[key][s.Kind] += seconds(s)
	}
	if len(rollouts) == 0 {
		return
	}
	fmt.Fprint(out, "\nthe slowest rollouts\n")
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "role\tstep\ttask\tseconds\tmodel\treward\twaits\t\n")
	for _, s := range longest(rollouts) {
		of := parts[s.Role+s.ID]
		fmt.Fprintf(t, "%s\t%d\t%s\t%.3f\t%.3f\t%.3f\t%.3f\t\n", safetext.Printable(s.Role), s.Step, safetext.Printable(s.Name), seconds(s),
			of[trinity.SpanCall], of[trinity.SpanReward], of[trinity.SpanWait])
	}
	t.Flush()
	fmt.Fprint(out, "\nthe slowest tasks, by the mean of their rollouts\n")
	fmt.Fprint(t, "role\ttask\trollouts\tmean seconds\t\n")
	slowest := slices.SortedFunc(maps.Keys(tasks), func(a, b does) int {
		return cmp.Or(cmp.Compare(tasks[b].value(), tasks[a].value()), strings.Compare(a.role, b.role), strings.Compare(a.label, b.label))
	})
	for _, task := range slowest[:min(most, len(slowest))] {
		of := tasks[task]
		fmt.Fprintf(t, "%s\t%s\t%d\t%.3f\t\n", safetext.Printable(task.role), safetext.Printable(task.label), of.n, of.value())
	}
	t.Flush()
	if len(rewards) == 0 {
		return
	}
	fmt.Fprint(out, "\nthe slowest rewards\n")
	fmt.Fprint(t, "role\tstep\ttask\tmilliseconds\t\n")
	for _, s := range longest(rewards) {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t\n", safetext.Printable(s.Role), s.Step, safetext.Printable(s.Name), digits(1000*seconds(s)))
	}
	t.Flush()
}

// mean is of the seconds of spans.
type mean struct {
	sum float64
	n   int
}

func (m *mean) value() float64 { return m.sum / float64(m.n) }

// longest returns the spans that took longest, the first of them first.
func longest(spans []trace.Span) []trace.Span {
	slices.SortStableFunc(spans, func(a, b trace.Span) int { return cmp.Compare(b.End-b.Begin, a.End-a.Begin) })
	return spans[:min(most, len(spans))]
}
