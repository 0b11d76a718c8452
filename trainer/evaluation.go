package trainer

import (
	"context"
	"fmt"
	"time"

	"github.com/trinity-go/trinity"
)

// HeldOut is data that is measured and not trained on.
type HeldOut struct {
	Name        string
	Loss        trinity.Loss // whose metrics say how well the model does
	Experiences []*trinity.Experience
}

// evaluatesAfter reports whether held-out data is measured after a step.
func (t *Trainer) evaluatesAfter(step int64) bool {
	return len(t.HeldOut) > 0 && (step == t.TotalSteps || t.EvalInterval > 0 && step%t.EvalInterval == 0)
}

// evaluateFirst measures held-out data before the first step.
func (t *Trainer) evaluateFirst(ctx context.Context) error {
	if t.step > 0 || !t.EvalOnStartup || len(t.HeldOut) == 0 {
		return nil
	}
	metrics := trinity.Metrics{}
	if err := t.evaluate(ctx, 0, metrics); err != nil {
		return err
	}
	return t.Log(ctx, 0, metrics)
}

// evaluate measures all held-out data under the present weights: the metrics of each loss, as of one optimizer step over all experiences, are
// eval/<name>/<metric>.
func (t *Trainer) evaluate(ctx context.Context, step int64, metrics trinity.Metrics) error {
	start := time.Now()
	for _, set := range t.HeldOut {
		l := t.policy()
		l.loss = set.Loss
		m, err := l.measure(ctx, step, set.Experiences)
		if err != nil {
			return fmt.Errorf("evaluation of %s: %w", set.Name, err)
		}
		metrics.Merge("eval/"+set.Name+"/", m)
	}
	metrics["time/eval"] = time.Since(start).Seconds()
	return nil
}

// measure is the loss over experiences, without a gradient. What the reference model says of them is kept for the next time.
func (l *learner) measure(ctx context.Context, step int64, exps []*trinity.Experience) (trinity.Metrics, error) {
	if l.compares {
		if err := l.reference(ctx, step, exps); err != nil {
			return nil, err
		}
	}
	if err := l.look(ctx, step, exps); err != nil {
		return nil, err
	}
	metrics := trinity.Metrics{}
	micros, err := microBatches(l.engine, exps, l.microTokens, unit(l.loss))
	if err != nil {
		return nil, err
	}
	for _, micro := range micros {
		b := &trinity.Batch{Step: step, Experiences: micro, Whole: exps}
		now, err := l.engine.Forward(ctx, b, l.loss.Streams())
		if err != nil {
			return nil, err
		}
		_, m, err := l.loss.Loss(b, now)
		if err != nil {
			return nil, err
		}
		metrics.Add(m)
	}
	return metrics, nil
}
