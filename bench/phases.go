package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// setting is one of the two that --phases compares.
type setting struct{ key, value string }

// here is the value of setting commit that stands for this checkout.
const here = "this checkout"

// parseSettings reads KEY=A,B. A commit is beside this checkout.
func parseSettings(text string) (pair [2]setting, err error) {
	key, values, _ := strings.Cut(text, "=")
	both := strings.Split(values, ",")
	if key == "commit" {
		both = append([]string{here}, both...)
	}
	if len(both) != 2 || slices.Contains(both, "") {
		return pair, fmt.Errorf("--phases is %q: want two values such as kernels=avx512,avx2, or commit=A", text)
	}
	for i, value := range both {
		pair[i] = setting{key, value}
		switch key {
		case "kernels", "commit": // the processes say which there are
		case "dtype":
			if storages[value] == (storage{}) {
				return pair, fmt.Errorf("--phases is %q: want dtypes of %s", text, strings.Join(storageNames(), " "))
			}
		case "cores":
			if n, err := strconv.Atoi(value); err != nil || n < 1 || n > runtime.NumCPU() {
				return pair, fmt.Errorf("--phases is %q: want numbers of cores from 1 to %d", text, runtime.NumCPU())
			}
		default:
			return pair, fmt.Errorf("--phases is %q: want kernels=A,B, cores=A,B, dtype=A,B or commit=A", text)
		}
	}
	return pair, nil
}

// with returns the session with a setting.
func (s *session) with(one setting) *session {
	if one.key == "commit" && one.value != here {
		return s.past
	}
	other, set := *s, *s.set
	other.set = &set
	switch one.key {
	case "kernels":
		other.limits.Kernels = one.value
	case "dtype":
		set.dtype = one.value
	case "cores":
		other.machine.Cores, _ = strconv.Atoi(one.value) // parseSettings has read it
	}
	return &other
}

// phaseTable has the times of the phases of a step under two settings.
type phaseTable struct {
	Workload string      `json:"workload"`
	Setting  string      `json:"setting"` // what differs
	Values   [2]string   `json:"values"`
	Steps    [2]int      `json:"steps"`  // measured
	Phases   []phaseTime `json:"phases"` // the longest first
	Machine  machine     `json:"machine"`
	Kernels  string      `json:"kernels"`
	DType    string      `json:"dtype,omitempty"`
	Command  string      `json:"command"`
}

// phaseTime is the time of a phase over all layers of a step, in milliseconds, under each setting.
type phaseTime struct {
	Phase string     `json:"phase"`
	Least [2]float64 `json:"least_ms"`
	Low   [2]float64 `json:"lower_quartile_ms"`
	Ratio float64    `json:"ratio"` // of the lower quartiles: how many times as fast the first setting is
}

