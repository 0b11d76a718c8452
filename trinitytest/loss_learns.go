package trinitytest

import (
	"math"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
)

// lossLearns gives the right token of a bandit an advantage, on-policy. Its probability must rise.
// A loss that does not read advantages has nothing to learn there.
func lossLearns(t *testing.T, l *loss.Composite) {
	if !loss.ReadsAdvantages(l.Policy) {
		return
	}
	const right = 3
	bandit := NewBandit(8)
	start := math.Exp(logSoftmax(bandit.Weights)[right])
	for step := range int64(50) {
		if err := adopted(t.Context(), bandit, step); err != nil {
			t.Fatal(err)
		}
		drawn, err := bandit.Sample(t.Context(), trinity.Prompt{}, trinity.SamplingParams{N: 64, Seed: uint64(step)})
		if err != nil {
			t.Fatal(err)
		}
		s := &lossStep{exps: answers(drawn, right)}
		s.now = stats(bandit.Weights, &trinity.Batch{Experiences: s.exps}, l.Streams())
		s.show(t, l)
		if _, err := bandit.ForwardBackward(t.Context(), &trinity.Batch{Step: step + 1, Experiences: s.exps, Whole: s.exps}, l); err != nil {
			t.Fatal(err)
		}
		if _, err := bandit.OptimStep(t.Context(), trinity.OptimParams{LR: 2}); err != nil {
			t.Fatal(err)
		}
	}
	if end := math.Exp(logSoftmax(bandit.Weights)[right]); !(end > 2*start) {
		t.Errorf("after 50 steps the token with the reward has probability %.3f, at first %.3f", end, start)
	}
}

// answers returns sequences of one sampled token. The advantage is the reward for the right token
// minus the mean.
func answers(drawn []trinity.Completion, right int32) []*trinity.Experience {
	hits := 0
	for _, c := range drawn {
		if c.Tokens[0] == right {
			hits++
		}
	}
	exps := make([]*trinity.Experience, len(drawn))
	for i, c := range drawn {
		advantage := -float32(hits) / float32(len(drawn))
		if c.Tokens[0] == right {
			advantage++
		}
		exps[i] = &trinity.Experience{
			ID: trinity.ExperienceID{Task: "bandit", Run: i}, Tokens: []int32{0, c.Tokens[0]}, Mask: []bool{false, true}, PromptLen: 1,
			Logprobs: []float32{0, c.Logprobs[0]}, RefLogprobs: []float32{0, c.Logprobs[0]}, Advantages: []float32{0, advantage},
		}
	}
	return exps
}
