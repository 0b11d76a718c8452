package trainer

import (
	"context"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
)

// unit returns the number of consecutive experiences that must stay in one micro-batch: two if the
// loss compares pairs, else one.
func unit(loss trinity.Loss) int {
	if p, ok := loss.(interface{ Pairs() bool }); ok && p.Pairs() {
		return 2
	}
	return 1
}

// checkPairs returns an error if an experience of an optimizer step has no partner.
func checkPairs(loss trinity.Loss, mini []*trinity.Experience) error {
	if n := len(mini); n%unit(loss) != 0 {
		return fmt.Errorf("the loss compares pairs of experiences, and an optimizer step has an odd number of them: %d; the last is %s",
			n, mini[n-1].ID)
	}
	return nil
}

// probe lets a loss that is a Prober see the whole optimizer step before its micro-batches: it
// computes the token statistics of the probes that the loss chooses. It returns the loss of the
// micro-batches. If the probes are the step and the step is one micro-batch, that loss takes the
// statistics of its own forward pass, because they are the same.
func (u *updater) probe(ctx context.Context, step int64, mini []*trinity.Experience) (trinity.Loss, error) {
	p, ok := u.Loss.(loss.Prober)
	if !ok {
		return u.Loss, nil
	}
	probes := p.Probes(mini)
	if len(probes) == 0 {
		return u.Loss, nil
	}
	if u.compares {
		if err := u.reference(ctx, step, probes); err != nil {
			return nil, err
		}
	}
	whole := &trinity.Batch{Step: step, Experiences: probes, Whole: probes}
	if slices.Equal(probes, mini) {
		micros, err := microBatches(u.Engine, mini, u.microTokens, unit(u.Loss))
		if err != nil {
			return nil, err
		}
		if len(micros) == 1 {
			return &probing{u.Loss, func(now []trinity.TokenStats) error { return p.Prepare(ctx, whole, now) }}, nil
		}
	}
	if now, ok := u.known(probes); ok {
		return u.Loss, p.Prepare(ctx, whole, now)
	}
	var now []trinity.TokenStats
	micros, err := microBatches(u.Engine, probes, u.microTokens, 1)
	if err != nil {
		return nil, err
	}
	for _, micro := range micros {
		stats, err := u.Engine.Forward(ctx, &trinity.Batch{Step: step, Experiences: micro, Whole: probes}, u.Loss.Streams())
		if err != nil {
			return nil, err
		}
		now = append(now, stats...)
	}
	return u.Loss, p.Prepare(ctx, whole, now)
}

// passed is a sequence of a forward pass before the update, with the log-probabilities that the engine has returned.
type passed struct {
	tokens  []int32
	mask    []bool
	logprob []float32
}

// known returns the statistics of probes that a forward pass before the update has computed under the same weights: in the
// first optimizer step, if the probes are the sequences of that pass in its order. The pass then had the same micro-batches,
// so the engine would return the same bits. Of another cut not every engine promises that.
func (u *updater) known(probes []*trinity.Experience) ([]trinity.TokenStats, bool) {
	same := func(was passed, e *trinity.Experience) bool {
		return slices.Equal(was.tokens, e.Tokens) && slices.Equal(was.mask, e.Mask)
	}
	if u.begun != 1 || u.Loss.Streams() != (trinity.Streams{}) || !slices.EqualFunc(u.before, probes, same) {
		return nil, false
	}
	now := make([]trinity.TokenStats, len(probes))
	for i, was := range u.before {
		now[i].Logprob = was.logprob
	}
	return now, true
}

// probing is a loss that is prepared with the statistics of the only micro-batch of a step.
type probing struct {
	of      trinity.Loss
	prepare func(now []trinity.TokenStats) error
}

// Streams implements [trinity.Loss].
func (p *probing) Streams() trinity.Streams { return p.of.Streams() }

// Loss implements [trinity.Loss].
func (p *probing) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	if len(b.Experiences) != len(b.Whole) {
		return nil, nil, fmt.Errorf("the engine gives the loss %d of the %d sequences of a micro-batch", len(b.Experiences), len(b.Whole))
	}
	if err := p.prepare(now); err != nil {
		return nil, nil, err
	}
	return p.of.Loss(b, now)
}