// phasesAll prints and keeps a table of each chosen workload.
func (s *session) phasesAll(ctx context.Context, out io.Writer) error {
	for _, name := range s.set.chosen() {
		t, err := s.phases(ctx, find(name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if s.set.json {
			err = json.NewEncoder(out).Encode(t)
		} else {
			_, err = fmt.Fprintln(out, t.text())
		}
		if err == nil && s.set.save {
			err = keepPhases(s.results(), t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// phases measures a workload's steps in two processes that take turns.
func (s *session) phases(ctx context.Context, w *workload) (t phaseTable, err error) {
	t = phaseTable{Workload: w.name, Setting: s.set.pair[0].key, Kernels: s.limits.Kernels, DType: s.dtype(w, nil)}
	var sides [2]*process
	for i, one := range s.set.pair {
		from := s.with(one)
		if t.Values[i] = one.value; from == s.past {
			t.Values[i] = from.set.compare // a hash
		}
		a := from.assignment(w, from.dtype(w, nil))
		a.Phases = true
		started, err := from.self(ctx, a, "")
		if err != nil {
			return t, fmt.Errorf("%s %s: %w", one.key, one.value, err)
		}
		sides[i] = started.(*process)
		defer func() { err = errors.Join(err, sides[i].stop()) }()
	}
	t.Machine, t.Command = examine(ctx, s.machine.Cores), s.command(w, nil)+" --phases "+t.Setting+"="
	if t.Values[0] != here {
		t.Command += t.Values[0] + ","
	}
	t.Command += t.Values[1]
	before := readMeter(sides[0], sides[1])
	var times [2]map[string][]float64
	for range s.set.runs {
		if err := takeSteps(sides, func(side int, step *stepped) {
			if times[side] == nil {
				times[side] = map[string][]float64{}
			}
			t.Steps[side]++
			step.Phases[processorStep] = step.CPU
			for phase, seconds := range step.Phases {
				times[side][phase] = append(times[side][phase], seconds*1e3)
			}
		}); err != nil {
			return t, err
		}
	}
	t.Machine.Foreign = readMeter(sides[0], sides[1]).foreign(before)
	t.Phases = phaseTimes(times)
	return t, ctx.Err()
}

// pause lets the threads of a process that has ended its step stop polling for work, before the other begins one.
const pause = time.Millisecond

// takeSteps has both sides run once, step by step in random order.
func takeSteps(sides [2]*process, took func(side int, step *stepped)) error {
	for _, p := range sides {
		if s, err := p.ask("run"); err != nil {
			return err
		} else if !s.Ready {
			return errors.New("no step of the run decodes all sequences")
		}
	}
	for left := []int{0, 1}; len(left) > 0; {
		rand.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		for at := 0; at < len(left); {
			s, err := sides[left[at]].ask("step")
			if err != nil {
				return err
			}
			took(left[at], s.Step)
			if time.Sleep(pause); s.Step.Last {
				left = slices.Delete(left, at, at+1)
				continue
			}
			at++
		}
	}
	for _, p := range sides {
		if _, err := p.ask("end"); err != nil {
			return err
		}
	}
	return nil
}

// phaseTimes compares the times of two sides, the longest first.
func phaseTimes(times [2]map[string][]float64) (all []phaseTime) {
	for _, phase := range slices.Sorted(maps.Keys(times[0])) {
		p := phaseTime{Phase: phase}
		for side := range times {
			if each := times[side][phase]; len(each) > 0 {
				p.Least[side], p.Low[side] = slices.Min(each), quantile(each, .25)
			}
		}
		if p.Low[0] > 0 {
			p.Ratio = p.Low[1] / p.Low[0]
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b phaseTime) int { return cmp.Compare(b.Low[0], a.Low[0]) })
	return all
}

// keepPhases keeps a table in place of that of the same workload and settings, in a folder of their own.
func keepPhases(dir string, t phaseTable) error {
	same := func(o phaseTable) bool {
		return o.Workload == t.Workload && o.Setting == t.Setting && o.Values == t.Values && o.Kernels == t.Kernels && o.DType == t.DType
	}
	order := func(a, b phaseTable) int { return cmp.Compare(rank(a.Workload, ""), rank(b.Workload, "")) }
	return replace(fileOf(filepath.Join(dir, "phases"), t.Machine), t, same, order)
}

// text is a table for a terminal or a document.
func (t *phaseTable) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#### %s: %s %s beside %s\n\n", strings.TrimSpace(t.Workload+" "+t.DType), t.Setting, t.Values[0], t.Values[1])
	m := &t.Machine
	fmt.Fprintf(&b, "%s, %d cores, %s, commit %s, kernels %s, foreign %s: %d and %d steps with `%s`\n\n",
		m.CPU, m.Cores, m.Date, m.Commit, t.Kernels, percent(m.Foreign), t.Steps[0], t.Steps[1], t.Command)
	fmt.Fprintf(&b, "| ms | %s, least | lower quartile | %s, least | lower quartile | ratio |\n", t.Values[0], t.Values[1])
	b.WriteString("|---|---|---|---|---|---|\n")
	for _, p := range t.Phases {
		fmt.Fprintf(&b, "| %s ", p.Phase)
		for side := range p.Least {
			fmt.Fprintf(&b, "| %s | %s ", number(p.Least[side]), number(p.Low[side]))
		}
		fmt.Fprintf(&b, "| %.2f× |\n", p.Ratio)
	}
	return b.String()
}
