package explorer

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
)

// Slots bound the concurrent calls to the model, and the rollouts that are under way, of all steps
// in flight. While an environment or a reward function works, the rollout holds no slot of a call.
// Slots also count the tokens that rollouts sample.
type Slots struct {
	calls   chan struct{}
	alive   chan struct{}
	sampled atomic.Int64 // tokens of ended rollouts
}

// NewSlots lets the rollouts make this many calls at once, and lets this many rollouts be under
// way; at least one each.
func NewSlots(calls, rollouts int) *Slots {
	return &Slots{calls: make(chan struct{}, max(1, calls)), alive: make(chan struct{}, max(1, rollouts))}
}

// run starts a rollout in the group as soon as a slot is free. If ctx ends first, the group fails
// with its cause.
func (s *Slots) run(ctx context.Context, eg *errgroup.Group, rollout func() error) {
	select {
	case s.alive <- struct{}{}:
		eg.Go(func() error {
			defer func() { <-s.alive }()
			return rollout()
		})
	case <-ctx.Done():
		eg.Go(func() error { return context.Cause(ctx) })
	}
}

// call takes the slot of a call. The time until it is free does not count against the rollout's
// deadline.
func (s *Slots) call(ctx context.Context) error {
	select {
	case s.calls <- struct{}{}:
		return nil
	default:
	}
	if d := deadlineOf(ctx); d != nil {
		d.pause()
		defer d.resume()
	}
	select {
	case s.calls <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// worthTelling is the wait for a slot of which a tracer is told.
const worthTelling = time.Millisecond

// slotted is a sampler whose calls each hold a slot, and have a deadline from then on.
type slotted struct {
	trinity.Sampler
	slots   *Slots
	timeout time.Duration // of a call; 0 is none
	trace   *traced
}

func (s slotted) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) (out []trinity.Completion, err error) {
	asked := time.Now()
	if err := s.slots.call(ctx); err != nil {
		return nil, err
	}
	defer func() { <-s.slots.calls }()
	s.trace.call(prompt, &p)
	begun := time.Now()
	if begun.Sub(asked) > worthTelling {
		s.trace.span(trinity.SpanWait, "a slot of the model", 0, asked)
	}
	defer func() {
		version := int64(0)
		for _, c := range out {
			version = max(version, c.Versions[1])
		}
		s.trace.span(trinity.SpanCall, "", version, begun)
	}()
	if s.timeout == 0 {
		return s.Sampler.Sample(ctx, prompt, p)
	}
	late := timedOut(fmt.Sprintf("explorer.turn_timeout of %v", s.timeout))
	turn, end := context.WithTimeoutCause(ctx, s.timeout, late)
	defer end()
	out, err = s.Sampler.Sample(turn, prompt, p)
	if err != nil && ctx.Err() == nil && turn.Err() != nil {
		return nil, late // of the rollout, not of the engine
	}
	return out, err
}

// count adds the tokens that the policy wrote in an ended rollout.
func (s *Slots) count(tokens int) { s.sampled.Add(int64(tokens)) }
