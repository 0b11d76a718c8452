package trainer

import (
	"context"
	"fmt"

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
// computes the token statistics of the probes that the loss chooses.
func (u *updater) probe(ctx context.Context, step int64, mini []*trinity.Experience) error {
	p, ok := u.Loss.(loss.Prober)
	if !ok {
		return nil
	}
	probes := p.Probes(mini)
	if len(probes) == 0 {
		return nil
	}
	if u.compares {
		if err := u.reference(ctx, step, probes); err != nil {
			return err
		}
	}
	whole := &trinity.Batch{Step: step, Experiences: probes, Whole: probes}
	var now []trinity.TokenStats
	micros, err := microBatches(u.Engine, probes, u.microTokens, 1)
	if err != nil {
		return err
	}
	for _, micro := range micros {
		stats, err := u.Engine.Forward(ctx, &trinity.Batch{Step: step, Experiences: micro, Whole: probes}, u.Loss.Streams())
		if err != nil {
			return err
		}
		now = append(now, stats...)
	}
	return p.Prepare(ctx, whole, now)
}
