package explorer

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
)

// Slots bound the rollouts at once, of all steps that are under way, and count what they sample.
type Slots struct {
	free    chan struct{}
	sampled atomic.Int64 // tokens of the rollouts that have ended
}

// NewSlots lets n rollouts run at once, one at least.
func NewSlots(n int) *Slots { return &Slots{free: make(chan struct{}, max(1, n))} }

// run has a group run a rollout as soon as a slot is free. When ctx is cancelled first the group fails of that.
func (s *Slots) run(ctx context.Context, eg *errgroup.Group, rollout func() error) {
	select {
	case s.free <- struct{}{}:
		eg.Go(func() error {
			defer func() { <-s.free }()
			return rollout()
		})
	case <-ctx.Done():
		eg.Go(func() error { return context.Cause(ctx) })
	}
}

// count adds what the policy wrote in a rollout that has ended.
func (s *Slots) count(exps []*trinity.Experience) {
	for _, e := range exps {
		s.sampled.Add(int64(e.TrainedTokens()))
	}
}
