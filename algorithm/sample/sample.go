// Package sample holds the sample strategies, which compose the batches of the trainer. A strategy
// combines the experience buffer and auxiliary buffers into one [trinity.Source]. Its state holds
// the states of the buffers: a resumed run continues as if nothing had interrupted it, even with
// another strategy.
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

// reader is the common part of the sources of all strategies.
type reader struct {
	usual     trinity.Source            // the experience buffer, or the dataset of offline training
	auxiliary map[string]trinity.Source // the auxiliary buffers that the strategy reads, by name

	held    []trinity.Group // taken from usual for an incomplete batch: a cancelled wait loses nothing
	begun   bool            // usual has given a part of that batch
	dropped dropped         // the experiences dropped from that batch
	latest  trinity.Metrics // the metrics of usual for that batch
	batches int64           // batches so far: the trainer's steps
}

// hold takes from the experience buffer until it holds the wanted experiences. It drops those that
// keep rejects; a nil keep accepts all. It holds fewer if the buffer has no more before the
// trainer's next version, and returns io.EOF at the end of the buffer.
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

// kept returns the experiences of a group that keep accepts, and counts the others as dropped.
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

// give returns a batch with the metrics of its rollouts and counts it. The wait for it began at
// begin.
func (r *reader) give(begin time.Time, batch, rollouts []trinity.Group) trinity.Taken {
	metrics := describe(slices.Concat(rollouts...))
	metrics.Merge("", r.latest)
	metrics["time/read_experience"] = time.Since(begin).Seconds()
	r.batches++
	r.held, r.dropped, r.begun, r.latest = nil, dropped{}, false, nil
	return trinity.Taken{Groups: batch, Metrics: metrics}
}

// describe returns the number of tasks and the mean, max and min of the oldest versions that
// sampled the rollouts.
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
	Dropped   dropped                        `json:"dropped,omitzero"` // from the incomplete batch
	Auxiliary map[string]trinity.SourceState `json:"auxiliary,omitempty"`
}

// State implements trinity.Source. The held groups are pending, before those of the experience
// buffer.
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

// Restore implements trinity.Source. An auxiliary buffer that the state lacks starts at its
// beginning.
func (r *reader) Restore(from trinity.SourceState) error {
	var s state
	d := json.NewDecoder(bytes.NewReader(from.Cursor))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return fmt.Errorf("sample strategy: the checkpoint's state of the experience buffer: %w", err)
	}
	if s.Batches < 0 {
		return fmt.Errorf("sample strategy: the checkpoint's state of the experience buffer: %d is not a number of batches", s.Batches)
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
