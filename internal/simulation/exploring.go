package simulation

import (
	"math"

	"github.com/trinity-go/trinity"
)

// exploring is the explorer: it waits for weights, rolls out and delivers. Its clock runs while
// rollouts run, and its unit is the time in which a rollout writes a token.
type exploring struct {
	*simulated
	begun     int64      // the last step that has begun
	delivered int64      // the last delivered step
	open      []*rolling // steps in flight, in order
	places    *places
	clock     float64
	until     float64 // the next event, by the clock
	left      float64 // seconds of work until then; 0 if no rollout runs
	busy      float64 // seconds with rollouts
	took      float64 // seconds of all steps, each from the begin of its first rollout to the end of its last
	ended     float64 // when the last step was delivered, in seconds
	done      bool
}

// rolling is a step in flight.
type rolling struct {
	starts   []float64 // of the rollouts, by the clock, ascending
	end      float64   // of the last rollout, by the clock
	versions []int64   // with which each rollout begins
	from     float64   // when the first rollout began, in seconds; NaN before that
	over     bool      // the last rollout has ended
}

// advance does everything that needs no time. It reports whether it did anything.
func (e *exploring) advance() (again bool, err error) {
	if e.done {
		return false, nil
	}
	e.note()
	if err := e.queue.sink.Pause(now, e.Pace.Required(e.delivered+1)); err != nil {
		return false, err
	}
	if len(e.open) > 0 && e.open[0].over {
		if again, err = unlessEarly(e.deliver()); again || err != nil {
			return again, err
		}
	}
	if e.mayBegin() {
		again, err = unlessEarly(e.begin())
	}
	e.expect()
	return again, err
}

// mayBegin reports whether the next step may begin: all rollouts of the steps before it must have
// begun. While the trainer publishes a version, no step begins.
func (e *exploring) mayBegin() bool {
	if e.begun == e.Steps || len(e.open) >= max(1, e.StepsInFlight) || e.trainer.publishing && e.trainer.left > 0 {
		return false
	}
	return len(e.open) == 0 || last(e.open[len(e.open)-1].starts) <= e.clock
}

func last(v []float64) float64 { return v[len(v)-1] }

// begin begins the next step if its version is there.
func (e *exploring) begin() error {
	step := e.begun + 1
	version, err := e.sync.Wait(now, e.Pace.Required(step), e.Pace.Newest(step))
	if err != nil {
		return err
	}
	r := &rolling{from: math.NaN()}
	r.starts, r.end = e.places.take(e.steps[step-1].tokens, e.clock)
	r.versions = make([]int64, len(r.starts))
	for i := range r.versions {
		r.versions[i] = version
	}
	e.open, e.begun = append(e.open, r), step
	e.report.Versions = append(e.report.Versions, version)
	e.note()
	return nil
}

// note updates the steps in flight: their rollouts may have begun or ended.
func (e *exploring) note() {
	for _, r := range e.open {
		if math.IsNaN(r.from) && r.starts[0] <= e.clock {
			r.from = e.seconds
		}
		if !r.over && r.end <= e.clock {
			r.over = true
			e.took += e.seconds - r.from
		}
	}
}

// expect finds the next event: the first or the last rollout of a step begins, or the step ends.
func (e *exploring) expect() {
	next := math.Inf(1)
	for _, r := range e.open {
		for _, at := range []float64{r.starts[0], last(r.starts), r.end} {
			if at > e.clock {
				next = min(next, at)
			}
		}
	}
	e.left = 0
	if !math.IsInf(next, 1) {
		e.until, e.left = next, (next-e.clock)*e.perUnit.explore
	}
}

// pass does work seconds of work.
func (e *exploring) pass(work float64) {
	e.left = max(0, e.left-work)
	e.clock = e.until - e.left/e.perUnit.explore
}

// replace gives a version to all rollouts that have not begun.
func (e *exploring) replace(version int64) {
	for _, r := range e.open {
		for i, at := range r.starts {
			if at > e.clock {
				r.versions[i] = version
			}
		}
	}
}

// deliver delivers the rollouts of the oldest step in flight if the queue has room.
func (e *exploring) deliver() error {
	step, versions := e.delivered+1, e.open[0].versions
	group := make(trinity.Group, len(versions))
	for i, v := range versions {
		group[i] = &trinity.Experience{ID: trinity.ExperienceID{Step: step, Run: i}, Versions: [2]int64{v, v}}
	}
	if err := e.queue.Put(now, trinity.Delivery{Groups: []trinity.Group{group}, Needs: e.Pace.Required(step)}); err != nil {
		return err
	}
	e.open, e.delivered, e.ended = e.open[1:], step, e.seconds
	if e.delivered == e.Steps {
		e.done = true
		e.sync.ExplorerDone()
		return e.queue.sink.Close(now)
	}
	return nil
}
