package cpu

import (
	"testing"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// Training adapters takes memory for the frozen weights once, and for the adapters four times:
// weights, gradient and two moments.
func TestAdaptersTakeNoGradientMemoryOfTheBase(t *testing.T) {
	frozen := tiny("qwen2")
	frozen.ForwardOnly = true
	base := open(t, frozen).memory.arena.Bytes()
	for _, reference := range []bool{false, true} { // which is the frozen weights themselves
		opts := tiny("qwen2")
		opts.LoRA, opts.Reference = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8}, reference
		e := open(t, opts)
		const float, line = 4, 64 // bytes; arrays begin at cache lines
		if got, want := e.memory.arena.Bytes()-base, int64(4*(float*e.adapters.size+line)); got > want {
			t.Errorf("reference %t: adapters take %d bytes beside the base's %d, want at most %d", reference, got, base, want)
		}
		moments := e.optimizer.state()
		for name, v := range map[string][]float32{"gradient": e.gradient, "first moment": moments[0].(vector).flat, "second moment": moments[1].(vector).flat, "trained": e.trained} {
			if len(v) != e.adapters.size {
				t.Errorf("the %s has %d elements; the adapters have %d", name, len(v), e.adapters.size)
			}
		}
	}
}

// The base has no memory for a gradient, so the backward pass computes only the adapters' gradient.
func TestBackwardComputesNoGradientOfTheBase(t *testing.T) {
	opts := tiny("qwen2")
	opts.LoRA = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8}
	e := open(t, opts)
	absent := func(what string, sizes ...int) {
		for _, n := range sizes {
			if n != 0 {
				t.Errorf("%s: a gradient of %d elements", what, n)
			}
		}
	}
	elements := func(m kernel.Matrix) int { return max(len(m.Data), m.Rows) }
	g := e.grads
	absent("embedding, head and norm", elements(g.embedding), elements(g.head.weight), len(g.norm))
	for i := range g.layers {
		l := &g.layers[i]
		absent("norms", len(l.attentionNorm), len(l.mlpNorm), len(l.qNorm), len(l.kNorm))
		for _, linear := range []*linear{&l.qkv, &l.output, &l.gateUp, &l.down} {
			absent("a linear map", elements(linear.weight), len(linear.bias))
			if elements(linear.down) == 0 || len(linear.up) == 0 {
				t.Error("an adapter without a gradient")
			}
		}
	}
	before := append([]float32(nil), e.baseFlat...)
	train(t, e, sequences(t, true), 2)
	for i, v := range e.baseFlat {
		if v != before[i] {
			t.Fatalf("weight %d of the base changed", i)
		}
	}
}
