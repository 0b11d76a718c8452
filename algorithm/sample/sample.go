// Package sample holds the sample strategies: what makes up a batch of the trainer. A strategy shows the experience buffer and auxiliary buffers
// as one [trinity.Source], whose state is theirs and its own: a resumed run reads on as if it had not been interrupted, and may do so with another
// strategy.
package sample

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// reader is what the sources of all strategies have in common.
type reader struct {
	usual     trinity.Source            // the experience buffer, or the dataset of offline training
	auxiliary map[string]trinity.Source // those that the strategy reads

	held    []*trinity.Experience // taken of usual for a batch that is not whole: a wait that is given up loses nothing
	dropped dropped               // of what was taken for that batch
	batches int64                 // given so far: the trainer's steps
	metrics trinity.Metrics
}

// count is how many of what the experience buffer counts the experiences are.
func (r *reader) count(exps []*trinity.Experience) int {
	if c, ok := r.usual.(trinity.CountingSource); ok {
		return c.Count(exps)
	}
	return len(exps)
}

// hold takes of the experience buffer until n, as it counts, that keep accepts are held, and drops the others; nil accepts all. It holds fewer
// when no more are to be had before the trainer goes on, and is io.EOF when there are none at all any more.
func (r *reader) hold(ctx context.Context, n int, published int64, keep func(*trinity.Experience) bool) error {
	for r.count(r.held) < n {
		exps, err := r.usual.Take(ctx, n-r.count(r.held), published)
		if errors.Is(err, io.EOF) && len(r.held) > 0 || err == nil && len(exps) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range exps {
			if keep == nil || keep(e) {
				r.held = append(r.held, e)
			} else {
				r.dropped.add(e)
			}
		}
	}
	return nil
}

// give counts a batch and describes it by its rollouts, for which the trainer has waited since begin.
func (r *reader) give(begin time.Time, batch, rollouts []*trinity.Experience) []*trinity.Experience {
	r.batches++
	r.held, r.dropped = nil, dropped{}
	r.metrics = describe(rollouts)
	if source, ok := r.usual.(trinity.MetricsSource); ok {
		r.metrics.Merge("", source.Metrics())
	}
	r.metrics["time/read_experience"] = time.Since(begin).Seconds()
	return batch
}

// describe counts tasks and sums up the oldest versions that sampled.
func describe(rollouts []*trinity.Experience) trinity.Metrics {
	tasks := map[string]bool{}
	sum, high, low := 0.0, math.Inf(-1), math.Inf(1)
	for _, e := range rollouts {
		tasks[e.ID.Task] = true
		v := float64(e.Versions[0])
		sum, high, low = sum+v, max(high, v), min(low, v)
	}
	m := trinity.Metrics{"sample/task_count": float64(len(tasks))}
	if n := len(rollouts); n > 0 {
		const version = "sample/model_version/"
		m[version+"mean"], m[version+"max"], m[version+"min"] = sum/float64(n), high, low
	}
	return m
}

// Metrics implements trinity.MetricsSource.
func (r *reader) Metrics() trinity.Metrics { return r.metrics }

// state is the cursor of every strategy.
type state struct {
	Usual     json.RawMessage                `json:"usual,omitempty"` // of the experience buffer
	Batches   int64                          `json:"batches"`
	Dropped   dropped                        `json:"dropped,omitzero"` // for the batch at hand
	Auxiliary map[string]trinity.SourceState `json:"auxiliary,omitempty"`
}

// State implements trinity.Source. What is held is pending, before what the experience buffer holds.
func (r *reader) State() (trinity.SourceState, error) {
	usual, err := r.usual.State()
	if err != nil {
		return trinity.SourceState{}, err
	}
	s := state{Usual: usual.Cursor, Batches: r.batches, Dropped: r.dropped, Auxiliary: map[string]trinity.SourceState{}}
	for name, source := range r.auxiliary {
		if s.Auxiliary[name], err = source.State(); err != nil {
			return trinity.SourceState{}, fmt.Errorf("auxiliary buffer %s: %w", name, err)
		}
	}
	cursor, err := json.Marshal(s)
	return trinity.SourceState{Cursor: cursor, Pending: slices.Concat(r.held, usual.Pending)}, err
}

// Restore implements trinity.Source. An auxiliary buffer that the state does not know begins at its beginning.
func (r *reader) Restore(from trinity.SourceState) error {
	var s state
	d := json.NewDecoder(bytes.NewReader(from.Cursor))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return fmt.Errorf("sample strategy: the checkpoint's state of the experience buffer: %w", err)
	}
	if s.Batches < 0 {
		return fmt.Errorf("sample strategy: the checkpoint's state of the experience buffer: %d batches, which cannot be", s.Batches)
	}
	for name, source := range r.auxiliary {
		saved, ok := s.Auxiliary[name]
		if !ok {
			continue
		}
		if err := source.Restore(saved); err != nil {
			return fmt.Errorf("auxiliary buffer %s: %w", name, err)
		}
	}
	r.batches, r.dropped, r.held = s.Batches, s.Dropped, nil
	return r.usual.Restore(trinity.SourceState{Cursor: s.Usual, Pending: from.Pending})
}
