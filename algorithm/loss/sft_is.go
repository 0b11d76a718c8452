package loss

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// Sft_is is supervised fine-tuning with each token weighted by its probability p = exp(lp) (dynamic
// fine-tuning, Wu et al. 2025). This is the policy gradient of imitation with its importance
// weight, so tokens that the policy finds very unlikely have little effect.
//
//	L = −lp·sg(p)
//
// Metric: sft_is_loss (aggregated).
type sftIS struct {
	Agg `yaml:",inline"`
}

func init() {
	PolicyLosses.Register("sft_is",
		"Supervised fine-tuning, each token weighted by its probability: −lp·sg(p) (dynamic fine-tuning, Wu et al. 2025). Metric: sft_is_loss.",
		func() PolicyLoss { return &sftIS{Agg{TokenMean}} })
}

func (*sftIS) ReadsAdvantages() bool { return false }

func (s *sftIS) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	perToken, err := in.Weigh(in.Logprob.Detach().Exp().Mul(in.Logprob).Neg())
	if err != nil {
		return tape.Stream{}, nil, err
	}
	total := in.Aggregate(s.LossAggMode, perToken, nil)
	return total, trinity.Metrics{"sft_is_loss": total.Scalar()}, nil
}
