package main

import (
	"math"
	"testing"

	"github.com/trinity-go/trinity/model"
)

// smol has the shape of SmolLM2-135M, whose limits the table has by another hand.
var smol = &model.Config{HiddenSize: 576, NumLayers: 30, NumHeads: 9, NumKVHeads: 3, HeadDim: 64, IntermediateSize: 1536, VocabSize: 49152}

// boundOf is the bound of a machine whose sampler keeps keys and values in f32.
func boundOf(l limits, dtype string) *bound {
	return &bound{limits: l, Config: smol, storage: storages[dtype], cached: 2 * 4 * 3 * 64 * 30}
}

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
		if got := w.limit(boundOf(machine, c.dtype), w).limit; math.Abs(got/c.want-1) > 0.03 {
			t.Errorf("limit of %s %s is %.0f, want about %.0f", c.workload, c.dtype, got, c.want)
		}
	}
}

// TestLimitsByPhase compares them with a table by another hand.
func TestLimitsByPhase(t *testing.T) {
	machine := limits{GFLOPs: 354, GBps: 29}
	for _, c := range []struct {
		workload string
		want     float64
	}{
		{"decode_8", 383}, {"decode_32", 952}, {"decode_64", 952},
		// Two products of each weight in the layers for 16 × 150 tokens, and attention; the head's weights are read for 16 rows.
		{"prefill", 2400 / (2*106.2e6*2400/354e9 + 2400*4*75*576*30/354e9 + 4*28.3e6/29e9)},
		// Arithmetic of all tokens, then AdamW.
		{"train_step_f32", 2048 / (2048*(6*134.5e6+3.5*4*128*576*30)/354e9 + 28*134.5e6/29e9)},
	} {
		w := find(c.workload)
		got := w.limit(boundOf(machine, ""), w)
		if math.Abs(got.byPhase/c.want-1) > 0.002 {
			t.Errorf("limit of %s by phase is %.1f, want %.1f", c.workload, got.byPhase, c.want)
		}
		if got.byPhase > got.limit*1.000001 {
			t.Errorf("limit of %s by phase is %.0f, above %.0f of phases that overlap", c.workload, got.byPhase, got.limit)
		}
	}
}

// TestGroupsReadTheirPromptOnce: a step of 4 groups of 8 reads 4 prompts, and the products take its arithmetic.
func TestGroupsReadTheirPromptOnce(t *testing.T) {
	b, w := boundOf(limits{GFLOPs: 354, GBps: 29}, ""), find("group_rollout")
	want := 32*2*134.5e6/354e9 + (4*150+32*32)*46080/29e9
	if got := b.times(b.decode(w, 150)).byPhase / newTokens; math.Abs(got/want-1) > 0.002 {
		t.Errorf("a step takes %.5f s at least, want %.5f", got, want)
	}
}

// TestCachedBytes: the sampler's plan says what keys and values of a token take.
func TestCachedBytes(t *testing.T) {
	const path = "../examples/quickstart/model"
	c, err := model.ReadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := cachedBytes(path, "")
	if want := float64(2 * 4 * c.NumLayers * c.NumKVHeads * c.HeadDim); err != nil || got != want {
		t.Errorf("a token takes %g bytes, %v; want %g", got, err, want)
	}
}

func TestPeak(t *testing.T) {
	for _, loop := range fmaLoops() {
		if loop.run(1); loop.flops <= 0 {
			t.Errorf("a loop has %d operations", loop.flops)
		}
	}
}
