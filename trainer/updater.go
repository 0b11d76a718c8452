package trainer

import (
	"context"
	"slices"

	"github.com/trinity-go/trinity"
)

// learner moves the weights of one engine.
type learner struct {
	engine      trinity.Engine
	loss        trinity.Loss
	schedule    Schedule
	optimizer   trinity.OptimParams                    // LR is the schedule's
	miniBatch   int                                    // experiences per optimizer step; 0 means the whole batch
	epochs      int                                    // passes over each batch
	microTokens int                                    // tokens per micro-batch
	compares    bool                                   // the loss reads the log-probabilities of the reference that the engine keeps
	afterStep   func(m trinity.Metrics, sequences int) // is told of each optimizer step; nil for none
}

// learn runs the optimizer steps of one batch. Metrics are means over those of them that have the metric.
func (l *learner) learn(ctx context.Context, step int64, exps []*trinity.Experience) (trinity.Metrics, error) {
	metrics, count := trinity.Metrics{}, trinity.Metrics{}
	for range max(1, l.epochs) {
		for _, mini := range miniBatches(exps, l.miniBatch) {
			if !slices.ContainsFunc(mini, func(e *trinity.Experience) bool { return e.TrainedTokens() > 0 }) {
				continue // all rejected: momentum alone must not move the weights
			}
			m, err := l.optimize(ctx, step, mini)
			if err != nil {
				return nil, err
			}
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

// optimize is one optimizer step.
func (l *learner) optimize(ctx context.Context, step int64, mini []*trinity.Experience) (trinity.Metrics, error) {
	metrics := trinity.Metrics{}
	if err := checkPairs(l.loss, mini); err != nil {
		return nil, err
	}
	if err := l.look(ctx, step, mini); err != nil {
		return nil, err
	}
	micros, err := microBatches(l.engine, mini, l.microTokens, unit(l.loss))
	if err != nil {
		return nil, err
	}
	for _, micro := range micros {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		m, err := l.engine.ForwardBackward(ctx, &trinity.Batch{Step: step, Experiences: micro, Whole: mini}, l.loss)
		if err != nil {
			return nil, err
		}
		metrics.Add(m)
	}
	p := l.optimizer
	p.LR = l.schedule.At(step)
	m, err := l.engine.OptimStep(ctx, p)
	if err != nil {
		return nil, err
	}
	metrics.Merge("", m)
	if l.afterStep != nil {
		l.afterStep(metrics, len(mini))
	}
	return metrics, nil
}
