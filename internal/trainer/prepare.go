package trainer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// prepare computes, before the update, all that the losses and the advantage read and the explorer
// did not record. It returns the experiences to train on.
func (t *Trainer) prepare(
	ctx context.Context, step int64, groups []trinity.Group, fate *provenance, metrics trinity.Metrics,
) ([]*trinity.Experience, error) {
	exps := slices.Concat(groups...)
	if t.opts.Reference {
		if err := t.cachedReference(ctx, step, exps); err != nil {
			return nil, err
		}
	}
	if len(t.opts.Teachers) > 0 {
		if err := t.teach(ctx, step, exps, metrics); err != nil {
			return nil, err
		}
	}
	if t.opts.Critic != nil {
		if err := t.values(ctx, step, exps, metrics); err != nil {
			return nil, fmt.Errorf("critic: %w", err)
		}
	}
	if t.opts.Corrector != nil || t.wants() != (trinity.Streams{}) {
		if err := t.current(ctx, step, exps, metrics); err != nil {
			return nil, err
		}
	}
	if t.opts.Corrector != nil {
		before := learnable(exps)
		corrected, m, err := t.opts.Corrector.Apply(exps)
		if err != nil {
			return nil, err
		}
		metrics.Merge("", m)
		fate.drop("rollout_correction", before, learnable(corrected))
		if len(corrected) == 0 {
			return nil, nil
		}
		exps, groups = corrected, regroup(groups, corrected)
	}
	if t.opts.Advantage == nil {
		return exps, nil
	}
	kept, m, err := t.opts.Advantage.Advantages(ctx, groups)
	if err != nil {
		return nil, fmt.Errorf("advantage: %w", err)
	}
	metrics.Merge("critic/", m)
	fate.drop("advantage", exps, slices.Concat(kept...))
	return slices.Concat(kept...), nil
}

// wants returns the streams of the policy that the advantage reads besides the log-probabilities.
func (t *Trainer) wants() trinity.Streams {
	if t.opts.Advantage == nil {
		return trinity.Streams{}
	}
	needs := t.opts.Advantage.Needs()
	return trinity.Streams{Entropy: needs.Entropies, Discriminator: needs.Discriminators}
}

// values fills in the values that the critic predicts.
func (t *Trainer) values(ctx context.Context, step int64, exps []*trinity.Experience, metrics trinity.Metrics) error {
	start := time.Now()
	want := trinity.Streams{Value: true}
	err := t.each(ctx, step, t.opts.Critic.Engine, want, exps,
		func(e *trinity.Experience, s trinity.TokenStats) { e.Values = s.Value })
	t.passed(step, "values", start, metrics)
	return err
}

// current fills in, in one pass, the streams of the policy that the advantage reads and the old
// log-probabilities that the corrector reads.
func (t *Trainer) current(ctx context.Context, step int64, exps []*trinity.Experience, metrics trinity.Metrics) error {
	start := time.Now()
	want := t.wants()
	t.before = nil
	err := t.each(ctx, step, t.opts.Policy.Engine, want, exps,
		func(e *trinity.Experience, s trinity.TokenStats) {
			if want == (trinity.Streams{}) {
				t.before = append(t.before, passed{e.Tokens, slices.Clone(e.Mask), s.Logprob})
			}
			e.Entropies, e.Discriminators = s.Entropy, s.Discriminator
			if t.opts.Corrector != nil {
				e.OldLogprobs = s.Logprob
			}
		})
	t.passed(step, "old_log_probs", start, metrics)
	return err
}

// passed notes that a forward pass over a batch has ended, as a metric and as a span.
func (t *Trainer) passed(step int64, name string, start time.Time, metrics trinity.Metrics) {
	metrics["time/"+name] = time.Since(start).Seconds()
	t.opts.Tracing.span(step, trinity.SpanForward, name, "", start)
}

// each computes streams of a batch in micro-batches and calls keep with every experience and its
// statistics.
func (t *Trainer) each(ctx context.Context, step int64, trainer engine.Trainer, want trinity.Streams, exps []*trinity.Experience,
	keep func(*trinity.Experience, trinity.TokenStats),
) error {
	micros, err := microBatches(trainer, exps, t.opts.MicroTokens, 1)
	if err != nil {
		return err
	}
	for _, micro := range micros {
		stats, err := trainer.Forward(ctx, &trinity.Batch{Step: step, Experiences: micro, Whole: exps}, want)
		if err != nil {
			return err
		}
		for i, e := range micro {
			keep(e, stats[i])
		}
	}
	return nil
}

// regroup returns the groups without the experiences that are missing in left, which has the order
// of the groups. left may hold copies: a copy has the ID of the experience that it replaces.
func regroup(groups []trinity.Group, left []*trinity.Experience) (out []trinity.Group) {
	for _, g := range groups {
		n := 0
		for _, e := range g {
			if n < len(left) && left[n].ID == e.ID {
				n++
			}
		}
		if n > 0 {
			out = append(out, left[:n:n])
			left = left[n:]
		}
	}
	return out
}
