package loss

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// PPO is the clipped surrogate of proximal policy optimization (Schulman et al. 2017, eq. 7) with a
// dual clip (Ye et al. 2020) and the sequence masking of DeepSeek-V3.2.
//
//	d  = clamp(lp − old, −20, 20),  r = exp(d)
//	L1 = −A·r,  L2 = −A·clip(r, 1 − low, 1 + high),  L3 = −A·c
//	L  = max(L1, L2);  if A < 0: min(L, L3)
//
// With sequence masking, L is 0 at tokens with A < 0 of a sequence whose mean of −d exceeds delta.
// The divisor of the loss stays the same. With fallback_to_policy_gradient d = lp − sg(lp), so r =
// 1 and the gradient is that of −A·lp, whatever log-probabilities were recorded.
//
// Metrics, means over trained tokens: pg_loss (the aggregated loss), pg_clipfrac (L2 > L1),
// pg_clipfrac_lower (max(L1, L2) > L3 and A < 0), ppo_kl (−d). With sequence masking also
// seq_mask/masked_tokens (share of trained tokens) and seq_mask/mean_sequence_kl (mean over
// sequences of the mean of −d).
type ppo struct {
	Agg                      `yaml:",inline"`
	clip                     `yaml:",inline"`
	ClipRatioC               float64 `yaml:"clip_ratio_c" range:"(1,inf]" doc:"dual clip: the loss is at most −A times this where A < 0"`
	EnableSequenceMasking    bool    `yaml:"enable_sequence_masking" doc:"mask tokens with A < 0 in sequences that the policy has left"`
	DeltaSequenceMasking     float64 `yaml:"delta_sequence_masking" range:"[0,inf]" doc:"least mean old − lp of a sequence that was left"`
	FallbackToPolicyGradient bool    `yaml:"fallback_to_policy_gradient" doc:"set every ratio to 1: plain policy gradient"`
}

const (
	defaultClipRange  = 0.2
	defaultClipRatioC = 3
)

func init() {
	PolicyLosses.Register("ppo",
		"Clipped surrogate of PPO (Schulman et al. 2017) with dual clip (Ye et al. 2020): max(−A·r, −A·clip(r, 1−low, 1+high)), "+
			"at most −A·clip_ratio_c where A < 0, with r = exp(clamp(lp − old, ±20)). Optional masking of whole sequences that have drifted "+
			"(DeepSeek-V3.2). Metrics: pg_loss, pg_clipfrac, pg_clipfrac_lower, ppo_kl, seq_mask/masked_tokens, seq_mask/mean_sequence_kl.",
		func() PolicyLoss {
			return &ppo{Agg: Agg{TokenMean}, clip: usualClip(), ClipRatioC: defaultClipRatioC, DeltaSequenceMasking: 0.1}
		})
}

// usualClip returns the clip range of PPO.
func usualClip() clip { return clip{ClipRange: new(defaultClipRange)} }

// Validate checks ranges and refuses a clip_range that has no effect.
func (p *ppo) Validate() error { return p.clip.check(defaultClipRange) }

func (p *ppo) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	adv, err := in.Advantages()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	d, err := p.logRatio(in)
	if err != nil {
		return tape.Stream{}, nil, err
	}
	low, high := p.distances(defaultClipRange, defaultClipRange)
	cost, ratio := adv.Neg(), d.Exp()
	unclipped := cost.Mul(ratio)
	clipped := cost.Mul(ratio.Clamp(1-low, 1+high))
	upper := unclipped.Max(clipped)
	bound := cost.Scale(p.ClipRatioC)

	negative := below(adv, 0)
	perToken := upper.Min(bound).Where(negative, upper)
	metrics := trinity.Metrics{
		"ppo_kl":      -in.Mean(d),
		"pg_clipfrac": in.MeanTrue(func(i int) bool { return clipped.Value()[i] > unclipped.Value()[i] }),
		"pg_clipfrac_lower": in.MeanTrue(func(i int) bool {
			return negative[i] && upper.Value()[i] > bound.Value()[i]
		}),
	}
	if p.EnableSequenceMasking {
		perToken = p.maskSequences(in, perToken, d, negative, metrics)
	}
	total := in.Aggregate(p.LossAggMode, perToken, nil)
	metrics["pg_loss"] = total.Scalar()
	return total, metrics, nil
}

// logRatio returns d.
func (p *ppo) logRatio(in *Input) (tape.Stream, error) {
	if p.FallbackToPolicyGradient {
		return in.Logprob.Sub(in.Logprob.Detach()), nil
	}
	return in.LogRatio()
}

// maskSequences sets the loss of masked tokens to 0 and records the metrics of sequence masking.
func (p *ppo) maskSequences(in *Input, perToken, d tape.Stream, negative []bool, metrics trinity.Metrics) tape.Stream {
	drift := d.Detach().SeqMean(nil).Neg()
	spread := drift.Spread().Value()
	kept := make([]bool, len(negative))
	for i := range kept {
		kept[i] = !(negative[i] && spread[i] > p.DeltaSequenceMasking)
	}
	metrics["seq_mask/masked_tokens"] = in.MeanTrue(func(i int) bool { return !kept[i] })
	metrics["seq_mask/mean_sequence_kl"] = in.SequenceMean(drift)
	return perToken.Where(kept, in.Tape.Fill(0))
}

// below reports, per number, whether v < bound.
func below(v tape.Stream, bound float64) []bool {
	yes := make([]bool, len(v.Value()))
	for i, x := range v.Value() {
		yes[i] = x < bound
	}
	return yes
}
