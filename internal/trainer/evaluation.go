package trainer

import (
	"context"
	"fmt"
	"time"

	"github.com/trinity-go/trinity"
)

// Evaluation measures held-out data during a run. Without HeldOut it measures nothing.
type Evaluation struct {
	HeldOut   []HeldOut
	Interval  int64 // steps between evaluations; 0: evaluate only at the end
	OnStartup bool  // evaluate before the first step, too
}

// HeldOut is data that the trainer measures and does not train on.
type HeldOut struct {
	Name        string
	Loss        trinity.Loss // its metrics measure the model
	Experiences []*trinity.Experience
}

// evaluatesAfter reports whether an evaluation follows a step.
func (t *Trainer) evaluatesAfter(step int64) bool {
	e := &t.opts.Evaluation
	return len(e.HeldOut) > 0 && (step == t.opts.TotalSteps || e.Interval > 0 && step%e.Interval == 0)
}

// evaluateFirst evaluates before the first step, if the options ask for it.
func (t *Trainer) evaluateFirst(ctx context.Context) error {
	e := &t.opts.Evaluation
	if t.at.Step > 0 || !e.OnStartup || len(e.HeldOut) == 0 {
		return nil
	}
	metrics := trinity.Metrics{}
	if err := t.evaluate(ctx, 0, metrics); err != nil {
		return err
	}
	return t.opts.Recorder.Log(ctx, 0, metrics)
}

// evaluate measures all held-out data under the current weights and adds eval/<name>/<metric> for
// each metric of each loss. The metrics are those of one optimizer step over all experiences.
func (t *Trainer) evaluate(ctx context.Context, step int64, metrics trinity.Metrics) error {
	start := time.Now()
	t.begins("evaluates step %d", step)
	for _, set := range t.opts.Evaluation.HeldOut {
		u := t.policy()
		u.Loss = set.Loss
		m, err := u.measure(ctx, step, set.Experiences)
		if err != nil {
			return fmt.Errorf("evaluation of %s: %w", set.Name, err)
		}
		metrics.Merge("eval/"+set.Name+"/", m)
	}
	metrics["time/eval"] = time.Since(start).Seconds()
	t.opts.Tracing.span(step, trinity.SpanEvaluation, "", "", start)
	return nil
}

// measure returns the metrics of the loss over experiences, without a gradient. It keeps the
// reference log-probabilities in the experiences, so that the next evaluation need not compute
// them.
func (u *updater) measure(ctx context.Context, step int64, exps []*trinity.Experience) (trinity.Metrics, error) {
	if u.compares {
		if err := u.reference(ctx, step, exps); err != nil {
			return nil, err
		}
	}
	ready, err := u.probe(ctx, step, exps)
	if err != nil {
		return nil, err
	}
	metrics := trinity.Metrics{}
	micros, err := microBatches(u.Engine, exps, u.microTokens, unit(u.Loss))
	if err != nil {
		return nil, err
	}
	for _, micro := range micros {
		b := &trinity.Batch{Step: step, Experiences: micro, Whole: exps}
		now, err := u.Engine.Forward(ctx, b, u.Loss.Streams())
		if err != nil {
			return nil, err
		}
		_, m, err := ready.Loss(b, now)
		if err != nil {
			return nil, err
		}
		metrics.Add(m)
	}
	return metrics, nil
}
