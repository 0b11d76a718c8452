package torch

import (
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// bf16 products and bf16 frozen weights change streams a little, and training works with them.
func TestBF16(t *testing.T) {
	exact, b := opened(t, onRanks(t, 1), tiny("qwen2")), randomBatch(64)
	want, err := exact.Forward(t.Context(), b, trinity.Streams{Entropy: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("FSDP", func(t *testing.T) { computesRoughly(t, b, want, true, 1) })
	t.Run("a copy of the weights", func(t *testing.T) { computesRoughly(t, b, want, false, 1) })
	t.Run("divided matrices", func(t *testing.T) { computesRoughly(t, b, want, false, 2) })
}

// computesRoughly compares an engine that computes in bf16 with what float32 gives. recompute makes it use
// FSDP on one rank, too; so many ranks divide its matrices.
func computesRoughly(t *testing.T, b *trinity.Batch, want []trinity.TokenStats, recompute bool, ranks int) {
	t.Helper()
	p, teacher := realPlugin(t, map[string]any{"compute_dtype": bf16, "recompute": recompute}), tiny("qwen2")
	policy := trained("qwen2")
	policy.Place = here(t, ranks)
	teacher.DType, teacher.Place, teacher.Tensor, policy.Tensor = bf16, policy.Place, ranks, ranks
	student := opened(t, p, policy)
	for name, e := range map[string]engine.Trainer{"products": student, "frozen weights": opened(t, p, teacher)} {
		got, err := e.Forward(t.Context(), b, trinity.Streams{Entropy: true})
		if err != nil {
			t.Fatal(err)
		}
		if d := apart(got, want); d == 0 || d > 0.3 {
			t.Errorf("%s: %.2g nats from f32, want a little", name, d)
		}
	}
	loss := func() float64 {
		t.Helper()
		metrics, err := student.ForwardBackward(t.Context(), b, mixed{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := student.OptimStep(t.Context(), trinity.OptimParams{LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-6}); err != nil {
			t.Fatal(err)
		}
		return metrics["loss"]
	}
	if first, second := loss(), loss(); second >= first {
		t.Errorf("the loss went from %v to %v", first, second)
	}
}
