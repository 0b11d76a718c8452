package advantage

import (
	"context"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
)

// clipToken is a trained token of a batch for the entropy clips. Raising its logit by ε lowers the
// entropy H of the next-token distribution by ε·S to first order, with S = p·(H + ln p) (Wang et
// al. 2026, theorem 3.2).
type clipToken struct {
	of        *trinity.Experience
	place     int     // index in the experience's tokens
	advantage float64 // A
	s         float64 // S, nats
}

// rounding is the resolution of float32, the type of log-probabilities and entropies. Values with a
// smaller std count as equal, so that no token is clipped.
const rounding = 0x1p-23

// clipTokens returns the trained tokens of a batch that has advantages and entropies. p is exp of
// the given log-probabilities.
func clipTokens(batch []*trinity.Experience, logprobs func(*trinity.Experience) []float32) ([]clipToken, error) {
	var tokens []clipToken
	for _, e := range batch {
		lp := logprobs(e)
		if err := needed(e, "logprobs", "of the policy that sampled it", lp); err != nil {
			return nil, err
		}
		if err := needed(e, "entropies", "of the policy before the update", e.Entropies); err != nil {
			return nil, err
		}
		for t, trained := range e.Mask {
			if trained {
				l := float64(lp[t])
				tokens = append(tokens, clipToken{e, t, float64(e.Advantages[t]), math.Exp(l) * (float64(e.Entropies[t]) + l)})
			}
		}
	}
	return tokens, nil
}

// momentsOf returns the mean and the standard deviation (over n) of a value of the tokens.
func momentsOf(tokens []clipToken, value func(clipToken) float64) (center, std float64) {
	if len(tokens) == 0 {
		return 0, 0
	}
	x := make([]float64, len(tokens))
	for i, t := range tokens {
		x[i] = value(t)
	}
	n := float64(len(x))
	return mean(x), sampleStd(x) * math.Sqrt((n-1)/n)
}

// clip removes tokens from the masks, on copies, and sets the metric frac_clipped and, over the
// tokens with positive and with negative advantage, frac_clipped_pos and frac_clipped_neg.
func clip(tokens []clipToken, out func(i int) bool, metrics trinity.Metrics) {
	var all, positive, negative share
	own := map[*trinity.Experience]bool{}
	for i, t := range tokens {
		clipped := out(i)
		all.add(clipped)
		switch {
		case t.advantage > 0:
			positive.add(clipped)
		case t.advantage < 0:
			negative.add(clipped)
		}
		if !clipped {
			continue
		}
		if !own[t.of] {
			t.of.Mask, own[t.of] = slices.Clone(t.of.Mask), true
		}
		t.of.Mask[t.place], t.of.Advantages[t.place] = false, 0
	}
	metrics["frac_clipped"], metrics["frac_clipped_pos"], metrics["frac_clipped_neg"] = all.value(), positive.value(), negative.value()
}

// share counts how often something is true.
type share struct{ yes, n int }

func (s *share) add(yes bool) {
	s.n++
	if yes {
		s.yes++
	}
}

func (s *share) value() float64 { return float64(s.yes) / float64(max(1, s.n)) }

// groupRelative writes the GRPO advantage of a trainer batch. kept are the groups to train on;
// batch lists their experiences that the policy sampled.
func groupRelative(ctx context.Context, groups []trinity.Group, epsilon float64) (kept []trinity.Group, batch []*trinity.Experience,
	metrics trinity.Metrics, err error) {
	left := trinity.Metrics{}
	if kept, batch, err = sampled(groups, left); err != nil {
		return nil, nil, nil, err
	}
	own := make([]trinity.Group, len(kept))
	for i, g := range kept {
		own[i] = slices.DeleteFunc(slices.Clone(g), func(e *trinity.Experience) bool { return e.IsExpert })
	}
	grpo := grpo{scaling: newScaling()}
	grpo.Epsilon = epsilon
	if _, metrics, err = grpo.Advantages(ctx, own); err != nil {
		return nil, nil, nil, err
	}
	metrics.Merge("", left) // own has only valid experiences
	return kept, batch, metrics, nil
}
