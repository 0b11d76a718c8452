package cpu

import (
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
)

// perTarget is a loss with a weight for each target of each token, by experience.
type perTarget map[*trinity.Experience][]float32

func (perTarget) Streams() trinity.Streams { return trinity.Streams{} }

func (w perTarget) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	grads, loss := make([]trinity.TokenGrads, len(now)), 0.0
	for i, x := range b.Experiences {
		grads[i].Logprob = slices.Clone(w[x])
		for t, v := range w[x] {
			loss += float64(v) * float64(now[i].Logprob[t])
		}
	}
	return grads, trinity.Metrics{"loss": loss}, nil
}

// Several targets of a token have the log-probabilities, to the bit, and the gradient that each has alone, and
// their row of logits is computed once.
func TestSeveralTargetsEqualEachAlone(t *testing.T) {
	const several = 3
	for _, opts := range []Options{tiny("llama"), headAdapter("llama3_bias_tied"), tiny("granite")} {
		e := open(t, opts)
		var together []*trinity.Experience
		alone := make([][]*trinity.Experience, several)
		weights, rows, random := perTarget{}, 0, uint64(3)
		next := func() uint64 { random = mix(random); return random >> 20 }
		for range 30 { // more head rows than a chunk
			for i, x := range sequences(t, true) {
				own := *x
				own.Targets, rows = make([]int32, several*len(x.Tokens)), rows+x.TrainedTokens()
				w := make([]float32, len(own.Targets))
				for t, trained := range x.Mask {
					for k := range several {
						own.Targets[t*several+k] = int32(next() % 64)
						if trained && i%3 != 1 { // the others are idle
							w[t*several+k] = float32(next()%9) - 4
						}
					}
				}
				together, weights[&own] = append(together, &own), w
				for k := range several {
					one := *x
					one.Targets, weights[&one] = nil, nil
					for t := range x.Tokens {
						one.Targets = append(one.Targets, own.Targets[t*several+k])
						weights[&one] = append(weights[&one], w[t*several+k])
					}
					alone[k] = append(alone[k], &one)
				}
			}
		}
		got, err := e.Forward(t.Context(), whole(together), trinity.Streams{})
		if err != nil {
			t.Fatal(err)
		}
		for k, xs := range alone {
			want, err := e.Forward(t.Context(), whole(xs), trinity.Streams{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				for at, v := range want[i].Logprob {
					if got[i].Logprob[at*several+k] != v {
						t.Fatalf("sequence %d, target %d of token %d: %v, alone %v", i, k, at, got[i].Logprob[at*several+k], v)
					}
				}
			}
		}
		loss, gradient := e.gradientOf(t, weights, whole(together))
		var parts []*trinity.Batch
		for _, xs := range alone {
			parts = append(parts, &trinity.Batch{Step: 1, Experiences: xs, Whole: xs})
		}
		wantLoss, want := e.gradientOf(t, weights, parts...)
		if d := difference(gradient, want); d > 2e-6 || norm(want) == 0 || loss-wantLoss > 1e-2 || wantLoss-loss > 1e-2 {
			t.Errorf("the gradient is %.2g relative off, the loss %v, want %v", d, loss, wantLoss)
		}
		e.passes.head.budget = 0
		if _, again := e.gradientOf(t, weights, whole(together)); !e.passes.head.recompute || !slices.Equal(again, gradient) {
			t.Errorf("logits computed again: %.2g relative off", difference(again, gradient))
		}
		e.passes.pack(together)
		if n := len(e.passes.packing.head); n != rows {
			t.Errorf("%d rows of logits for %d trained tokens", n, rows)
		}
	}
}
