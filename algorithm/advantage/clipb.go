package advantage

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// Clipb is GRPO's advantage with the batch-normalised entropy clip (Clip_B, Wang et al. 2026). In
// rollouts with a negative advantage, it masks the tokens whose punishment would reduce the
// policy's entropy most.
//
//	S = p·(H + ln p)
//	kept: A ≥ 0, or S − mean ≥ −μ·std, with mean and std (over n) of S; all if std < 2⁻²³
//
// p is the probability of the token when it was sampled, and H is the policy's entropy there. mean
// and std cover all trained tokens of the batch.
//
// Punishing a token changes the entropy by +S to first order. So a token with low S, unlikely where
// the policy was sure of another token, lowers the entropy. Clipped tokens leave the mask: the loss
// neither sees them nor divides by them. A is that of grpo with its defaults. A std below 2⁻²³ comes
// from rounding p and H to float32.
//
// Metrics: those of grpo; frac_clipped (share of trained tokens); frac_clipped_pos and
// frac_clipped_neg (share of the tokens with A > 0 and A < 0); ES and varS (mean and variance of
// S).
//
// Unlike Trinity-RFT: the smallest std is 2⁻²³ instead of 10⁻¹², because deviations of rounding are
// larger than that.
type clipB struct {
	Mu      float64 `yaml:"mu" range:"[0,inf]" doc:"how many standard deviations S may lie below the mean"`
	Epsilon float64 `yaml:"epsilon" range:"(0,)" doc:"added to the standard deviation of rewards"`
}

func init() {
	registry.Advantages.Register("clipb",
		"GRPO's advantage, without tokens of negative advantage whose entropy discriminator p·(H + ln p) lies more than mu "+
			"standard deviations below the batch's mean (Clip_B, Wang et al. 2026), "+
			"which slows the loss of entropy. Drops rollouts without a valid reward.",
		func() trinity.Advantage { return &clipB{Mu: 2.5, Epsilon: 1e-6} })
}

// Needs implements trinity.Advantage.
func (*clipB) Needs() trinity.Needs { return trinity.Needs{Batch: true, Group: true, Entropies: true} }

// Advantages implements trinity.Advantage.
func (a *clipB) Advantages(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	kept, batch, metrics, err := groupRelative(ctx, groups, a.Epsilon)
	if err != nil {
		return nil, nil, err
	}
	tokens, err := clipTokens(batch, func(e *trinity.Experience) []float32 { return e.Logprobs })
	if err != nil {
		return nil, nil, err
	}
	center, std := momentsOf(tokens, func(t clipToken) float64 { return t.s })
	clip(tokens, func(i int) bool {
		return std >= rounding && tokens[i].advantage < 0 && tokens[i].s-center < -a.Mu*std
	}, metrics)
	metrics["ES"], metrics["varS"] = center, std*std
	return kept, metrics, nil
}
