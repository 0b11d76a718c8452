package monitor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// Spans is a Sink that also gets the spans of the run's trace.
type Spans interface {
	Sink
	// TakesSpans reports whether the service takes spans. It may turn out that it takes none.
	TakesSpans() bool
	// SendSpans sends some spans of a process. After an error the service may have them; they then come
	// again, perhaps with more behind them.
	SendSpans(ctx context.Context, part trace.Part[trace.Span]) error
}

// Tables is a Sink that also gets rollouts of the run's trace, a table for each train step that the
// trace keeps. A resumed run repeats steps; the sink does not get them again.
type Tables interface {
	Sink
	// TakesTables reports whether the service takes tables. It may turn out that it takes none.
	TakesTables() bool
	// SendTable sends a table. After an error the service may have it; it then comes again.
	SendTable(ctx context.Context, t Table) error
}

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

// nextSpans returns the next spans for the sink, and whether there is anything behind its position. It
// says what is damaged, which the sink never gets.
func (f *Follower) nextSpans() (part trace.Part[trace.Span], more bool, err error) {
	part, err = trace.NextSpans(f.run.traceDir(), f.tail.at.Spans)
	more = !maps.Equal(part.Then, f.tail.at.Spans)
	if err != nil && more {
		f.say("%v: the sink gets no more of this file", err)
		err = nil
	}
	return part, more, err
}

// sendSpans sends the spans that are in the trace.
func (f *Follower) sendSpans(ctx context.Context) error {
	sink, ok := f.sink.(Spans)
	for ok && sink.TakesSpans() {
		part, more, err := f.nextSpans()
		if err != nil || !more {
			return err
		}
		if len(part.Lines) > 0 {
			if err := sink.SendSpans(ctx, part); err != nil {
				return err
			}
		}
		if !sink.TakesSpans() { // trinity sync may send them later
			return nil
		}
		at := f.tail.at
		at.Spans = part.Then
		if err := f.tail.keep(at); err != nil {
			return err
		}
	}
	return nil
}

// unsentTables returns the train steps in the trace that the sink has not got.
func (f *Follower) unsentTables() ([]int64, error) {
	steps, err := trace.Steps(f.run.traceDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	first, found := slices.BinarySearch(steps, f.tail.at.Tables)
	if found {
		first++
	}
	return steps[first:], err
}

// sendTables sends the train steps that are in the trace.
func (f *Follower) sendTables(ctx context.Context) error {
	sink, ok := f.sink.(Tables)
	if !ok || !sink.TakesTables() {
		return nil
	}
	steps, err := f.unsentTables()
	if err != nil {
		return err
	}
	for _, step := range steps {
		table, err := readTable(f.run.traceDir(), step)
		at := f.tail.at
		if err != nil {
			f.say("%v: the sink does not get this step's rollouts", err)
		} else if err := sink.SendTable(ctx, table); err != nil {
			return err
		} else {
			at.TableCount++
		}
		if !sink.TakesTables() { // trinity sync may send them later
			return nil
		}
		at.Tables = step
		if err := f.tail.keep(at); err != nil {
			return err
		}
	}
	return nil
}

// hasAll reports whether the sink has everything of the run.
func (f *Follower) hasAll() (bool, error) {
	records, _, err := f.tail.next()
	if err != nil || len(records) > 0 || f.tail.at.Status != "" && !f.tail.at.Told {
		return false, err
	}
	if sink, ok := f.sink.(Spans); ok && sink.TakesSpans() {
		if _, more, err := f.nextSpans(); err != nil || more {
			return false, err
		}
	}
	if sink, ok := f.sink.(Logs); ok && sink.TakesLogs() {
		if _, _, more, err := f.nextLogs(); err != nil || more {
			return false, err
		}
	}
	if sink, ok := f.sink.(Tables); ok && sink.TakesTables() {
		steps, err := f.unsentTables()
		return len(steps) == 0, err
	}
	return true, nil
}
