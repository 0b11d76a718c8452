package simulation

import (
	"math"

	"github.com/trinity-go/trinity"
)

// exploring is the explorer: it waits for weights, rolls out, and delivers. Its clock counts the tokens that a rollout has written while it was at work.
type exploring struct {
	*simulated
	begun     int64 // steps
	delivered int64
	open      []*rolling // from the first that is not delivered on
	places    *places
	clock     float64
	until     float64 // when something happens next, by the clock
	left      float64 // seconds of work until then; 0 where nothing is at work
	busy      float64 // seconds
	took      float64 // by all steps, each from its first rollout to its last, seconds
	ended     float64 // when the last step was delivered, seconds
	done      bool
}

// rolling is a step under way.
type rolling struct {
	starts   []float64 // of its rollouts, by the clock, ascending
	end      float64
	versions []int64 // that each rollout samples with first
	from     float64 // when the first began, in seconds; NaN before that
	over     bool    // the last has ended
}

// advance does what needs no time, and tells whether there was any.
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

// mayBegin tells whether another step has its turn: when all rollouts of those before have begun. While a version is published nobody gets any.
func (e *exploring) mayBegin() bool {
	if e.begun == e.Steps || len(e.open) >= max(1, e.UnderWay) || e.trainer.publishing && e.trainer.left > 0 {
		return false
	}
	return len(e.open) == 0 || last(e.open[len(e.open)-1].starts) <= e.clock
}

func last(v []float64) float64 { return v[len(v)-1] }

// begin takes the version that the next step begins with.
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

// note takes down which steps have begun to roll, and ended, by now.
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

// expect finds what happens next: a step begins to roll, has begun all its rollouts, or ends.
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

// pass lets so many seconds of work be done.
func (e *exploring) pass(work float64) {
	e.left = max(0, e.left-work)
	e.clock = e.until - e.left/e.perUnit.explore
}

// replace has the rollouts that have not begun sample with a version.
func (e *exploring) replace(version int64) {
	for _, r := range e.open {
		for i, at := range r.starts {
			if at > e.clock {
				r.versions[i] = version
			}
		}
	}
}

// deliver puts the rollouts of the first step, when there is room.
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
