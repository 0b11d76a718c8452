package trainer

import (
	"errors"
	"math"
	"testing"

	"github.com/trinity-go/trinity"
)

// Correct sees the log-probabilities before the update, whatever the micro-batches, and decides what is trained on.
func TestCorrect(t *testing.T) {
	for _, tokens := range []int{2, 1000} {
		tr, b, logged := newTrainer(t, 2, new([]int64))
		tr.MicroTokens = tokens
		var seen [][]float32
		tr.Correct = func(exps []*trinity.Experience) ([]*trinity.Experience, trinity.Metrics, error) {
			for _, e := range exps {
				seen = append(seen, e.OldLogprobs)
			}
			return exps[1:2], trinity.Metrics{"rollout_corr/kl": 0.25}, nil
		}
		if err := tr.Run(t.Context(), t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(seen) != 16 || math.Abs(float64(seen[0][1])+math.Log(6)) > 1e-6 || seen[0][1] == seen[8][1] {
			t.Errorf("%d old log-probabilities: %v", len(seen), seen)
		}
		if b.Weights[1] <= 0 || b.Weights[0] >= 0 || (*logged)[0]["rollout_corr/kl"] != 0.25 {
			t.Errorf("logits %v, metrics %v: only token 1 was left to learn from", b.Weights, (*logged)[0])
		}
	}
}

func TestCorrectMayLeaveNothing(t *testing.T) {
	tr, b, _ := newTrainer(t, 1, new([]int64))
	tr.Correct = func([]*trinity.Experience) ([]*trinity.Experience, trinity.Metrics, error) { return nil, nil, nil }
	if err := tr.Run(t.Context(), t.Context()); err != nil || b.Weights[1] != 0 || tr.Step() != 1 {
		t.Errorf("error %v, logits %v, step %d", err, b.Weights, tr.Step())
	}
	tr, _, _ = newTrainer(t, 1, new([]int64))
	steps := 0
	tr.MiniBatch, tr.AfterStep = 4, func(trinity.Metrics, int) { steps++ }
	tr.Correct = func(exps []*trinity.Experience) ([]*trinity.Experience, trinity.Metrics, error) {
		for i, e := range exps[:4] { // the first mini-batch
			rejected := *e
			rejected.Mask = make([]bool, len(e.Mask))
			exps[i] = &rejected
		}
		return exps, nil, nil
	}
	if err := tr.Run(t.Context(), t.Context()); err != nil || steps != 1 {
		t.Errorf("error %v, %d optimizer steps of 2 mini-batches of which one is rejected", err, steps)
	}
	wrong := errors.New("no logprobs")
	tr, _, _ = newTrainer(t, 1, new([]int64))
	tr.Correct = func([]*trinity.Experience) ([]*trinity.Experience, trinity.Metrics, error) { return nil, nil, wrong }
	if err := tr.Run(t.Context(), t.Context()); !errors.Is(err, wrong) {
		t.Error(err)
	}
}
