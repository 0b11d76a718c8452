package loss

import (
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/tape"
)

// maxExponent bounds what is exponentiated. e²⁰ ≈ 4.9·10⁸ is beyond every clip, so what a clip keeps is not changed; without it, a token that
// one policy holds for impossible (50 nats and more away) times a few others, or squared, is more than a float32 gradient can hold.
const maxExponent = 20

// LogRatio returns d = lp − old [n], nats, clamped to ±20: where the clamp holds it, its derivative is 0. exp(d) is the ratio r.
func (in *Input) LogRatio() (tape.Stream, error) {
	old, err := in.Old()
	if err != nil {
		return tape.Stream{}, err
	}
	return bounded(in.Logprob.Sub(old)), nil
}

// bounded is x clamped to what can be exponentiated.
func bounded(x tape.Stream) tape.Stream { return x.Clamp(-maxExponent, maxExponent) }

// Advantages returns the advantages [n] times the weights of rollout correction. It is for losses that are proportional to the advantage on
// either side of 0, so that a factor of the advantage is one of the loss; others take RawAdvantages and Weigh the loss.
func (in *Input) Advantages() (tape.Stream, error) {
	adv, err := in.RawAdvantages()
	if err != nil {
		return tape.Stream{}, err
	}
	return in.Weigh(adv)
}

// RawAdvantages returns the advantages [n] as they were computed, for losses that read more of them than their sign and size.
func (in *Input) RawAdvantages() (tape.Stream, error) {
	return in.constant("advantages", "from an advantage_fn", func(e *trinity.Experience) []float32 { return e.Advantages })
}

// Weigh returns v [n], a loss per token, times the weights of rollout correction; v itself without them.
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
