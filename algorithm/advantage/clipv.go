package advantage

import (
	"cmp"
	"errors"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// ClipV is GRPO's advantage with the vocabulary-normalised entropy clip (Wang et al. 2026, Clip_V): as [ClipB], but a token's discriminator S is
// held against its mean over the vocabulary at the same place, which is what a whole policy-gradient step compares it with (theorem 3.3).
//
//	D = Σ_v p_v²·(H + ln p_v) − S, with S as of [ClipB]
//	clipped: A < 0 and D > μ·std, with the std (over n) of D over all trained tokens of the batch
//
// The sum and H are of the policy before the update. So is the p of S where the trainer computes log-probabilities (bypass_old_logprobs: false);
// else it is the probability with which the token was sampled, as in [ClipB].
//
// At most the share max_frac of the trained tokens is clipped, rounded down but at least one: those with the largest D. Clipped tokens leave
// the mask. A is as of [GRPO] with its defaults.
//
// Metrics: those of [GRPO], frac_clipped, frac_clipped_pos and frac_clipped_neg as of [ClipB], and stdD.
//
// Unlike Trinity-RFT: only tokens with A < 0 are clipped, because taking out one with A = 0 changes nothing but what the loss divides by.
type ClipV struct {
	Mu      float64 `yaml:"mu" doc:"how many standard deviations D may be above 0"`
	MaxFrac float64 `yaml:"max_frac" doc:"largest share of trained tokens that is clipped; one token always may be"`
	Epsilon float64 `yaml:"epsilon" doc:"added to the standard deviation of rewards"`
}

// sameD is the std below which all D count as equal: nothing stands out.
const sameD = 1e-12

func init() {
	registry.Advantages.Register("clipv", "GRPO's advantage, without the tokens of negative advantage whose entropy discriminator p·(H + ln p) lies farthest below its mean over the vocabulary (Clip_V, Wang et al. 2026), "+
		"which slows the loss of entropy. Rollouts without a valid reward are left out.",
		func() trinity.Advantage { return &ClipV{Mu: 8.5, MaxFrac: 1e-4, Epsilon: 1e-6} })
}

// Validate checks ranges.
func (a *ClipV) Validate() error {
	switch {
	case !(a.Mu >= 0):
		return errors.New("mu must not be negative")
	case !(a.MaxFrac >= 0 && a.MaxFrac <= 1):
		return errors.New("max_frac must be in [0, 1]")
	}
	return checkEpsilon(a.Epsilon)
}

// Needs implements trinity.TrainerAdvantage.
func (*ClipV) Needs() trinity.Needs { return trinity.Needs{Entropies: true, Discriminators: true} }

// ComparesRollouts implements trinity.GroupAdvantage.
func (*ClipV) ComparesRollouts() bool { return true }

// Advantages implements trinity.Advantage.
func (a *ClipV) Advantages(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	kept, batch, metrics, err := groupRelative(groups, a.Epsilon)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range batch {
		if err := needed(e, "discriminators", "of the policy before the update", e.Discriminators); err != nil {
			return nil, nil, err
		}
	}
	tokens, err := clipTokens(batch, (*trinity.Experience).LogprobsBefore)
	if err != nil {
		return nil, nil, err
	}
	d := func(t clipToken) float64 { return float64(t.of.Discriminators[t.place]) - t.s }
	_, std := momentsOf(tokens, d)
	out := a.violators(tokens, d, std)
	clip(tokens, func(i int) bool { return out[i] }, metrics)
	metrics["stdD"] = std
	return kept, metrics, nil
}

// violators are the tokens to clip.
func (a *ClipV) violators(tokens []clipToken, d func(clipToken) float64, std float64) map[int]bool {
	if std < sameD {
		return nil
	}
	var over []int
	for i, t := range tokens {
		if t.advantage < 0 && d(t) > a.Mu*std {
			over = append(over, i)
		}
	}
	slices.SortFunc(over, func(i, j int) int { // ties by place, so that the order of the batch decides nothing
		x, y := tokens[i], tokens[j]
		return cmp.Or(cmp.Compare(d(y), d(x)), cmp.Compare(x.of.ID.String(), y.of.ID.String()), cmp.Compare(x.place, y.place))
	})
	most := max(1, int(a.MaxFrac*float64(len(tokens))))
	out := map[int]bool{}
	for _, i := range over[:min(len(over), most)] {
		out[i] = true
	}
	return out
}
