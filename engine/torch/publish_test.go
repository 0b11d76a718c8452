package torch

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// The weights of an offered version stay while newer ones are trained, also in a state.
func TestOfferedVersionStays(t *testing.T) {
	lora := trained("qwen2")
	lora.LoRA = &engine.LoRASpec{LoraRank: 2, LoraAlpha: 4}
	for _, ranks := range []int{1, 2} {
		for name, spec := range map[string]engine.TrainerSpec{"all weights": trained("qwen2"), "adapters": lora} {
			t.Run(fmt.Sprintf("%s, ranks: %d", name, ranks), func(t *testing.T) {
				isLoRA := spec.LoRA != nil
				e := opened(t, onRanks(t, ranks), spec).(*workerModel)
				if err := e.SavePublished(t.Context(), t.TempDir()); err == nil {
					t.Error("a version that nobody offered was saved")
				}
				step(t, e)
				if err := e.Offer(t.Context(), 5); err != nil {
					t.Fatal(err)
				}
				offered := weightsOf(t, e.SavePublished, isLoRA)
				step(t, e)
				step(t, e)
				newest := weightsOf(t, e.SaveModel, isLoRA)
				if equal(offered, newest) || !equal(offered, weightsOf(t, e.SavePublished, isLoRA)) {
					t.Error("the offered weights changed with the trained ones")
				}
				if !equal(newest, weightsOf(t, e.SaveModel, isLoRA)) {
					t.Error("saving the offered weights changed the trained ones")
				}
				dir := t.TempDir()
				if err := e.SaveState(t.Context(), dir); err != nil {
					t.Fatal(err)
				}
				again := opened(t, onRanks(t, ranks), spec).(*workerModel)
				if err := again.LoadState(t.Context(), dir); err != nil {
					t.Fatal(err)
				}
				if v, err := again.Adopt(t.Context()); v != 5 || err != nil {
					t.Errorf("version %d, %v; want 5", v, err)
				}
				if !equal(offered, weightsOf(t, again.SavePublished, isLoRA)) || !equal(newest, weightsOf(t, again.SaveModel, isLoRA)) {
					t.Error("a resumed engine has other weights")
				}
				step(t, e)
				step(t, again)
				if !equal(weightsOf(t, e.SaveModel, isLoRA), weightsOf(t, again.SaveModel, isLoRA)) {
					t.Error("a step of the resumed engine has other results")
				}
			})
		}
	}
}

// Weights, moments and offered weights have the same bits if they lie in host memory between uses.
func TestOffload(t *testing.T) {
	for _, ranks := range []int{1, 2} {
		t.Run(fmt.Sprintf("ranks: %d", ranks), func(t *testing.T) {
			run := func(offload bool) map[string][]float32 {
				spec, other := trained("qwen2"), tiny("llama")
				spec.ParamOffload, spec.OptimizerOffload, spec.ReferenceOffload, other.ParamOffload = offload, offload, offload, offload
				e, teacher := opened(t, onRanks(t, ranks), spec).(*workerModel), opened(t, onRanks(t, ranks), other)
				dir, b := t.TempDir(), randomBatch(64)
				after := func(what string, err error) {
					if err != nil {
						t.Fatalf("%s: %v", what, err)
					}
				}
				for range 2 {
					_, err := e.Reference(t.Context(), b)
					after("reference", err)
					_, err = teacher.Forward(t.Context(), b, trinity.Streams{})
					after("teacher", err)
					step(t, e)
				}
				after("offer", e.Offer(t.Context(), 1))
				step(t, e)
				all := weightsOf(t, e.SavePublished, false)
				after("save", e.SaveState(t.Context(), dir))
				step(t, e)
				after("load", e.LoadState(t.Context(), dir))
				step(t, e)
				for name, w := range weightsOf(t, e.SaveModel, false) {
					all["newest "+name] = w
				}
				return all
			}
			if !equal(run(false), run(true)) {
				t.Error("the weights have other bits if they lie in host memory between uses")
			}
		})
	}
}

// step does an AdamW step.
func step(t *testing.T, e engine.Trainer) {
	t.Helper()
	if _, err := e.ForwardBackward(t.Context(), randomBatch(64), mixed{}); err != nil {
		t.Fatal(err)
	}
	p := trinity.OptimParams{LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-6, WeightDecay: 0.01, ClipNorm: 1}
	if _, err := e.OptimStep(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func equal(a, b map[string][]float32) bool {
	return maps.EqualFunc(a, b, func(x, y []float32) bool { return slices.Equal(x, y) })
}

// The files of a version have bf16 if that is asked for, and those of a checkpoint float32. Adapters are
// float32.
func TestVersionsAreRounded(t *testing.T) {
	for _, isLoRA := range []bool{false, true} {
		spec := trained("qwen2")
		spec.PublishDType = bf16
		if isLoRA {
			spec.LoRA = &engine.LoRASpec{LoraRank: 2, LoraAlpha: 4}
		}
		e := opened(t, onRanks(t, 1), spec).(*workerModel)
		step(t, e)
		if err := e.Offer(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		want := weightsOf(t, e.SaveModel, isLoRA)
		if !isLoRA {
			for _, numbers := range want {
				for i, x := range numbers {
					bits := math.Float32bits(x)
					numbers[i] = math.Float32frombits((bits + 0x7fff + bits>>16&1) >> 16 << 16)
				}
			}
		}
		for name, save := range map[string]func(context.Context, string) error{"current": e.SaveVersion, "offered": e.SavePublished} {
			if !equal(want, weightsOf(t, save, isLoRA)) {
				t.Errorf("adapter: %t: the %s weights are not those of the checkpoint, rounded", isLoRA, name)
			}
		}
	}
}
