package monitor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// Table is what a train step did with some rollouts.
type Table struct {
	Step     int64
	Time     time.Time
	Rollouts []Rollout
}

// Rollout is an experience of a train step.
type Rollout struct {
	ID          string
	Task        string
	ExploreStep int64
	Version     int64 // the newest of the weights that sampled it
	Prompt      string
	Response    string
	Reward      *float64 // nil without a valid reward
	Advantage   float64  // the mean over the tokens that training reads; 0 if there is none
	Reason      string   // why there is no valid reward
	Dropped     string   // who dropped it before the update; "" means that it was trained on
}

// rolloutColumns name the columns of a table.
var rolloutColumns = []string{
	"step", "explore_step", "task", "id", "model_version", "reward", "advantage", "prompt", "response", "reason", "dropped"}

// grid is a table as MLflow and W&B read it.
type grid struct {
	Columns []string `json:"columns"`
	Data    [][]any  `json:"data"`
}

func (t *Table) grid() grid {
	out := grid{Columns: rolloutColumns, Data: [][]any{}}
	for _, r := range t.Rollouts {
		out.Data = append(out.Data, []any{
			t.Step, r.ExploreStep, r.Task, r.ID, r.Version, (*rundir.Number)(r.Reward), rundir.Number(r.Advantage),
			r.Prompt, r.Response, r.Reason, r.Dropped})
	}
	return out
}

// The bounds of a table: rollouts, and characters of a prompt or response.
const (
	maxRollouts = 32
	maxText     = 8000
)

// readTable reads a step of a trace.
func readTable(dir string, step int64) (t Table, err error) {
	t = Table{Step: step, Time: time.Now()}
	if info, err := os.Stat(trace.StepFile(dir, step)); err == nil {
		t.Time = info.ModTime()
	}
	answers, err := trace.ReadAnswers(dir, step)
	for _, a := range answers[:min(maxRollouts, len(answers))] {
		r := Rollout{
			ID: a.ID, Task: a.Task, ExploreStep: a.ExploreStep, Version: a.ModelVersion, Reward: a.Reward, Reason: a.Reason, Dropped: a.Dropped,
			Prompt: shorten(a.Prompt, maxText), Response: shorten(a.Response, maxText),
		}
		read := 0.0
		for i, v := range a.Advantages {
			if i < len(a.Mask) && a.Mask[i] {
				r.Advantage, read = r.Advantage+float64(v), read+1
			}
		}
		r.Advantage /= max(1, read)
		t.Rollouts = append(t.Rollouts, r)
	}
	return t, err
}

// traceDir returns the directory of the run's trace.
func (r *Run) traceDir() string { return filepath.Join(filepath.Dir(r.Dir), rundir.Traces) }

// nextSpans returns the next spans for the sink.
func (f *Follower) nextSpans() (b Batch, then position, more bool, err error) {
	if !f.sink.Takes().Spans {
		return b, then, false, nil
	}
	then = f.tail.at
	part, err := trace.NextSpans(f.run.traceDir(), then.Spans)
	more, err = hasMore(part, then.Spans, err)
	then.Spans = part.Then
	return Batch{Process: part.Process, Spans: part.Lines}, then, more, err
}

// hasMore reports whether there is anything behind a position, and says so of a damaged file.
func hasMore[T any](part trace.Part[T], from trace.Position, err error) (bool, error) {
	more := !maps.Equal(part.Then, from)
	if err != nil && more {
		err = fmt.Errorf("%w: the sink gets no more of this file", err)
	}
	return more, err
}

// nextTable returns the rollouts of the next train step in the trace that the sink has not got.
func (f *Follower) nextTable() (b Batch, then position, more bool, err error) {
	if !f.sink.Takes().Tables {
		return b, then, false, nil
	}
	then = f.tail.at
	steps, err := trace.Steps(f.run.traceDir())
	first, found := slices.BinarySearch(steps, then.Tables)
	if found {
		first++
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil || first == len(steps) {
		return b, then, false, err
	}
	then.Tables = steps[first]
	table, err := readTable(f.run.traceDir(), then.Tables)
	if err != nil {
		return b, then, true, fmt.Errorf("%w: the sink does not get this step's rollouts", err)
	}
	then.TableCount++
	return Batch{Tables: []Table{table}}, then, true, nil
}
