package loss

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// TOPR is tapered off-policy REINFORCE (Le Roux et al. 2025). The policy learns from good tokens in
// full, however unlikely they have become, and from bad tokens only as far as it would still sample
// them.
//
//	L = −sg(α)·A·lp,  α = clip(r, 0, 1) if A ≤ advantage_threshold, else 1
//
// r is the ratio of the token; the paper uses the ratio of the whole answer.
//
// Metrics: topr_loss (aggregated); means over trained tokens: avg_alpha, avg_ratio.
type topr struct {
	Agg                `yaml:",inline"`
	AdvantageThreshold float64 `yaml:"advantage_threshold" range:"[-inf,inf]" doc:"up to this, tokens are weighted by their ratio, at most 1"`
}

func init() {
	PolicyLosses.Register("topr",
		"Tapered off-policy REINFORCE (Le Roux et al. 2025): −A·lp, where A is not above advantage_threshold times sg(clip(r, 0, 1)). "+
			"Metrics: topr_loss, avg_alpha, avg_ratio.",
		func() PolicyLoss { return &topr{Agg: Agg{TokenMean}} })
}

func (o *topr) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	adv, err := in.RawAdvantages() // compared with a threshold, so not to be scaled
	if err != nil {
		return tape.Stream{}, nil, err
	}
	d, err := in.LogRatio()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	ratio := d.Detach().Exp()
	alpha := in.Tape.Fill(1).Where(above(adv, o.AdvantageThreshold), ratio.Clamp(0, 1))
	perToken, err := in.Weigh(alpha.Mul(adv).Mul(in.Logprob).Neg())
	if err != nil {
		return tape.Stream{}, nil, err
	}
	total := in.Aggregate(o.LossAggMode, perToken, nil)
	return total, trinity.Metrics{"topr_loss": total.Scalar(), "avg_alpha": in.Mean(alpha), "avg_ratio": in.Mean(ratio)}, nil
}
