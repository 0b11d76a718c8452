package trainer

import (
	"errors"
	"math"
	"testing"

	"github.com/trinity-go/trinity"
)

// correctFunc is a Corrector.
type correctFunc func([]*trinity.Experience) ([]*trinity.Experience, trinity.Metrics, error)

func (f correctFunc) Apply(exps []*trinity.Experience) ([]*trinity.Experience, trinity.Metrics, error) {
	return f(exps)
}

// afterStepFunc is an Adaptive.
type afterStepFunc func(m trinity.Metrics, sequences int)

func (f afterStepFunc) AfterStep(m trinity.Metrics, sequences int) { f(m, sequences) }

// The corrector gets the log-probabilities before the update, with any micro-batches, and the
// trainer trains on the experiences that it returns.
func TestCorrector(t *testing.T) {
	for _, tokens := range []int{2, 1000} {
		o, b, logged := newOptions(t, 2, new([]int64))
		o.MicroTokens = tokens
		var seen [][]float32
		o.Corrector = correctFunc(func(exps []*trinity.Experience) ([]*trinity.Experience, trinity.Metrics, error) {
			for _, e := range exps {
				seen = append(seen, e.OldLogprobs)
			}
			return exps[1:2], trinity.Metrics{"rollout_corr/kl": 0.25}, nil
		})
		if err := New(*o).Run(t.Context(), t.Context()); err != nil {
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

func TestCorrectorMayLeaveNothing(t *testing.T) {
	o, b, _ := newOptions(t, 1, new([]int64))
	o.Corrector = correctFunc(func([]*trinity.Experience) ([]*trinity.Experience, trinity.Metrics, error) { return nil, nil, nil })
	tr := New(*o)
	if err := tr.Run(t.Context(), t.Context()); err != nil || b.Weights[1] != 0 || tr.at.Step != 1 {
		t.Errorf("error %v, logits %v, step %d", err, b.Weights, tr.at.Step)
	}
	o, _, _ = newOptions(t, 1, new([]int64))
	steps := 0
	o.Policy.MiniBatch, o.Adaptive = 4, afterStepFunc(func(trinity.Metrics, int) { steps++ })
	o.Corrector = correctFunc(func(exps []*trinity.Experience) ([]*trinity.Experience, trinity.Metrics, error) {
		for i, e := range exps[:4] { // the first mini-batch
			rejected := *e
			rejected.Mask = make([]bool, len(e.Mask))
			exps[i] = &rejected
		}
		return exps, nil, nil
	})
	if err := New(*o).Run(t.Context(), t.Context()); err != nil || steps != 1 {
		t.Errorf("error %v, %d optimizer steps, want one: the corrector rejected the first of 2 mini-batches", err, steps)
	}
	wrong := errors.New("no logprobs")
	o, _, _ = newOptions(t, 1, new([]int64))
	o.Corrector = correctFunc(func([]*trinity.Experience) ([]*trinity.Experience, trinity.Metrics, error) { return nil, nil, wrong })
	if err := New(*o).Run(t.Context(), t.Context()); !errors.Is(err, wrong) {
		t.Error(err)
	}
}
