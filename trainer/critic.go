package trainer

import (
	"context"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// Critic is a value function of the engine's own, which learns the returns that the advantage makes of its values.
type Critic struct {
	Engine    trinity.Engine // with a value head
	Loss      trinity.Loss   // of Experience.Values and Returns
	Schedule  Schedule
	Optimizer trinity.OptimParams // LR is the schedule's

	MiniBatch int   // experiences per optimizer step; 0 means the whole batch
	Epochs    int   // passes over each batch
	Warmup    int64 // first steps, in which only the critic is trained
}

// learn trains on one batch. What has no returns, such as a demonstration, teaches a critic nothing.
func (c *Critic) learn(ctx context.Context, step int64, exps []*trinity.Experience, microTokens int, metrics trinity.Metrics) error {
	start := time.Now()
	valued := slices.DeleteFunc(slices.Clone(exps), func(e *trinity.Experience) bool { return e.Returns == nil })
	l := learner{
		engine: c.Engine, loss: c.Loss, schedule: c.Schedule, optimizer: c.Optimizer, miniBatch: c.MiniBatch, epochs: c.Epochs, microTokens: microTokens,
	}
	m, err := l.learn(ctx, step, valued)
	metrics.Merge("critic/", m)
	metrics["time/update_critic"] = time.Since(start).Seconds()
	return err
}
