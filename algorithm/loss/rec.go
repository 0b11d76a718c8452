package loss

import (
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// REC is the family of REINFORCE with clipping (Yao et al. 2025). It takes group-relative policy
// gradients apart: you choose separately which tokens count, how they are weighted, and what
// regularizes the policy.
//
//	L = −W·lp·keep + regularizer,  W = weight(A) without a derivative
//
// clip_mode chooses the tokens to keep (lo, hi, lo', hi' are epsilon_low, epsilon_high,
// epsilon_low_prime, epsilon_high_prime):
//
//   - none: all tokens.
//   - one-side: A ≥ 0 and r ≤ 1 + hi, or A ≤ 0 and r ≥ 1 − lo; the tokens to which PPO's clip
//     leaves a derivative.
//   - two-side: 1 − lo ≤ r ≤ 1 + hi, whatever the sign of A.
//   - ring: two-side, or A ≥ 0 and r ≤ 1 − lo', or A ≤ 0 and r ≥ 1 + hi'.
//   - gspo-one-side: one-side with the ratio of the sequence, exp(mean_t(lp − old)).
//
// weight defines W: none is A; importance_sampling is A·r; truncated_importance_sampling is
// A·clip(r, 1 − lo', 1 + hi'); gspo_importance_sampling is A times the ratio of the sequence;
// advantage is A·exp(A/temp).
//
// regularizer, times regularizer_coef, covers all tokens, kept or not: k2 is (lp − old)² (without
// ½, as in Kimi k1.5); forward-kl is −lp.
//
// With fix_opd_advantage A is A + old − sg(lp): it updates the advantage of on-policy distillation,
// teacher − old, to the current policy.
//
// Metrics: pg_loss (aggregated, including the regularizer), pg_clipfrac (share of trained tokens
// that are not kept).
//
// Unlike Trinity-RFT: weight gspo_importance_sampling without clip_mode gspo-one-side is refused
// when the configuration is read, because then there is no ratio of the sequence and training would
// fail in its first step. And gspo-one-side uses seq-mean-token-mean only if no loss_agg_mode is
// set, because it must not override a setting.
type rec struct {
	LossAggMode      string  `yaml:"loss_agg_mode" doc:"as of other losses; empty is the default of clip_mode"`
	EpsilonLow       float64 `yaml:"epsilon_low" range:"(0,1]" doc:"lo: distance below 1 at which a ratio is clipped"`
	EpsilonHigh      float64 `yaml:"epsilon_high" range:"(0,inf]" doc:"hi: distance above 1 at which a ratio is clipped"`
	EpsilonLowPrime  float64 `yaml:"epsilon_low_prime" range:"(0,1]" doc:"lo': outer distance below 1 of ring and truncated weights"`
	EpsilonHighPrime float64 `yaml:"epsilon_high_prime" range:"(0,inf]" doc:"hi': outer distance above 1 of ring and truncated weights"`
	ClipMode         string  `yaml:"clip_mode" enum:"none|one-side|two-side|ring|gspo-one-side" doc:"which tokens count"`
	Weight           weight  `yaml:"weight" doc:"what the advantage becomes before it weights a token"`
	Regularizer      string  `yaml:"regularizer" enum:"none|k2|forward-kl" doc:"what regularizes the policy"`
	RegularizerCoef  float64 `yaml:"regularizer_coef" range:"[0,)" doc:"weight of the regularizer"`
	Temp             float64 `yaml:"temp" range:"(0,inf]" doc:"temperature of weight advantage: the lower, the more the best tokens count"`
	FixOPDAdvantage  bool    `yaml:"fix_opd_advantage" doc:"add old − lp to the advantage, for the advantages of on-policy distillation"`
}

// weight names what rec makes of the advantage.
type weight string

// Values lists the weights.
func (weight) Values() []string {
	return []string{"none", "importance_sampling", "truncated_importance_sampling", "gspo_importance_sampling", "advantage"}
}

func init() {
	PolicyLosses.Register("rec",
		"REINFORCE with clipping (Yao et al. 2025): −W·lp over the tokens that clip_mode keeps (none, one-side, two-side, "+
			"ring, gspo-one-side), W being A times what "+
			"weight says, and a regularizer. loss_agg_mode is token-mean where it is not set, with gspo-one-side "+
			"seq-mean-token-mean. Metrics: pg_loss, pg_clipfrac.",
		func() PolicyLoss {
			return &rec{EpsilonLow: 0.2, EpsilonHigh: 0.2, EpsilonLowPrime: 0.6, EpsilonHighPrime: 2, ClipMode: "none",
				Weight: "none", Regularizer: "none", Temp: 1}
		})
}

// Validate checks ranges and names.
func (r *rec) Validate() error {
	switch {
	case r.Weight == "gspo_importance_sampling" && r.ClipMode != "gspo-one-side":
		return fmt.Errorf("weight gspo_importance_sampling needs the ratio of the sequence, which clip_mode %s does not "+
			"compute: set clip_mode: gspo-one-side", r.ClipMode)
	case r.Regularizer == "none" && r.RegularizerCoef != 0:
		return errors.New("regularizer_coef has no effect without a regularizer: set regularizer or remove it")
	}
	return r.aggregates().Check()
}

func (r *rec) aggregation() *AggMode { return (*AggMode)(&r.LossAggMode) }

// aggregates returns loss_agg_mode, or its default, which depends on clip_mode.
func (r *rec) aggregates() AggMode {
	switch {
	case r.LossAggMode != "":
		return AggMode(r.LossAggMode)
	case r.ClipMode == "gspo-one-side":
		return SeqMeanTokenMean
	}
	return TokenMean
}

func (r *rec) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	adv, err := in.RawAdvantages() // the weight need not be proportional to it
	if err != nil {
		return tape.Stream{}, nil, err
	}
	old, err := in.Old()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	logRatio := in.Logprob.Sub(old)
	if r.FixOPDAdvantage {
		adv = adv.Sub(logRatio.Detach())
	}
	ratio := bounded(logRatio).Detach().Exp()
	clipped := ratio
	if r.ClipMode == "gspo-one-side" {
		clipped = bounded(logRatio.SeqMean(nil)).Detach().Spread().Exp()
	}
	kept := r.keeps(adv.Value(), clipped.Value())
	perToken := r.weigh(adv, ratio, clipped).Mul(in.Logprob).Neg().Where(kept, in.Tape.Fill(0))
	switch r.Regularizer {
	case "k2":
		perToken = perToken.Add(logRatio.Square().Scale(r.RegularizerCoef))
	case "forward-kl":
		perToken = perToken.Sub(in.Logprob.Scale(r.RegularizerCoef))
	}
	if perToken, err = in.Weigh(perToken); err != nil {
		return tape.Stream{}, nil, err
	}
	total := in.Aggregate(r.aggregates(), perToken, nil)
	return total, trinity.Metrics{
		"pg_loss":     total.Scalar(),
		"pg_clipfrac": in.MeanTrue(func(i int) bool { return !kept[i] }),
	}, nil
}

