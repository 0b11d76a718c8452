// Package simulation plays a run of explorer and trainer without a model, event by event, to find
// out who waits for whom. Queue, synchronizer, sample strategy and pace are the real ones. Only
// time is simulated: the duration of an explore step follows from the lengths of its rollouts,
// which are drawn from a distribution, and the duration of a train step from its tokens.
package simulation

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/weights"
)

// Setting describes how explorer and trainer work together.
type Setting struct {
	Pace            explorer.Pace
	Handover        weights.Handover
	PublishInterval int64                  // train steps between versions
	Strategy        trinity.SampleStrategy // how the trainer reads the queue; nil: in order
	Capacity        int                    // of the queue, in rollouts
	Batch           int                    // rollouts per train step
	InFlight        int                    // concurrent rollouts of each explorer
	Explorers       int                    // explorers that share the rollouts of each step; 0 is 1
	StepsInFlight   int                    // concurrent explore steps; 0 is 1
	Steps           int64                  // explore steps; the trainer trains on all their rollouts
}

// Rates are the speeds of explorer and trainer when each works alone. The time of a step is a mean
// over steps: steps with longer rollouts take longer.
type Rates struct {
	Explore  float64 `json:"rollout_seconds"` // per explore step, with one explorer
	Train    float64 `json:"train_seconds"`   // per train step
	Sync     float64 `json:"sync_seconds"`    // per published version
	Lengths  Lengths `json:"response_tokens"`
	Prompt   float64 `json:"prompt_tokens"`
	Slowdown float64 `json:"slowdown"` // factor on both times while both are busy: 1 on separate machines, 2 if they share all cores
}

// Validate returns an error if a rate is out of range.
func (r *Rates) Validate() error {
	for _, v := range []struct {
		name  string
		value float64
		fits  bool
		want  string
	}{
		{"rollout seconds", r.Explore, r.Explore > 0, "above 0"}, {"train seconds", r.Train, r.Train > 0, "above 0"},
		{"sync seconds", r.Sync, r.Sync >= 0, "of at least 0"}, {"response tokens", r.Lengths.Mean, r.Lengths.Mean > 0, "above 0"},
		{"the spread of response tokens", r.Lengths.Spread, r.Lengths.Spread >= 0, "of at least 0"},
		{"prompt tokens", r.Prompt, r.Prompt >= 0, "of at least 0"}, {"slowdown", r.Slowdown, r.Slowdown >= 1, "of at least 1"},
	} {
		if !v.fits || math.IsInf(v.value, 1) {
			return fmt.Errorf("%s: %v is out of range, want a finite number %s", v.name, v.value, v.want)
		}
	}
	return nil
}

// simulated is the state of a run.
type simulated struct {
	Setting
	rates   Rates
	steps   []step // all explore steps, drawn at the beginning
	perUnit struct{ explore, train float64 }

	seconds  float64 // since the beginning of the run
	queue    *counted
	source   trinity.Source
	sync     *weights.Memory
	explorer exploring
	trainer  training
	report   Report
	stale    map[int64]int // rollouts by staleness
	depth    float64       // integral of the rollouts in the queue over time
}

var errNotYet = errors.New("not yet")

// now is a context that has ended: a call that would have to wait returns errNotYet instead.
var now = func() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	end(errNotYet)
	return ctx
}()

// Run plays the run. The same arguments give the same report.
func Run(s Setting, r Rates) (*Report, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	sim := &simulated{Setting: s, rates: r, steps: draw(&s, &r), stale: map[int64]int{}}
	sim.scale()
	queue := buffer.NewQueue(s.Capacity, 0, nil)
	sim.queue = &counted{Queue: queue, sink: queue.Sink("")}
	sim.source = sim.queue
	if s.Strategy != nil {
		var err error
		if sim.source, err = s.Strategy.Open(sim.queue, nil); err != nil {
			return nil, err
		}
	}
	sim.sync = weights.NewMemory(&versions{}, 0, s.Handover, math.MaxInt64)
	sim.explorer = exploring{simulated: sim, places: s.places()}
	sim.trainer = training{simulated: sim}
	if err := sim.play(); err != nil {
		return nil, err
	}
	return sim.finish(), nil
}

// scale computes the seconds per unit of work such that the mean times of a step equal the rates.
func (s *simulated) scale() {
	span, tokens := 0.0, 0.0
	for _, st := range s.steps {
		span += st.span
		for _, n := range st.tokens {
			tokens += n + s.rates.Prompt
		}
	}
	n := float64(len(s.steps))
	s.perUnit.explore = s.rates.Explore * n / span * float64(s.placesOf(max(1, s.Explorers))) / float64(s.placesOf(1))
	s.perUnit.train = s.rates.Train * n * float64(s.Pace.PerStep) / (tokens * float64(s.Batch))
}

// play advances both sides as far as they get without time, lets time pass until one of them ends
// its work, and repeats.
func (s *simulated) play() error {
	for {
		for again := true; again; {
			explored, err := s.explorer.advance()
			if err != nil {
				return err
			}
			trained, err := s.trainer.advance()
			if err != nil {
				return err
			}
			again = explored || trained
		}
		if s.trainer.done {
			return nil
		}
		speed := 1.0
		if s.explorer.left > 0 && s.trainer.left > 0 {
			speed = 1 / s.rates.Slowdown
		}
		next := math.Inf(1)
		for _, left := range []float64{s.explorer.left, s.trainer.left} {
			if left > 0 {
				next = min(next, left)
			}
		}
		if math.IsInf(next, 1) {
			return fmt.Errorf("after %d train steps explorer and trainer wait for each other forever", s.trainer.step)
		}
		s.pass(next, speed)
	}
}

// pass does work seconds of work on each busy side, at the given speed.
func (s *simulated) pass(work, speed float64) {
	elapsed := work / speed
	s.seconds += elapsed
	s.depth += elapsed * float64(s.queue.holds)
	if s.explorer.left > 0 {
		s.explorer.busy += elapsed
		s.explorer.pass(work)
	}
	if s.trainer.left > 0 {
		if s.trainer.publishing {
			s.trainer.syncing += elapsed
		} else {
			s.trainer.busy += elapsed
		}
		s.trainer.left = max(0, s.trainer.left-work)
	}
}

// versions is an engine that has version numbers and no weights.
type versions struct {
	engine.Trainer
	offered int64
}

func (w *versions) Offer(_ context.Context, version int64) error { w.offered = version; return nil }

func (w *versions) Adopt(context.Context) (int64, error) { return w.offered, nil }

// counted is the queue with its sink. It counts rollouts: those in the queue, the most at any time,
// and those that the trainer took.
type counted struct {
	*buffer.Queue
	sink               trinity.Sink
	holds, most, given int
}

func (c *counted) Put(ctx context.Context, d trinity.Delivery) error {
	err := c.sink.Put(ctx, d)
	if err == nil {
		for _, g := range d.Groups {
			c.holds += len(g)
		}
		c.most = max(c.most, c.holds)
	}
	return err
}

func (c *counted) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	taken, err := c.Queue.Take(ctx, want)
	n := len(taken.Experiences())
	c.holds -= n
	c.given += n
	return taken, err
}
