package trainer

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
)

// unit is how many consecutive experiences no micro-batch may part: two where the loss compares pairs.
func unit(loss trinity.Loss) int {
	if p, ok := loss.(interface{ Pairs() bool }); ok && p.Pairs() {
		return 2
	}
	return 1
}

// checkPairs refuses an optimizer step of which one experience has no partner.
func checkPairs(loss trinity.Loss, mini []*trinity.Experience) error {
	if n := len(mini); n%unit(loss) != 0 {
		return fmt.Errorf("the loss compares experiences two by two, and an optimizer step has %d of them: an odd number; the last is %s", n, mini[n-1].ID)
	}
	return nil
}

// look shows a loss that asks for it what it must know of the whole optimizer step.
func (l *learner) look(ctx context.Context, step int64, mini []*trinity.Experience) error {
	p, ok := l.loss.(trinity.Prober)
	if !ok {
		return nil
	}
	probes := p.Probes(mini)
	if len(probes) == 0 {
		return nil
	}
	if l.compares {
		if err := l.reference(ctx, step, probes); err != nil {
			return err
		}
	}
	var now []trinity.TokenStats
	micros, err := microBatches(l.engine, probes, l.microTokens, 1)
	if err != nil {
		return err
	}
	for _, micro := range micros {
		stats, err := l.engine.Forward(ctx, &trinity.Batch{Step: step, Experiences: micro, Whole: probes}, l.loss.Streams())
		if err != nil {
			return err
		}
		now = append(now, stats...)
	}
	return p.Prepare(probes, now)
}
