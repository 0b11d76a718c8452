package cpu

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

func TestDistributionsEqualForward(t *testing.T) {
	e := open(t, tiny("llama"))
	for _, x := range sequences(t, false) {
		scored := &trinity.Experience{Tokens: x.Tokens, Mask: make([]bool, len(x.Tokens)), PromptLen: 1}
		for t := 1; t < len(x.Tokens); t++ {
			scored.Mask[t] = true
		}
		want, err := e.Forward(context.Background(), whole([]*trinity.Experience{scored}), trinity.Streams{Entropy: true, Discriminator: true})
		if err != nil {
			t.Fatal(err)
		}
		next := 2
		err = e.Distributions(context.Background(), x.Tokens, 2, func(at int, logprobs []float32) error {
			sum, entropy := 0.0, 0.0
			for _, l := range logprobs {
				p := math.Exp(float64(l))
				sum, entropy = sum+p, entropy-p*float64(l)
			}
			if at != next || math.Abs(sum-1) > 1e-5 {
				t.Errorf("position %d, want %d; probabilities sum to %v", at, next, sum)
			}
			next++
			if at == len(x.Tokens) {
				return nil
			}
			if d := math.Abs(float64(logprobs[x.Tokens[at]] - want[0].Logprob[at])); d > 1e-5 {
				t.Errorf("position %d: log-probability is %v off", at, d)
			}
			if d := math.Abs(entropy - float64(want[0].Entropy[at])); d > 1e-5 {
				t.Errorf("position %d: entropy is %v off", at, d)
			}
			mean := 0.0
			for _, l := range logprobs {
				mean += math.Exp(2*float64(l)) * (entropy + float64(l))
			}
			if d := math.Abs(mean - float64(want[0].Discriminator[at])); d > 1e-6 {
				t.Errorf("position %d: mean discriminator is %v, %v off", at, mean, d)
			}
			return nil
		})
		if err != nil || next != len(x.Tokens)+1 {
			t.Errorf("%v; visited up to %d of %d", err, next-1, len(x.Tokens))
		}
	}
}

func TestDistributionsRefuse(t *testing.T) {
	e := open(t, tiny("llama"))
	stop := errors.New("enough")
	for _, c := range []struct {
		tokens []int32
		from   int
		want   string
	}{
		{[]int32{1, 2}, 0, "expected 1 to 2"}, {[]int32{1, 2}, 3, "expected 1 to 2"}, {nil, 1, "expected 1 to 0"}, {[]int32{1, 64}, 1, "outside the vocabulary"},
		{[]int32{1, 2}, 1, "enough"},
	} {
		err := e.Distributions(context.Background(), c.tokens, c.from, func(int, []float32) error { return stop })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v from %d: error %v, want %q", c.tokens, c.from, err, c.want)
		}
	}
}
