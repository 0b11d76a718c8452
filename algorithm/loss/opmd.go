package loss

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// OPMD is online policy mirror descent in the form of a policy gradient (after Kimi k1.5, Kimi Team
// 2025): REINFORCE divided by 1 plus the temperature τ of the regularized problem. It does not
// depend on the policy that sampled the tokens.
//
//	L = −A·lp / (1 + τ)
//
// Metric: opmd_loss (aggregated).
type opmd struct {
	Agg `yaml:",inline"`
	Tau float64 `yaml:"tau" range:"[0,)" doc:"temperature of the regularization; the loss is divided by 1 plus this"`
}

func init() {
	PolicyLosses.Register("opmd",
		"Online policy mirror descent as a policy gradient (after Kimi k1.5, 2025): −A·lp/(1 + tau), without ratios. Metric: opmd_loss.",
		func() PolicyLoss { return &opmd{Agg{TokenMean}, 1} })
}

func (o *opmd) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	adv, err := in.Advantages()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	total := in.Aggregate(o.LossAggMode, adv.Mul(in.Logprob).Scale(-1/(1+o.Tau)), nil)
	return total, trinity.Metrics{"opmd_loss": total.Scalar()}, nil
}
