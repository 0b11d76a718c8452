package trainer

import (
	"context"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// updater runs the optimizer steps of one learner.
type updater struct {
	Learner
	microTokens int      // tokens per micro-batch
	compares    bool     // the loss reads the log-probabilities of the engine's frozen reference
	adaptive    Adaptive // nil: nothing to adapt
	trace       *trace
	claimer     Claimer  // asked before each optimizer step; nil: the weights are the engine's alone
	before      []passed // sequences of a forward pass under the weights before the update; nil without one

	progress     func(done, total int) // receives the micro-batches of a batch; nil: nobody asks
	begun, steps int                   // optimizer steps of the batch
	taken        int64                 // those that had something to train on
}

// learn runs the optimizer steps of one batch. Each metric is the mean over the optimizer steps
// that report it.
func (u *updater) learn(ctx context.Context, step int64, exps []*trinity.Experience) (trinity.Metrics, error) {
	metrics, count := trinity.Metrics{}, trinity.Metrics{}
	minis := miniBatches(exps, u.MiniBatch)
	u.begun, u.steps = 0, max(1, u.Epochs)*len(minis)
	for range max(1, u.Epochs) {
		for _, mini := range minis {
			u.begun++
			if !slices.ContainsFunc(mini, func(e *trinity.Experience) bool { return e.TrainedTokens() > 0 }) {
				continue // nothing is left to train on: momentum alone must not move the weights
			}
			m, err := u.optimize(ctx, step, mini)
			if err != nil {
				return nil, err
			}
			u.taken++
			metrics.Add(m)
			for name := range m {
				count[name]++
			}
		}
	}
	for name := range metrics {
		metrics[name] /= count[name]
	}
	return metrics, nil
}

// optimize runs one optimizer step and returns its summed metrics.
func (u *updater) optimize(ctx context.Context, step int64, mini []*trinity.Experience) (trinity.Metrics, error) {
	metrics := trinity.Metrics{}
	if err := checkPairs(u.Loss, mini); err != nil {
		return nil, err
	}
	ready, err := u.probe(ctx, step, mini)
	if err != nil {
		return nil, err
	}
	micros, err := microBatches(u.Engine, mini, u.microTokens, unit(u.Loss))
	if err != nil {
		return nil, err
	}
	for i, micro := range micros {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		if u.progress != nil {
			u.progress((u.begun-1)*len(micros)+i, u.steps*len(micros))
		}
		loss := u.trace.loss(ready, u.begun-1)
		m, err := u.Engine.ForwardBackward(ctx, &trinity.Batch{Step: step, Experiences: micro, Whole: mini}, loss)
		if err != nil {
			return nil, err
		}
		loss.end()
		metrics.Add(m)
	}
	if u.claimer != nil {
		start := time.Now()
		if err := u.claimer.Claim(ctx); err != nil {
			return nil, err
		}
		u.trace.span(step, trinity.SpanWait, u.trace.model, trinity.RoleExplorer, start)
	}
	start := time.Now()
	p := u.Optimizer
	p.LR = u.Schedule.At(step)
	m, err := u.Engine.OptimStep(ctx, p)
	if err != nil {
		return nil, err
	}
	u.trace.span(step, trinity.SpanUpdate, u.trace.model, "", start)
	metrics.Merge("", m)
	if u.adaptive != nil {
		u.adaptive.AfterStep(metrics, len(mini))
	}
	return metrics, nil
}
