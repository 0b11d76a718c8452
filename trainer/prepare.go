package trainer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// prepare computes what the losses and the advantage read besides what was recorded, all of it before the update, and returns what is trained on.
func (t *Trainer) prepare(ctx context.Context, step int64, exps []*trinity.Experience, metrics trinity.Metrics) ([]*trinity.Experience, error) {
	if t.Reference {
		if err := t.cachedReference(ctx, step, exps); err != nil {
			return nil, err
		}
	}
	if len(t.Teachers) > 0 {
		if err := t.teach(ctx, step, exps, metrics); err != nil {
			return nil, err
		}
	}
	if t.Critic != nil {
		if err := t.values(ctx, step, exps, metrics); err != nil {
			return nil, fmt.Errorf("critic: %w", err)
		}
	}
	if t.Correct != nil || t.wants() != (trinity.Streams{}) {
		if err := t.current(ctx, step, exps, metrics); err != nil {
			return nil, err
		}
	}
	if t.Correct != nil {
		corrected, m, err := t.Correct(exps)
		if err != nil {
			return nil, err
		}
		metrics.Merge("", m)
		exps = corrected
	}
	if t.Advantage == nil || len(exps) == 0 {
		return exps, nil
	}
	kept, m, err := t.Advantage.Advantages(groups(exps))
	if err != nil {
		return nil, fmt.Errorf("advantage: %w", err)
	}
	metrics.Merge("critic/", m)
	return slices.Concat(kept...), nil
}

// wants are the streams of the policy that the advantage reads besides the log-probabilities.
func (t *Trainer) wants() trinity.Streams {
	if t.Advantage == nil {
		return trinity.Streams{}
	}
	needs := t.Advantage.Needs()
	return trinity.Streams{Entropy: needs.Entropies, Discriminator: needs.Discriminators}
}

// values fills in what the critic expects.
func (t *Trainer) values(ctx context.Context, step int64, exps []*trinity.Experience, metrics trinity.Metrics) error {
	start := time.Now()
	want := trinity.Streams{Value: true}
	err := t.each(step, exps, func(b *trinity.Batch) ([]trinity.TokenStats, error) { return t.Critic.Engine.Forward(ctx, b, want) },
		func(e *trinity.Experience, s trinity.TokenStats) { e.Values = s.Value })
	metrics["time/values"] = time.Since(start).Seconds()
	return err
}

// current fills in, in one pass, what the advantage reads of the policy and the log-probabilities that are corrected with.
func (t *Trainer) current(ctx context.Context, step int64, exps []*trinity.Experience, metrics trinity.Metrics) error {
	start := time.Now()
	want := t.wants()
	err := t.each(step, exps, func(b *trinity.Batch) ([]trinity.TokenStats, error) { return t.Engine.Forward(ctx, b, want) },
		func(e *trinity.Experience, s trinity.TokenStats) {
			e.Entropies, e.Discriminators = s.Entropy, s.Discriminator
			if t.Correct != nil {
				e.OldLogprobs = s.Logprob
			}
		})
	metrics["time/old_log_probs"] = time.Since(start).Seconds()
	return err
}

// each computes streams of a batch in micro-batches and hands every experience its own.
func (t *Trainer) each(step int64, exps []*trinity.Experience, compute func(*trinity.Batch) ([]trinity.TokenStats, error), keep func(*trinity.Experience, trinity.TokenStats)) error {
	for _, micro := range microBatches(exps, t.MicroTokens) {
		stats, err := compute(&trinity.Batch{Step: step, Experiences: micro, Whole: exps})
		if err != nil {
			return err
		}
		for i, e := range micro {
			keep(e, stats[i])
		}
	}
	return nil
}

// groups are the experiences of each task of an explorer step, in order of first appearance. A batch may cut through a group.
func groups(exps []*trinity.Experience) []trinity.Group {
	type origin struct {
		step int64
		task string
	}
	var out []trinity.Group
	place := map[origin]int{}
	for _, e := range exps {
		from := origin{e.ID.Step, e.ID.Task}
		i, known := place[from]
		if !known {
			i = len(out)
			place[from] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], e)
	}
	return out
}
