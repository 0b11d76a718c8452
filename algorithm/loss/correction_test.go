package loss

import (
	"math"
	"testing"

	"github.com/trinity-go/trinity"
)

// Weights multiply each token's policy loss, on every side of the clips and for every use of the
// advantage. Ratios are relative to the recomputed log-probabilities.
func TestPolicyWeightsMultiplyTheLoss(t *testing.T) {
	now := []trinity.TokenStats{at(-1, -1.5, -0.2, -3)}
	gradient := func(name string, args map[string]any, e *trinity.Experience) []float32 {
		l := NewComposite(mustPolicy(t, name, args), nil, &noEntropy{})
		look(t, l, []*trinity.Experience{e}, now)
		grads, _, err := l.Loss(whole(e), now)
		if err != nil {
			t.Fatal(err)
		}
		return grads[0].Logprob
	}
	for _, c := range []struct {
		name string
		args map[string]any
	}{
		{"ppo", nil},
		{"topr", map[string]any{"advantage_threshold": 1.5}},
		{"rec", map[string]any{"weight": "advantage", "regularizer": "k2", "regularizer_coef": 0.1}},
		{"m2po", nil},
		{"sft", nil},
	} {
		for _, adv := range []float32{2, -2} {
			e := seq(adv, []float32{-9, -9, -9, -9}, make([]float32, 4))
			e.OldLogprobs = []float32{0, -1.1, -1, -1.9, -1}
			want := gradient(c.name, c.args, seq(adv, e.OldLogprobs[1:], make([]float32, 4)))
			e.PolicyWeights = []float32{0, 2, 0.5, 0.25, 0}
			got := gradient(c.name, c.args, e)
			for i, w := range e.PolicyWeights {
				if d := got[i] - w*want[i]; math.Abs(float64(d)) > 1e-6 {
					t.Errorf("%s, advantage %v, token %d: gradient %v, want %v", c.name, adv, i, got[i], w*want[i])
				}
			}
		}
	}
}
