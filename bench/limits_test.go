package main

import (
	"math"
	"testing"

	"github.com/trinity-go/trinity/model"
)

// smol has the shape of SmolLM2-135M, whose limits the table has by another hand.
var smol = &model.Config{HiddenSize: 576, NumLayers: 30, NumHeads: 9, NumKVHeads: 3, HeadDim: 64, IntermediateSize: 1536, VocabSize: 49152}

func TestLimits(t *testing.T) {
	machine := limits{GFLOPs: 454, GBps: 50}
	for _, c := range []struct {
		workload, dtype string
		want            float64
	}{
		{"train_step_f32", "", 540}, {"decode_1", "", 92}, {"decode_1", "bf16", 179}, {"decode_8", "", 660}, {"decode_32", "", 1610}, {"decode_64", "", 1610},
		{"prefill", "", 2040}, {"decode_32", "int8", 3890},
	} {
		w := find(c.workload)
		if got := w.limit(smol, machine, w, c.dtype); math.Abs(got/c.want-1) > 0.03 {
			t.Errorf("limit of %s %s is %.0f, want about %.0f", c.workload, c.dtype, got, c.want)
		}
	}
}

func TestPeak(t *testing.T) {
	for _, loop := range fmaLoops() {
		if loop.run(1); loop.flops <= 0 {
			t.Errorf("a loop has %d operations", loop.flops)
		}
	}
}
