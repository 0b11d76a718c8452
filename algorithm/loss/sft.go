package loss

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// SFT is the negative log-likelihood of the trained tokens, −lp, aggregated. Metric: sft_loss, nats
// per token with token-mean.
type sft struct {
	Agg `yaml:",inline"`
}

func init() {
	PolicyLosses.Register("sft",
		"Supervised fine-tuning: the negative log-likelihood −lp of the trained tokens (cross-entropy with the demonstration). Metric: sft_loss.",
		func() PolicyLoss { return &sft{Agg{TokenMean}} })
}

func (*sft) ReadsAdvantages() bool { return false }

func (s *sft) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	perToken, err := in.Weigh(in.Logprob.Neg())
	if err != nil {
		return tape.Stream{}, nil, err
	}
	total := in.Aggregate(s.LossAggMode, perToken, nil)
	return total, trinity.Metrics{"sft_loss": total.Scalar()}, nil
}
