package loss

import (
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// Sft_phi is supervised fine-tuning with each token weighted by φ = p·(1 − p), p = exp(lp)
// (CHORD-φ, Zhang et al. 2025). The policy learns most from tokens about which it is undecided, and
// little from tokens that it knows or finds very unlikely.
//
//	L = −min(lp, log(cutoff_prob))·sg(p·(1 − p))
//
// A token above cutoff_prob has derivative 0. Metric: sft_phi_loss (aggregated).
type sftPhi struct {
	Agg        `yaml:",inline"`
	CutoffProb float64 `yaml:"cutoff_prob" range:"(0,1]" doc:"do not learn tokens that are more probable than this; 1 learns all"`
}

func init() {
	PolicyLosses.Register("sft_phi",
		"Supervised fine-tuning, each token weighted by how undecided the policy is: −lp·sg(p·(1 − p)) (CHORD-φ, Zhang et al. "+
			"2025). Metric: sft_phi_loss.",
		func() PolicyLoss { return newSFTPhi(TokenMean) })
}

func newSFTPhi(mode AggMode) *sftPhi { return &sftPhi{Agg: Agg{mode}, CutoffProb: 1} }

func (*sftPhi) ReadsAdvantages() bool { return false }

func (s *sftPhi) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	lp, p := in.Logprob, in.Logprob.Detach().Exp()
	if s.CutoffProb < 1 {
		lp = lp.Clamp(math.Inf(-1), math.Log(s.CutoffProb))
	}
	perToken, err := in.Weigh(p.Mul(p.Neg().Plus(1)).Mul(lp).Neg())
	if err != nil {
		return tape.Stream{}, nil, err
	}
	total := in.Aggregate(s.LossAggMode, perToken, nil)
	return total, trinity.Metrics{"sft_phi_loss": total.Scalar()}, nil
}
