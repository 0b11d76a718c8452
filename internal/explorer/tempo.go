package explorer

import (
	"fmt"
	"sync"
	"time"
)

// Tempo shortens the deadline of rollouts to a multiple of their mean time (upstream's
// dynamic_timeout). Evaluations keep the whole deadline.
type Tempo struct {
	Ratio  float64 // the deadline as a multiple of the mean
	Warmup int     // steps to observe before the deadline changes

	mu       sync.Mutex
	steps    int
	rollouts int
	total    time.Duration // of all rollouts that succeeded
}

// observe takes the rollouts of a step.
func (t *Tempo) observe(outcomes []*outcome) {
	if t == nil || len(outcomes) == 0 || outcomes[0].task.Eval {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps++
	for _, o := range outcomes {
		for _, d := range o.elapsed {
			t.total += d
			t.rollouts++
		}
	}
}

// deadline returns the time that an attempt has, and its name for people.
func (r *Runner) deadline(task job) (after time.Duration, name func() string) {
	name = func() string { return fmt.Sprintf("explorer.max_timeout of %v", r.Timeout) }
	t := r.Tempo
	if t == nil || task.Eval {
		return r.Timeout, name
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.steps < max(1, t.Warmup) || t.rollouts == 0 {
		return r.Timeout, name
	}
	mean := t.total / time.Duration(t.rollouts)
	if short := time.Duration(t.Ratio * float64(mean)); short < r.Timeout {
		return short, func() string {
			return fmt.Sprintf("explorer.dynamic_timeout of %v, which is %g times the mean of rollouts,", short.Round(time.Millisecond), t.Ratio)
		}
	}
	return r.Timeout, name
}
