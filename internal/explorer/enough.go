package explorer

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// OverRollout lets a step end before all of its tasks have (upstream's over_rollout).
type OverRollout struct {
	Ratio   float64       // share of the tasks that the step does not wait for, in [0, 1)
	Wait    time.Duration // for these tasks, once the others have ended
	Partial bool          // keep a group although some of its rollouts were cancelled
}

// errEnough ends the rollouts that a step does not wait for.
var errEnough = errors.New("enough tasks of the step have ended (explorer.over_rollout)")

// enough ends the last rollouts of a step.
type enough struct {
	end  context.CancelCauseFunc
	wait time.Duration

	mu   sync.Mutex
	need int // tasks until there are enough; 0 or less if nothing is to be ended
}

// of returns the context of a step's rollouts, and what ends it.
func (o OverRollout) of(ctx context.Context, tasks []job) (context.Context, *enough) {
	ctx, end := context.WithCancelCause(ctx)
	e := &enough{wait: o.Wait, end: end}
	if o.Ratio > 0 && len(tasks) > 0 && !tasks[0].Eval {
		e.need = int(math.Ceil(float64(len(tasks)) * (1 - o.Ratio)))
	}
	return ctx, e
}

// ended counts a task whose rollouts have all ended.
func (e *enough) ended() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.need--; e.need == 0 {
		time.AfterFunc(e.wait, func() { e.end(errEnough) })
	}
}

// isCancelled reports whether the step has ended its last rollouts, whose context is ctx.
func isCancelled(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errEnough) }
