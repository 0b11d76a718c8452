package advantage

import (
	"errors"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// ClipB is GRPO's advantage with the batch-normalised entropy clip (Wang et al. 2026, Clip_B): of what went badly, the tokens whose
// punishment would take the most entropy from the policy are not trained on.
//
//	S = p·(H + ln p), with p the probability of the token when it was sampled and H the entropy of the policy there
//	kept: A ≥ 0, or S − mean ≥ −μ·std, with mean and std (over n) of S over all trained tokens of the batch
//
// Punishing a token moves the entropy by +S to first order, so a token with low S, unlikely where the policy was sure of something else,
// lowers it. Clipped tokens leave the mask: the loss neither sees them nor divides by them. A is as of [GRPO] with its defaults.
//
// Metrics: those of [GRPO], frac_clipped (share of trained tokens), frac_clipped_pos and frac_clipped_neg (share of those with A > 0 and
// A < 0), ES and varS (mean and variance of S).
type ClipB struct {
	Mu      float64 `yaml:"mu" doc:"how many standard deviations below the mean S may lie"`
	Epsilon float64 `yaml:"epsilon" doc:"added to the standard deviation of rewards"`
}

func init() {
	registry.Advantages.Register("clipb", "GRPO's advantage, without tokens of negative advantage whose entropy discriminator p·(H + ln p) lies more than mu standard deviations below the batch's mean (Clip_B, Wang et al. 2026), "+
		"which slows the loss of entropy. Rollouts without a valid reward are left out.",
		func() trinity.Advantage { return &ClipB{Mu: 2.5, Epsilon: 1e-6} })
}

// Validate checks ranges.
func (a *ClipB) Validate() error {
	if !(a.Mu >= 0) {
		return errors.New("mu must not be negative")
	}
	return checkEpsilon(a.Epsilon)
}

// Needs implements trinity.TrainerAdvantage.
func (*ClipB) Needs() trinity.Needs { return trinity.Needs{Entropies: true} }

// ComparesRollouts implements trinity.GroupAdvantage.
func (*ClipB) ComparesRollouts() bool { return true }

// Advantages implements trinity.Advantage.
func (a *ClipB) Advantages(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	kept, batch, metrics, err := groupRelative(groups, a.Epsilon)
	if err != nil {
		return nil, nil, err
	}
	tokens, err := clipTokens(batch, func(e *trinity.Experience) []float32 { return e.Logprobs })
	if err != nil {
		return nil, nil, err
	}
	center, std := momentsOf(tokens, func(t clipToken) float64 { return t.s })
	clip(tokens, func(i int) bool { return tokens[i].advantage < 0 && tokens[i].s-center < -a.Mu*std }, metrics)
	metrics["ES"], metrics["varS"] = center, std*std
	return kept, metrics, nil
}
