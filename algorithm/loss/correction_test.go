package loss

import (
	"math"
	"testing"

	"github.com/trinity-go/trinity"
)

// TestPolicyWeights: weights multiply each token's policy loss, on every side of the clips, and ratios are against the recomputed
// log-probabilities.
func TestPolicyWeights(t *testing.T) {
	now := []float32{-1, -1.5, -0.2, -3}
	for _, adv := range []float32{2, -2} {
		e := seq(adv, []float32{-9, -9, -9, -9}, make([]float32, 4))
		e.OldLogprobs = []float32{0, -1.1, -1, -1.9, -1}
		plain := seq(adv, e.OldLogprobs[1:], make([]float32, 4))
		want, _, err := NewComposite(mustPolicy(t, "ppo", nil), nil, &NoEntropy{}).Loss(whole(plain), []trinity.TokenStats{at(now...)})
		if err != nil {
			t.Fatal(err)
		}
		e.PolicyWeights = []float32{0, 2, 0.5, 0.25, 0}
		got, _, err := NewComposite(mustPolicy(t, "ppo", nil), nil, &NoEntropy{}).Loss(whole(e), []trinity.TokenStats{at(now...)})
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range e.PolicyWeights {
			if d := got[0].Logprob[i] - w*want[0].Logprob[i]; math.Abs(float64(d)) > 1e-6 {
				t.Errorf("advantage %v, token %d: gradient %v, want %v", adv, i, got[0].Logprob[i], w*want[0].Logprob[i])
			}
		}
	}
}
