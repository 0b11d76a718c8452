package explorer

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
)

// Slots bound the concurrent rollouts of all steps in flight, and count the tokens that they
// sample.
type Slots struct {
	free    chan struct{}
	sampled atomic.Int64 // tokens of ended rollouts
}

// NewSlots lets n rollouts run at once, and at least one.
func NewSlots(n int) *Slots { return &Slots{free: make(chan struct{}, max(1, n))} }

// run starts a rollout in the group as soon as a slot is free. If ctx ends first, the group fails
// with its cause.
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

// count adds the tokens that the policy wrote in an ended rollout.
func (s *Slots) count(exps []*trinity.Experience) {
	for _, e := range exps {
		s.sampled.Add(int64(e.TrainedTokens()))
	}
}
