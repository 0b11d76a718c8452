package loss

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// Importance_sampling is the off-policy policy gradient without a clip. It is unbiased, and its
// variance grows with the distance between the two policies.
//
//	L = −A·r
//
// Metrics: pg_loss (aggregated); means over trained tokens: ratio/mean (r), approx_kl (−d, nats).
type importanceSampling struct {
	Agg `yaml:",inline"`
}

func init() {
	PolicyLosses.Register("importance_sampling",
		"Off-policy policy gradient by importance sampling: −A·r, r = exp(clamp(lp − old, ±20)), without a clip. Metrics: "+
			"pg_loss, ratio/mean, approx_kl.",
		func() PolicyLoss { return &importanceSampling{Agg{TokenMean}} })
}

func (s *importanceSampling) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	adv, err := in.Advantages()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	d, err := in.LogRatio()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	ratio := d.Exp()
	total := in.Aggregate(s.LossAggMode, adv.Neg().Mul(ratio), nil)
	return total, trinity.Metrics{"pg_loss": total.Scalar(), "ratio/mean": in.Mean(ratio), "approx_kl": -in.Mean(d)}, nil
}
