package cpu

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// codedOptions returns options of a model whose matrices have 8-bit moments, except two that are
// too small. Blocks do not divide the matrices of its MLP.
func codedOptions(t testing.TB) Options {
	opts := changedOptions(t, map[string]any{"num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 67, "head_dim": 16, "max_position_embeddings": 256})
	opts.Optimizer = engine.OptimizerSpec{Type: engine.AdamW8bit}
	return opts
}

func TestAdamW8bitEqualsThePaper(t *testing.T) {
	want := tensorFile(t, "testdata/adamw_8bit.safetensors")
	p := trinity.OptimParams{LR: 1e-2, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1, ClipNorm: 2}
	var first []byte
	for _, cores := range []int{1, 3} {
		pool := kernel.NewPool(cores)
		defer pool.Close()
		opts := codedOptions(t)
		opts.Pool = pool
		e := open(t, opts)
		e.fillGradient(1000, 0.1)
		start := slices.Clone(e.gradient)
		e.setRowMajor(start)
		for step, size := range []float32{0.01, 1, 0.25, 2, 0.003, 0.5} {
			e.fillGradient(uint64(step), 1)
			for i, g := range e.gradient {
				e.gradient[i] = g * g * g * size
			}
			if _, err := e.OptimStep(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		for _, tensor := range []string{"model.embed_tokens.weight", "model.norm.weight", "model.layers.0.self_attn.k_proj.weight", "model.layers.0.mlp.down_proj.weight"} {
			moved := e.base.in(e.rowMajor(), tensor)
			for i, v := range e.base.in(start, tensor) {
				moved[i] -= v
			}
			if d := difference(moved, want("moved."+tensor)); d > 1e-3 {
				t.Errorf("%s: what it moved by is %.2g relative off", tensor, d)
			}
		}
		a := e.optimizer.(*adamW8bit)
		for _, c := range []*codes{a.mean, a.square} {
			s, _ := c.layout.find("model.layers.0.mlp.down_proj.weight")
			flat, scales := c.in(s)
			if d := difference(scales, want(c.prefix+"scales")); d > 1e-5 {
				t.Errorf("%s scales are %.2g relative off", c.prefix, d)
			}
			others := 0
			for i, code := range want(c.prefix + "codes") {
				if flat[i] != uint8(code) {
					others++
				}
			}
			if others > len(flat)/500 { // where a number lies between two codes, its last bit chooses
				t.Errorf("%s: %d of %d codes are others", c.prefix, others, len(flat))
			}
		}
		state := savedState(t, e)
		if first == nil {
			first = state
		}
		if !bytes.Equal(state, first) {
			t.Errorf("%d cores give other bits", cores)
		}
	}
}

// A weight whose gradients were small beside its neighbours', and then are none, comes to rest: its
// first moment is never divided by eps alone.
func TestAdamW8bitKeepsSmallSecondMoments(t *testing.T) {
	e := open(t, codedOptions(t))
	const lr = 1e-3
	p := trinity.OptimParams{LR: lr, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8}
	for step := range 60 {
		before := slices.Clone(e.trained)
		e.fillGradient(uint64(step), 1)
		for i, g := range e.gradient {
			if e.gradient[i] = g * g * g; step > 3 && i%4 == 0 {
				e.gradient[i] = 0
			}
		}
		if _, err := e.OptimStep(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		for i, w := range e.trained {
			if d := w - before[i]; d > 2*lr || d < -2*lr { // with 32 bits: (1 - Beta1)/√((1 - Beta2)·(1 - Beta1²/Beta2)) = 1.2 learning rates in the long run
				t.Fatalf("step %d: weight %d moved by %v, %.0f learning rates", step, i, d, d/lr)
			}
		}
	}
}

func TestAdamW8bitLearnsLikeAdamW(t *testing.T) {
	last := func(optimizer string, lora *engine.LoRASpec) float64 {
		opts := codedOptions(t)
		opts.Optimizer.Type, opts.LoRA, opts.Seed = optimizer, lora, 1
		e := open(t, opts)
		var loss float64
		for range 60 {
			m, err := e.ForwardBackward(t.Context(), whole(sequences(t, false)), nll{})
			if err != nil {
				t.Fatal(err)
			}
			loss = m["loss"]
			if _, err := e.OptimStep(t.Context(), trinity.OptimParams{LR: 3e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, ClipNorm: 1}); err != nil {
				t.Fatal(err)
			}
		}
		return loss
	}
	for _, lora := range []*engine.LoRASpec{nil, {LoraRank: 64, LoraAlpha: 64}} {
		if wide, narrow := last(engine.AdamW, lora), last(engine.AdamW8bit, lora); narrow > 1.1*wide+0.01 {
			t.Errorf("LoRA %v: the loss after 60 steps is %.4f, %.4f with moments of 32 bits", lora != nil, narrow, wide)
		}
	}
}

func TestAdamW8bitTakesAQuarterOfTheMemory(t *testing.T) {
	opts := codedOptions(t)
	bytesOf := func() float64 {
		for _, p := range open(t, opts).Memory() {
			if p.Kind == "optimizer" {
				return float64(p.Bytes)
			}
		}
		return 0
	}
	narrow := bytesOf()
	opts.Optimizer = engine.OptimizerSpec{}
	if share := narrow / bytesOf(); share > 0.36 { // k, v and norms, an eighth of the weights, have 32 bits
		t.Errorf("8-bit moments take %.3f of what those of 32 bits take", share)
	}
}

func TestAdamW8bitStepDoesNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("under the race detector, pools forget what they hold")
	}
	opts := codedOptions(t)
	opts.Pool = kernel.NewPool(1)
	e := open(t, opts)
	p := trinity.OptimParams{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8}
	u := update{OptimParams: p, pool: e.pool, number: 1, scale: 1, layout: e.trainedLayout(), weights: e.trained, gradient: e.gradient}
	if n := testing.AllocsPerRun(20, func() { e.optimizer.step(u) }); n > 0 {
		t.Errorf("%v allocations a step", n)
	}
}

func TestAdamW8bitChecksItsState(t *testing.T) {
	narrow, dir := open(t, codedOptions(t)), t.TempDir()
	if err := narrow.SaveState(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	opts := codedOptions(t)
	opts.Optimizer = engine.OptimizerSpec{}
	wide, wideDir := open(t, opts), t.TempDir()
	if err := wide.SaveState(t.Context(), wideDir); err != nil {
		t.Fatal(err)
	}
	if err := wide.LoadState(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "optimizer adamw_8bit; this engine has adamw") {
		t.Errorf("a state of 8 bits in an engine of 32: %v", err)
	}
	text := fmt.Sprintf(`{"format": %d, "optimizer": "adamw_8bit"}`, stateFormat)
	if err := os.WriteFile(filepath.Join(wideDir, stateName), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := narrow.LoadState(t.Context(), wideDir); err == nil || !strings.Contains(err.Error(), "is F32 [64 64]; expected U8 [64 64]") {
		t.Errorf("moments of 32 bits in an engine of 8: %v", err)
	}
}
