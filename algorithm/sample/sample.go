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

	held    []trinity.Group // taken from usual for a batch that is not whole: a wait that is given up loses nothing
	begun   bool            // something was taken for that batch
	dropped dropped         // of what was taken for that batch
	latest  trinity.Metrics // of usual, for that batch
	batches int64           // given so far: the trainer's steps
}

// hold takes from the experience buffer until what is wanted is held, and drops what keep refuses; nil accepts all. It
// holds less when there is no more before the trainer's next version. Its error is io.EOF when there is nothing any more.
func (r *reader) hold(ctx context.Context, want trinity.Want, keep func(*trinity.Experience) bool) error {
	for {
		next := want
		if next.N -= want.Count(r.held); next.N <= 0 {
			return nil
		}
		next.Continues = r.begun
		taken, err := r.usual.Take(ctx, next)
		if errors.Is(err, io.EOF) && len(r.held) > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		r.begun, r.latest = true, taken.Metrics
		if len(taken.Groups) == 0 {
			return nil
		}
		for _, g := range taken.Groups {
			if kept := r.kept(g, keep); len(kept) > 0 {
				r.held = trinity.JoinGroups(r.held, kept)
			}
		}
	}
}

// kept returns what keep accepts of a group, and counts the rest as dropped.
func (r *reader) kept(g trinity.Group, keep func(*trinity.Experience) bool) trinity.Group {
	if keep == nil {
		return g
	}
	kept := make(trinity.Group, 0, len(g))
	for _, e := range g {
		if keep(e) {
			kept = append(kept, e)
		} else {
			r.dropped.add(e)
		}
	}
	return kept
}

// give counts a batch and describes it by its rollouts, for which the trainer has waited since begin.
func (r *reader) give(begin time.Time, batch, rollouts []trinity.Group) trinity.Taken {
	metrics := describe(slices.Concat(rollouts...))
	metrics.Merge("", r.latest)
	metrics["time/read_experience"] = time.Since(begin).Seconds()
	r.batches++
	r.held, r.dropped, r.begun, r.latest = nil, dropped{}, false, nil
	return trinity.Taken{Groups: batch, Metrics: metrics}
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
	return trinity.SourceState{Cursor: cursor, Pending: trinity.JoinGroups(slices.Clone(r.held), usual.Pending...)}, err
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
	r.batches, r.dropped, r.held, r.begun, r.latest = s.Batches, s.Dropped, nil, false, nil
	return r.usual.Restore(trinity.SourceState{Cursor: s.Usual, Pending: from.Pending})
}
