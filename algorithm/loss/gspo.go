package loss

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// GSPO is group sequence policy optimization (Zheng et al. 2025) in its per-token form. It
// uses the ratio of the whole sequence, the geometric mean of its tokens' ratios. The clip applies
// to this ratio.
//
//	s = clamp(mean_t(lp − old), −20, 20) of the sequence,  r = exp(lp − sg(lp) + sg(s))
//	L = max(−A·r, −A·clip(r, 1 − low, 1 + high))
//
// r has the value exp(s) at every token, and each token keeps its own derivative. The clip range
// applies to a mean over tokens, so it is some thousand times smaller than PPO's: low defaults to
// 0.0003 and high to 0.0004.
//
// Metrics: pg_loss (aggregated); means over trained tokens: pg_clipfrac (share of tokens whose
// clipped value is larger), ppo_kl (old − lp); ppo_kl_seq, the mean of −s over sequences.
//
// Unlike Trinity-RFT: keeps seq-mean-token-mean unless algorithm.loss_agg_mode is set, because
// there a default that nobody wrote (token-mean) replaces the mode of the paper's objective.
type gspo struct {
	Agg  `yaml:",inline"`
	clip `yaml:",inline"`
}

func init() {
	PolicyLosses.Register("gspo",
		"Group sequence policy optimization (Zheng et al. 2025): PPO's clipped loss with the ratio of the whole sequence, "+
			"exp(mean_t(lp − old)), "+
			"clipped to [1 − 0.0003, 1 + 0.0004]; the derivative of a token is its own (GSPO-token). Metrics: pg_loss, "+
			"pg_clipfrac, ppo_kl, ppo_kl_seq.",
		func() PolicyLoss { return &gspo{Agg: Agg{SeqMeanTokenMean}} })
}

// Validate checks ranges and refuses a clip_range that has no effect.
func (g *gspo) Validate() error { return g.clip.check(0) }

func (g *gspo) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	adv, err := in.Advantages()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	old, err := in.Old()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	low, high := g.distances(3e-4, 4e-4)
	logRatio := in.Logprob.Sub(old)
	sequence := bounded(logRatio.SeqMean(nil)).Detach()
	cost, ratio := adv.Neg(), in.Logprob.Sub(in.Logprob.Detach()).Add(sequence.Spread()).Exp()
	unclipped, clipped := cost.Mul(ratio), cost.Mul(ratio.Clamp(1-low, 1+high))
	total := in.Aggregate(g.LossAggMode, unclipped.Max(clipped), nil)
	return total, trinity.Metrics{
		"pg_loss":     total.Scalar(),
		"pg_clipfrac": in.MeanTrue(func(i int) bool { return clipped.Value()[i] > unclipped.Value()[i] }),
		"ppo_kl":      -in.Mean(logRatio),
		"ppo_kl_seq":  -in.SequenceMean(sequence),
	}, nil
}
