package loss

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/tape"
)

// Penalty is a KL term in the rewards instead of the loss: each trained token's reward is lower by kl_coef times the KL estimate at it
// (Ouyang et al. 2022). The estimate compares the log-probabilities recorded when sampling with those of the reference.
type Penalty struct {
	KL   KL
	Coef float64 // now; it moves if the controller is adaptive
}

// NewPenalty starts at the controller's kl_coef.
func NewPenalty(kl KL) *Penalty { return &Penalty{KL: kl, Coef: kl.Controller().KLCoef} }

// Of returns the penalty at each token [T] of each sequence of a trainer batch, 0 where a token is not trained on, and the metrics kl (mean
// over sequences of the mean over their tokens, nats) and kl_coef. An adaptive coefficient then moves for the next batch.
func (p *Penalty) Of(batch []*trinity.Experience) ([][]float64, trinity.Metrics, error) {
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
	estimate := p.KL.Estimate(old, ref, &old)
	kl := in.SequenceMean(estimate.SeqMean(nil))
	metrics := trinity.Metrics{"kl": kl, "kl_coef": p.Coef}
	out := unpack[float64](batch, estimate.Scale(p.Coef).Value())
	p.Coef = p.KL.Controller().Next(p.Coef, kl, len(batch))
	return out, metrics, nil
}

// lengths counts the trained tokens of each sequence.
func lengths(batch []*trinity.Experience) []int {
	n := make([]int, len(batch))
	for i, e := range batch {
		n[i] = e.TrainedTokens()
	}
	return n
}

// unpack spreads packed values [n] over the trained tokens of sequences [T], rounded to what F holds.
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
