package cpu

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// groupsOfFour are a trainer's batch as runs make them: groups of four to a prompt, each an answer,
// a conversation in which an environment speaks between the turns, an answer of one token and a
// demonstration; 2i is preferred to 2i+1. The rewards of the second group are all alike, the third
// has weights of rollout correction, and the last demonstration has nothing to train.
func groupsOfFour(groups int, next func() int32) []*trinity.Experience {
	rng := rand.New(rand.NewPCG(11, 0))
	var xs []*trinity.Experience
	for g := range groups {
		prompt := make([]int32, []int{12, 30, 7, 21}[g%4])
		for i := range prompt {
			prompt[i] = next()
		}
		rewards := []float64{1, 0, 0.5, float64(g % 2)}
		if g == 1 {
			rewards = []float64{1, 1, 1, 1}
		}
		for r, reply := range []string{strings.Repeat("1", 8+3*g), "11111" + "0000" + "111" + "00000" + "11111111", "1", strings.Repeat("1", 15)} {
			if g == groups-1 && r == 3 {
				reply = "000"
			}
			x := &trinity.Experience{
				ID: trinity.ExperienceID{Step: 1, Task: strconv.Itoa(g), Run: r}, Tokens: append([]int32(nil), prompt...), Mask: make([]bool, len(prompt)),
				PromptLen: len(prompt), Temperature: []float32{0.8, 1}[min(g, 1)], Reward: trinity.Reward{Valid: true, Value: rewards[r]}, Chosen: r%2 == 0, IsExpert: r == 3,
			}
			for _, c := range reply {
				x.Tokens, x.Mask = append(x.Tokens, next()), append(x.Mask, c == '1')
			}
			score(x, compared(rewards, r), rng)
			if g == 2 {
				x.PolicyWeights = eachTrained(x.Mask, func() float64 { return 0.5 + rng.Float64() })
			}
			xs = append(xs, x)
		}
	}
	return xs
}

// compared is the reward less the group's mean, over its deviation.
func compared(rewards []float64, r int) float64 {
	mean, square := 0.0, 0.0
	for _, v := range rewards {
		mean += v / float64(len(rewards))
		square += v * v / float64(len(rewards))
	}
	return (rewards[r] - mean) / (math.Sqrt(max(0, square-mean*mean)) + 1e-6)
}

// score writes what advantages write: an advantage, and returns, beside the values that a critic
// had before the update.
func score(x *trinity.Experience, advantage float64, rng *rand.Rand) {
	x.Advantages = eachTrained(x.Mask, func() float64 { return advantage })
	x.Returns = eachTrained(x.Mask, func() float64 { return x.Reward.Value + 0.2*rng.NormFloat64() })
	x.Values = eachTrained(x.Mask, rng.NormFloat64)
}

// eachTrained is [T], drawn anew at each trained token.
func eachTrained(mask []bool, draw func() float64) []float32 {
	out := make([]float32, len(mask))
	for t, trained := range mask {
		if trained {
			out[t] = float32(draw())
		}
	}
	return out
}

// sampled records the engine's log-probabilities as the sampling policy's, which computed with
// other roundings.
func (g *graded) sampled(t *testing.T, xs []*trinity.Experience) {
	t.Helper()
	stats, err := g.Forward(t.Context(), whole(xs), trinity.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(12, 0))
	for i, x := range xs {
		x.Logprobs = make([]float32, len(x.Tokens))
		for k, trained := range x.Mask {
			if trained {
				x.Logprobs[k] = stats[i].Logprob[k] + float32(0.05*rng.NormFloat64())
			}
		}
	}
}

// randomTokens draws from a vocabulary.
func randomTokens(vocabulary int) func() int32 {
	rng := rand.New(rand.NewPCG(13, 0))
	return func() int32 { return rng.Int32N(int32(vocabulary)) }
}
