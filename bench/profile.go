package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// timeTable says where our side of a workload spends the time of the cores.
type timeTable struct {
	Workload string  `json:"workload"`
	Kernels  string  `json:"kernels"`
	DType    string  `json:"dtype,omitempty"`
	Runs     int     `json:"runs"`
	Value    float64 `json:"value"` // median, in the workload's unit, while profiled
	Unit     string  `json:"unit"`
	Parts    []part  `json:"parts"` // most first
	Machine  machine `json:"machine"`
	Command  string  `json:"command"`
}

// part is a group of functions.
type part struct {
	Group     string   `json:"group"`
	Share     float64  `json:"share"`     // of all cores' time from the first run to the last
	Functions []string `json:"functions"` // that take most of it, with their shares
}

// profileAll prints and keeps a table of each chosen workload.
func (s *session) profileAll(ctx context.Context, out io.Writer) error {
	for _, name := range s.set.chosen() {
		t, err := s.profile(ctx, find(name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := fmt.Fprintln(out, t.text()); err != nil {
			return err
		}
		if s.set.save {
			if err := keepTimes(s.results(), t); err != nil {
				return err
			}
		}
	}
	return nil
}

// profile runs our side alone under the profiler of the Go runtime.
func (s *session) profile(ctx context.Context, w *workload) (t timeTable, err error) {
	t = timeTable{Workload: w.name, Unit: w.unit, DType: s.dtype(w, nil), Kernels: s.limits.Kernels, Runs: s.set.runs, Machine: examine(ctx, s.machine.Cores)}
	t.Command = strings.Replace(s.command(w, nil), "--only", "--profile", 1)
	path := filepath.Join(s.dir, w.name+".profile")
	a := s.assignment(w, t.DType)
	ours, err := s.self(ctx, a, path)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, ours.stop()) }()
	before := readMeter(ours)
	var runs []float64
	for range t.Runs {
		sample, err := ours.run()
		if err != nil {
			return t, err
		}
		runs = append(runs, sample.Value)
	}
	t.Machine.Foreign = readMeter(ours).foreign(before)
	t.Value = median(runs)
	data, err := os.ReadFile(path)
	if err != nil {
		return t, err
	}
	p, err := profile.ParseData(data)
	if err != nil {
		return t, err
	}
	t.Parts = partsOf(p, a.Threads)
	return t, nil
}

// partsOf sorts a profile's samples into groups. The time that cores did not take for us is the group [waiting].
func partsOf(p *profile.Profile, cores int) []part {
	const nanoseconds = 1 // index of the value
	times, functions := map[string]float64{}, map[string]map[string]float64{}
	all := float64(p.DurationNanos) * float64(cores)
	times[waiting] = all
	for _, s := range p.Sample {
		group, function := groupOf(stackOf(s))
		share := float64(s.Value[nanoseconds])
		times[group] += share
		times[waiting] -= share
		if functions[group] == nil {
			functions[group] = map[string]float64{}
		}
		functions[group][function] += share
	}
	times[waiting] = max(0, times[waiting])
	var parts []part
	for group, time := range times {
		parts = append(parts, part{Group: group, Share: time / all, Functions: most(functions[group], all)})
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Group, b.Group))
	})
	return parts
}

// stackOf names a sample's functions, the innermost first.
func stackOf(s *profile.Sample) (stack []string) {
	for _, location := range s.Location {
		for _, line := range location.Line {
			stack = append(stack, line.Function.Name)
		}
	}
	return stack
}

// most names the functions that take most of a group, with their shares.
func most(times map[string]float64, all float64) []string {
	names := slices.SortedFunc(maps.Keys(times), func(a, b string) int {
		return cmp.Or(cmp.Compare(times[b], times[a]), cmp.Compare(a, b))
	})
	var out []string
	for _, name := range names[:min(4, len(names))] {
		if share := times[name] / all; share >= 0.001 {
			out = append(out, fmt.Sprintf("%s %.1f %%", name[strings.LastIndexByte(name, '/')+1:], 100*share))
		}
	}
	return out
}

// text is a table for a terminal or a document.
func (t *timeTable) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#### %s\n\n", strings.TrimSpace(t.Workload+" "+t.DType))
	fmt.Fprintf(&b, "%s, %d cores, %s, commit %s, kernels %s, foreign %s: %s %s with `%s`\n\n", t.Machine.CPU, t.Machine.Cores, t.Machine.Date, t.Machine.Commit,
		t.Kernels, percent(t.Machine.Foreign), number(t.Value), t.Unit, t.Command)
	b.WriteString("| share | of | above all |\n|---|---|---|\n")
	for _, p := range t.Parts {
		if p.Share >= 0.001 {
			fmt.Fprintf(&b, "| %.1f %% | %s | %s |\n", 100*p.Share, p.Group, strings.Join(p.Functions, ", "))
		}
	}
	return b.String()
}
