package torch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/model"
)

// routed gives the sequences of a batch random experts, others where two begin with the same tokens.
func routed(t *testing.T, b *trinity.Batch, spec engine.TrainerSpec) experience.Routes {
	t.Helper()
	cfg, err := model.ReadConfig(spec.ModelPath)
	if err != nil {
		t.Fatal(err)
	}
	routes, r := cfg.Mixture.Routes(), rand.New(rand.NewPCG(7, 8))
	for _, x := range b.Experiences {
		for range (len(x.Tokens) - 1) * routes.Layers {
			for _, expert := range r.Perm(routes.Experts)[:routes.PerToken] {
				x.Experts = routes.Append(x.Experts, int32(expert))
			}
		}
	}
	return routes
}

func TestReplayAgreesWithTheEmbeddedEngine(t *testing.T) {
	normalised, sums := trained("qwen3_moe"), balanced(t)
	recomputed := normalised
	recomputed.Recompute, recomputed.Strategy = 2, "ddp"
	lora := normalised
	lora.LoRA = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8}
	for _, ranks := range []int{1, 2} {
		for name, spec := range map[string]engine.TrainerSpec{
			"normalised": normalised, "not normalised, with load-balancing loss": sums, "recomputed": recomputed, "adapter": lora,
		} {
			t.Run(fmt.Sprintf("%s, ranks: %d", name, ranks), func(t *testing.T) {
				spec.Replay, spec.Reference, spec.Optimizer = true, true, engine.OptimizerSpec{Type: engine.SGD}
				ours, theirs := opened(t, onRanks(t, ranks), spec), embedded(t, spec)
				b, want := randomBatch(64), trinity.Streams{Entropy: true}
				free, err := ours.Forward(t.Context(), b, want)
				if err != nil {
					t.Fatal(err)
				}
				routed(t, b, spec)
				agree(t, ours, theirs, b, want)
				given, err := ours.Forward(t.Context(), b, want)
				if err != nil || apart(free, given) < 1e-3 {
					t.Errorf("%v; other experts change log-probabilities by %.2g nats only", err, apart(free, given))
				}
				x, err := ours.Reference(t.Context(), b)
				y, err2 := theirs.Reference(t.Context(), b)
				if err != nil || err2 != nil || apart(x, y) > 1e-5 {
					t.Errorf("reference: %v, %v, %.2g nats off", err, err2, apart(x, y))
				}
				var changed [2]trinity.Metrics
				for i, e := range []engine.Trainer{ours, theirs} {
					if _, err := e.ForwardBackward(t.Context(), b, mixed{want}); err != nil {
						t.Fatal(err)
					}
					if changed[i], err = e.OptimStep(t.Context(), trinity.OptimParams{LR: 0}); err != nil {
						t.Fatal(err)
					}
				}
				for _, name := range []string{"router/replay_changed", "router/load_max", "router/load_entropy"} {
					if a, b := changed[0][name], changed[1][name]; b == 0 || math.Abs(a-b) > 1e-9 {
						t.Errorf("%s: %v, want %v", name, a, b)
					}
				}
				got, _ := gradientOf(t, ours, b, mixed{want}, spec.LoRA != nil)
				ref, _ := gradientOf(t, theirs, b, mixed{want}, spec.LoRA != nil)
				compareGradients(t, got, ref, 1e-5, 2e-5)
				b.Experiences[0].Experts = nil
				if _, err := ours.ForwardBackward(t.Context(), b, mixed{want}); err == nil || !strings.Contains(err.Error(), "has no experts") {
					t.Errorf("an experience without experts: %v", err)
				}
			})
		}
	}
}

func TestReplayIsRefused(t *testing.T) {
	dense, parts := trained("llama"), trained("qwen3_moe")
	dense.Replay, parts.Replay, parts.Sequence = true, true, 2
	for want, spec := range map[string]engine.TrainerSpec{"has no router": dense, "parts of a row do not replay": parts} {
		cfg, err := model.ReadConfig(spec.ModelPath)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkReplay(cfg, &spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
