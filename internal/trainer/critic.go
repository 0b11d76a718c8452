package trainer

import (
	"context"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// Critic is a value function with an engine of its own. It learns the returns that the advantage
// computes from its values. Its engine has a value head, and its loss reads Experience.Values and
// Returns.
type Critic struct {
	Learner
	Warmup int64 // first steps, which train only the critic
}

// learn trains on one batch. Experiences without returns, such as demonstrations, teach the critic
// nothing.
func (c *Critic) learn(
	ctx context.Context, step int64, exps []*trinity.Experience, microTokens int, trace *trace, metrics trinity.Metrics,
) error {
	start := time.Now()
	valued := slices.DeleteFunc(slices.Clone(exps), func(e *trinity.Experience) bool { return e.Returns == nil })
	u := updater{Learner: c.Learner, microTokens: microTokens, trace: trace}
	m, err := u.learn(ctx, step, valued)
	metrics.Merge("critic/", m)
	metrics["time/update_critic"] = time.Since(start).Seconds()
	return err
}
