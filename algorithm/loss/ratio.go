package loss

import (
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// maxExponent bounds exponents. e²⁰ ≈ 4.9·10⁸ is beyond every clip range, so the bound changes no
// result inside one. Without it, a token that one policy considers impossible (50 nats and more
// away), multiplied by a few others or squared, exceeds a float32 gradient.
const maxExponent = 20

// LogRatio returns d = lp − old [n], nats, clamped to ±20. Its derivative is 0 where the clamp
// applies. exp(d) is the ratio r.
func (in *Input) LogRatio() (tape.Stream, error) {
	old, err := in.Old()
	if err != nil {
		return tape.Stream{}, err
	}
	return bounded(in.Logprob.Sub(old)), nil
}

// bounded returns x clamped to what can be exponentiated.
func bounded(x tape.Stream) tape.Stream { return x.Clamp(-maxExponent, maxExponent) }

// Advantages returns the advantages [n] times the weights of rollout correction. It is for losses
// that are proportional to the advantage on either side of 0: there, a factor of the advantage is a
// factor of the loss. Other losses use RawAdvantages and Weigh.
func (in *Input) Advantages() (tape.Stream, error) {
	adv, err := in.RawAdvantages()
	if err != nil {
		return tape.Stream{}, err
	}
	return in.Weigh(adv)
}

// RawAdvantages returns the advantages [n] without the weights of rollout correction, for losses
// that are not proportional to the advantage.
func (in *Input) RawAdvantages() (tape.Stream, error) {
	return in.constant("advantages", "from an advantage_fn", func(e *trinity.Experience) []float32 { return e.Advantages })
}

// Weigh returns v [n], a loss per token, times the weights of rollout correction. Without weights
// it returns v.
func (in *Input) Weigh(v tape.Stream) (tape.Stream, error) {
	if !slices.ContainsFunc(in.Batch.Experiences, func(e *trinity.Experience) bool { return e.PolicyWeights != nil }) {
		return v, nil
	}
	weights, err := in.constant("policy weights", "of rollout correction", func(e *trinity.Experience) []float32 {
		if e.PolicyWeights != nil {
			return e.PolicyWeights
		}
		return slices.Repeat([]float32{1}, len(e.Mask)) // a demonstration
	})
	if err != nil {
		return tape.Stream{}, err
	}
	return v.Mul(weights), nil
}
