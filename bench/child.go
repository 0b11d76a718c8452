package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
)

// task is our side of a workload. run measures once; number 0 warms up.
type task interface {
	run(number int) (sample, error)
}

// sample is one measured run, as both sides print it.
type sample struct {
	Ready   bool    `json:"ready,omitempty"` // warmed up; nothing is measured yet
	Value   float64 `json:"value,omitempty"` // in the workload's unit
	Loss    float64 `json:"loss,omitempty"`
	Rollout float64 `json:"rollout,omitempty"`  // seconds of a GRPO step
	Micro   int     `json:"micro,omitempty"`    // sequences that the peer of a GRPO step trains at once
	P50     float64 `json:"p50_ms,omitempty"`   // milliseconds of half of the tokens of streams
	P99     float64 `json:"p99_ms,omitempty"`   // milliseconds of a batch of a store
	Bytes   int     `json:"bytes,omitempty"`    // of an experience in a store
	Again   float64 `json:"again_s,omitempty"`  // seconds of the same curves once more
	CPU     float64 `json:"cpu_s,omitempty"`    // seconds of all cores that the process computed, and those that a run started
	Cost    float64 `json:"cost_s,omitempty"`   // of them, those of a token that Value counts; 0 if Value is of the whole run
	Sent    int64   `json:"sent,omitempty"`     // bytes of the curves, as they were sent
	PeakRSS int64   `json:"peak_rss,omitempty"` // bytes of the servers that the run started

	Delivered *delivered `json:"delivered,omitempty"` // phases of a delivery
	Step      *stepped   `json:"step,omitempty"`      // of a sampler
}

// mark is what lines of results begin with; libraries print others.
const mark = "BENCH "

// child is our side, in a process of its own: it runs once for each line "run" on its standard input. What it computes then is profiled
// into a file if one is named.
func child(path, profile string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	a := &assignment{}
	if err := json.Unmarshal(data, a); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	w := find(a.Workload)
	if w == nil || w.ours == nil {
		return fmt.Errorf("%s: no child measures workload %q", path, a.Workload)
	}
	t, err := w.ours(a)
	if err != nil {
		return err
	}
	if a.Phases {
		return serveSteps(t, os.Stdin, os.Stdout)
	}
	if profile != "" {
		t = &profiled{task: t, path: profile, runs: a.Runs}
	}
	return serve(t, os.Stdin, os.Stdout)
}

// profiled is a task whose measured runs are profiled together.
type profiled struct {
	task
	path string
	runs int
	file *os.File
}

func (p *profiled) run(number int) (s sample, err error) {
	if number == 1 {
		if p.file, err = os.Create(p.path); err != nil {
			return s, err
		}
		if err := pprof.StartCPUProfile(p.file); err != nil {
			return s, err
		}
	}
	s, err = p.task.run(number)
	if number == p.runs {
		pprof.StopCPUProfile()
		err = errors.Join(err, p.file.Close())
	}
	return s, err
}

// serve warms up and runs as often as it is asked to.
func serve(t task, in io.Reader, out io.Writer) error {
	if _, err := t.run(0); err != nil {
		return err
	}
	if err := say(out, sample{Ready: true}); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for number := 1; lines.Scan() && lines.Text() == "run"; number++ {
		s, err := t.run(number)
		if err != nil {
			return err
		}
		if err := say(out, s); err != nil {
			return err
		}
	}
	return lines.Err()
}

func say(out io.Writer, s sample) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s%s\n", mark, data)
	return err
}
