package loss

import (
	"errors"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// SAPO is soft adaptive policy optimization (Gao et al. 2025). Instead of a clip it has a gate that
// closes smoothly as the ratio leaves 1.
//
//	f = sigmoid(τ·(r − 1))·4/τ,  τ = tau_pos if A > 0, else tau_neg
//	L = −A·sg(f)·lp,  or with differentiate_gate L = −A·f
//
// The second form is the paper's objective: the weight of a token's derivative is df/dlp = 4·σ(1 −
// σ)·r, which is 1 at r = 1 and falls on both sides. In the first form the weight is f itself: 2/τ
// at r = 1, rising with r to 4/τ, so it damps only tokens that have become unlikely. The first form
// is the default, because Trinity-RFT's sapo uses it.
//
// Metrics: sapo_loss (aggregated); means over trained tokens: ppo_kl (−d), avg_soft_gate (f),
// avg_ratio (r), pos_adv_frac (share with A > 0).
type sapo struct {
	Agg               `yaml:",inline"`
	TauPos            float64 `yaml:"tau_pos" range:"(0,inf]" doc:"steepness of the gate for tokens with a positive advantage"`
	TauNeg            float64 `yaml:"tau_neg" range:"(0,)" doc:"steepness of the gate for A ≤ 0, at least tau_pos: it must close sooner there"`
	DifferentiateGate bool    `yaml:"differentiate_gate" doc:"differentiate −A·gate, as in the paper, not a constant gate times −A·lp"`
}

func init() {
	PolicyLosses.Register("sapo",
		"Soft adaptive policy optimization (Gao et al. 2025): a sigmoid gate of the ratio instead of a clip, steeper for "+
			"negative advantages. By default the gate "+
			"is a constant factor of −A·lp, as in Trinity-RFT; differentiate_gate is the paper's. Metrics: sapo_loss, ppo_kl, "+
			"avg_soft_gate, avg_ratio, pos_adv_frac.",
		func() PolicyLoss { return &sapo{Agg: Agg{TokenMean}, TauPos: 1, TauNeg: 1.05} })
}

// Validate checks ranges.
func (s *sapo) Validate() error {
	if s.TauNeg < s.TauPos {
		return errors.New("tau_neg must be at least tau_pos")
	}
	return nil
}

func (s *sapo) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	adv, err := in.Advantages()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	d, err := in.LogRatio()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	positive := above(adv, 0)
	side := func(pos, neg float64) tape.Stream { return in.Tape.Fill(pos).Where(positive, in.Tape.Fill(neg)) }
	ratio := d.Exp()
	gate := ratio.Plus(-1).Mul(side(s.TauPos, s.TauNeg)).Sigmoid().Mul(side(4/s.TauPos, 4/s.TauNeg))
	gain := gate
	if !s.DifferentiateGate {
		gain = gate.Detach().Mul(in.Logprob)
	}
	total := in.Aggregate(s.LossAggMode, adv.Neg().Mul(gain), nil)
	return total, trinity.Metrics{
		"sapo_loss":     total.Scalar(),
		"ppo_kl":        -in.Mean(d),
		"avg_soft_gate": in.Mean(gate),
		"avg_ratio":     in.Mean(ratio),
		"pos_adv_frac":  in.MeanTrue(func(i int) bool { return positive[i] }),
	}, nil
}

// above reports, per number, whether v > bound.
func above(v tape.Stream, bound float64) []bool {
	yes := make([]bool, len(v.Value()))
	for i, x := range v.Value() {
		yes[i] = x > bound
	}
	return yes
}
