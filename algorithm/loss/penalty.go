package loss

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// Penalty is a KL term in the rewards instead of the loss: it subtracts kl_coef times the KL
// estimate from the reward of each trained token (Ouyang et al. 2022). The estimate compares the
// log-probabilities recorded when sampling with those of the reference model.
type Penalty struct {
	KL   KL
	Coef float64 // current kl_coef; it changes if the controller is adaptive
}

// NewPenalty returns a penalty that starts at the controller's kl_coef.
func NewPenalty(kl KL) *Penalty { return &Penalty{KL: kl, Coef: kl.Controller().KLCoef} }

// Of returns the penalty at each token [T] of each sequence of a trainer batch, 0 at tokens that
// are not trained, and two metrics: kl (mean over sequences of the mean over their tokens, nats)
// and kl_coef. It then adapts the coefficient for the next batch.
func (p *Penalty) Of(ctx context.Context, batch []*trinity.Experience) ([][]float64, trinity.Metrics, error) {
	var t tape.Tape
	in := newInput(&t, &trinity.Batch{Experiences: batch, Whole: batch})
	old, err := in.Old()
	if err != nil {
		return nil, nil, err
	}
	ref, err := in.Ref()
	if err != nil {
		return nil, nil, err
	}
	if probes, ok := p.KL.(Prober); ok {
		if err := prepare(ctx, probes, batch); err != nil {
			return nil, nil, err
		}
	}
	estimate := p.KL.Estimate(in, old, ref, &old)
	kl := in.SequenceMean(estimate.SeqMean(nil))
	metrics := trinity.Metrics{"kl": kl, "kl_coef": p.Coef}
	out := unpack[float64](batch, estimate.Scale(p.Coef).Value())
	p.Coef = p.KL.Controller().Next(p.Coef, kl, len(batch))
	return out, metrics, nil
}

// prepare gives a KL function the batch as if it were an optimizer step under the weights that sampled it.
func prepare(ctx context.Context, kl Prober, batch []*trinity.Experience) error {
	probes := kl.Probes(batch)
	if len(probes) == 0 {
		return nil
	}
	before := make([]trinity.TokenStats, len(probes))
	for i, e := range probes {
		before[i].Logprob = e.LogprobsBefore()
	}
	return kl.Prepare(ctx, &trinity.Batch{Experiences: probes, Whole: probes}, before)
}

// lengths returns the number of trained tokens of each sequence.
func lengths(batch []*trinity.Experience) []int {
	n := make([]int, len(batch))
	for i, e := range batch {
		n[i] = e.TrainedTokens()
	}
	return n
}

// unpack writes packed values [n] to the trained tokens of the sequences [T], rounded to F.
func unpack[F float32 | float64](batch []*trinity.Experience, packed []float64) [][]F {
	out := make([][]F, len(batch))
	next := 0
	for i, e := range batch {
		out[i] = make([]F, len(e.Mask))
		for t, trained := range e.Mask {
			if trained {
				out[i][t] = F(packed[next])
				next++
			}
		}
	}
	return out
}
