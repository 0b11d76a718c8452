package advantage

import (
	"cmp"
	"context"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// Clipv is GRPO's advantage with the vocabulary-normalised entropy clip (Clip_V, Wang et al. 2026).
// It is like clipb, but compares the discriminator S of a token with its mean over the vocabulary
// at the same position, as a whole policy-gradient step does (theorem 3.3).
//
//	D = Σ_v p_v²·(H + ln p_v) − S, with S as in clipb
//	clipped: A < 0 and D > μ·std, with the std (over n) of D over all trained tokens of the batch
//
// The sum and H are of the policy before the update. If the trainer computes log-probabilities
// (bypass_old_logprobs: false), the p of S is of this policy too. Otherwise p is the probability
// with which the token was sampled, as in clipb.
//
// At most the share max_frac of the trained tokens is clipped, rounded down but at least one: those
// with the largest D. Clipped tokens leave the mask. A is that of grpo with its defaults.
//
// Metrics: those of grpo; frac_clipped, frac_clipped_pos and frac_clipped_neg as in clipb; stdD.
//
// Unlike Trinity-RFT: only tokens with A < 0 are clipped, because removing a token with A = 0
// changes only the divisor of the loss; and the smallest std is that of clipb.
type clipV struct {
	Mu      float64 `yaml:"mu" range:"[0,inf]" doc:"how many standard deviations D may lie above 0"`
	MaxFrac float64 `yaml:"max_frac" range:"[0,1]" doc:"largest share of trained tokens to clip; one token may always be clipped"`
	Epsilon float64 `yaml:"epsilon" range:"(0,)" doc:"added to the standard deviation of rewards"`
}

func init() {
	registry.Advantages.Register("clipv",
		"GRPO's advantage, without the tokens of negative advantage whose entropy discriminator p·(H + ln p) lies farthest "+
			"below its mean over the vocabulary (Clip_V, Wang et al. 2026), "+
			"which slows the loss of entropy. Drops rollouts without a valid reward.",
		func() trinity.Advantage { return &clipV{Mu: 8.5, MaxFrac: 1e-4, Epsilon: 1e-6} })
}

// Needs implements trinity.Advantage.
func (*clipV) Needs() trinity.Needs {
	return trinity.Needs{Batch: true, Group: true, Entropies: true, Discriminators: true}
}

// Advantages implements trinity.Advantage.
func (a *clipV) Advantages(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	kept, batch, metrics, err := groupRelative(ctx, groups, a.Epsilon)
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

// violators returns the indices of the tokens to clip.
func (a *clipV) violators(tokens []clipToken, d func(clipToken) float64, std float64) map[int]bool {
	if std < rounding {
		return nil
	}
	var over []int
	for i, t := range tokens {
		if t.advantage < 0 && d(t) > a.Mu*std {
			over = append(over, i)
		}
	}
	slices.SortFunc(over, func(i, j int) int { // break ties by position, so the order of the batch does not matter
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
