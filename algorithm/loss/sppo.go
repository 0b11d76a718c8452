package loss

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// SPPO is PPO over log-ratios (sPPO, Vaswani et al. 2022): the surrogate of softmax policies, where
// the gain is the log-ratio.
//
//	L = −A·d if 1/(1 + ε) ≤ r ≤ 1 + ε, else 0
//
// The band stops a token on both sides, whatever the sign of its advantage. The divisor of the loss
// stays the same.
//
// Metrics: pg_loss (aggregated), pg_clipfrac (share of trained tokens outside the band).
type sppo struct {
	Agg     `yaml:",inline"`
	Epsilon float64 `yaml:"epsilon" range:"(0,inf]" doc:"a token counts while its ratio is between 1/(1 + this) and 1 + this"`
}

func init() {
	PolicyLosses.Register("sppo",
		"Softmax PPO (sPPO, Vaswani et al. 2022): −A·(lp − old) for tokens with a ratio within 1/(1 + epsilon) … 1 + epsilon. "+
			"Metrics: pg_loss, pg_clipfrac.",
		func() PolicyLoss { return &sppo{Agg{TokenMean}, 0.3} })
}

func (s *sppo) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	adv, err := in.Advantages()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	d, err := in.LogRatio()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	kept := s.keeps(d.Exp().Value())
	total := in.Aggregate(s.LossAggMode, adv.Neg().Mul(d).Where(kept, in.Tape.Fill(0)), nil)
	return total, trinity.Metrics{
		"pg_loss":     total.Scalar(),
		"pg_clipfrac": in.MeanTrue(func(i int) bool { return !kept[i] }),
	}, nil
}

// keeps reports, per token, whether its ratio is inside the band.
func (s *sppo) keeps(ratio []float64) []bool {
	kept := make([]bool, len(ratio))
	for i, r := range ratio {
		kept[i] = r >= 1/(1+s.Epsilon) && r <= 1+s.Epsilon
	}
	return kept
}