// weigh returns W. ratio is the ratio of each token; clip_mode compares clipped.
func (r *rec) weigh(adv, ratio, clipped tape.Stream) tape.Stream {
	switch r.Weight {
	case "importance_sampling":
		return adv.Mul(ratio)
	case "gspo_importance_sampling":
		return adv.Mul(clipped)
	case "truncated_importance_sampling":
		return adv.Mul(ratio.Clamp(1-r.EpsilonLowPrime, 1+r.EpsilonHighPrime))
	case "advantage":
		return adv.Mul(bounded(adv.Scale(1 / r.Temp)).Exp())
	}
	return adv
}

// keeps reports, per token, whether clip_mode keeps it.
func (r *rec) keeps(adv, ratio []float64) []bool {
	kept := make([]bool, len(adv))
	for i, x := range ratio {
		good, bad := adv[i] >= 0, adv[i] <= 0
		within := x >= 1-r.EpsilonLow && x <= 1+r.EpsilonHigh
		switch r.ClipMode {
		case "one-side", "gspo-one-side":
			kept[i] = good && x <= 1+r.EpsilonHigh || bad && x >= 1-r.EpsilonLow
		case "two-side":
			kept[i] = within
		case "ring":
			kept[i] = within || good && x <= 1-r.EpsilonLowPrime || bad && x >= 1+r.EpsilonHighPrime
		default:
			kept[i] = true
		}
	}
	return kept
}
