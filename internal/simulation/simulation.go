// Package simulation plays a run of explorer and trainer without a model, event by event, to tell who waits for whom. The queue, the synchronizer, the sample
// strategy and the pace are those of a run; only time is made up: an explore step takes as long as its rollouts, of lengths drawn from a
// distribution, a train step as long as its tokens.
package simulation

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/explorer"
	"github.com/trinity-go/trinity/weights"
)

// Setting is how explorer and trainer work together.
type Setting struct {
	Pace            explorer.Pace
	Handover        weights.Handover
	PublishInterval int64                  // train steps between versions
	Strategy        trinity.SampleStrategy // what the trainer reads by; nil is in order
	Capacity        int                    // rollouts that the queue holds
	Batch           int                    // rollouts that a train step takes of it
	InFlight        int                    // rollouts at once, of each explorer
	Explorers       int                    // that share the rollouts of each step; 0 is 1
	UnderWay        int                    // explore steps at once; 0 is 1
	Steps           int64                  // explore steps; the trainer trains on all that comes of them
}

// Rates are how fast explorer and trainer are, each alone. A step's time is the mean over steps: those with longer rollouts take longer.
type Rates struct {
	Explore  float64 `json:"rollout_seconds"` // of an explore step, by one explorer
	Train    float64 `json:"train_seconds"`   // of a train step
	Sync     float64 `json:"sync_seconds"`    // to publish a version
	Lengths  Lengths `json:"response_tokens"`
	Prompt   float64 `json:"prompt_tokens"`
	Slowdown float64 `json:"slowdown"` // how many times as long both take while both are busy: 1 on machines of their own, 2 where they share all cores
}

// Validate refuses rates that no run has.
func (r *Rates) Validate() error {
	for _, v := range []struct {
		name  string
		value float64
		fits  bool
		want  string
	}{
		{"rollout seconds", r.Explore, r.Explore > 0, "above 0"}, {"train seconds", r.Train, r.Train > 0, "above 0"}, {"sync seconds", r.Sync, r.Sync >= 0, "of at least 0"},
		{"response tokens", r.Lengths.Mean, r.Lengths.Mean > 0, "above 0"}, {"the spread of response tokens", r.Lengths.Spread, r.Lengths.Spread >= 0, "of at least 0"},
		{"prompt tokens", r.Prompt, r.Prompt >= 0, "of at least 0"}, {"slowdown", r.Slowdown, r.Slowdown >= 1, "of at least 1"},
	} {
		if !v.fits || math.IsInf(v.value, 1) {
			return fmt.Errorf("%s: %v is out of range, want a finite number %s", v.name, v.value, v.want)
		}
	}
	return nil
}

// simulated is a run under way.
type simulated struct {
	Setting
	rates   Rates
	steps   []step // each explore step, drawn before
	perUnit struct{ explore, train float64 }

	seconds  float64 // since the beginning
	queue    *counted
	source   trinity.Source
	sync     *weights.Memory
	explorer exploring
	trainer  training
	report   Report
	stale    map[int64]int // rollouts by staleness
	depth    float64       // rollouts in the queue × seconds
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

// scale finds the seconds of a unit of work, so that the mean step takes what the rates say.
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

// play lets both sides do what they can at once, then time pass until one of them ends what it is at.
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
			return fmt.Errorf("after %d train steps explorer and trainer would wait for one another", s.trainer.step)
		}
		s.pass(next, speed)
	}
}

// pass lets the work of so many seconds be done on both sides.
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

// versions is an engine that has versions and nothing else.
type versions struct {
	trinity.Engine
	offered int64
}

func (w *versions) Offer(_ context.Context, version int64) error { w.offered = version; return nil }

func (w *versions) Adopt(context.Context) (int64, error) { return w.offered, nil }

// counted is the queue and its explorer's side, with the number of rollouts in it, the most that there were, and of what it gave.
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
