package main

import (
	"math"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

func TestGroupOf(t *testing.T) {
	const k, e, s = module + "/engine/cpu/internal/kernel.", module + "/engine/cpu.", module + "/engine/cpu/internal/sampler."
	for _, c := range []struct {
		want  string
		stack []string
	}{
		{"matrix tiles", []string{k + "avx2Tile6x1", k + "(*kStep).panels", k + "(*kernels).block"}},
		{"matrix tiles", []string{k + "avx512Tile1x4BF16", k + "(*kStep).panels"}},
		{"matrix tiles", []string{k + "(*kernels).product", k + "MatMulPacked.func1", k + "(*Pool).work"}},
		{"attention", []string{"runtime.memmove", k + "packPairRows", k + "(*block).packValues"}},
		{"packing and transposing", []string{k + "avx2Transpose", k + "(*kernels).packTransposed"}},
		{"packing and transposing", []string{k + "avx512DealTile", k + "(*kernels).packGroups", k + "(*kernels).blockProduct"}},
		{"matrix tiles", []string{k + "(*kernels).rangedProduct.func1", k + "(*Pool).share"}},
		{"attention", []string{k + "avx2SoftGrad", k + "(*gradBlock).backward"}},
		{"attention", []string{k + "avx2ExpSum", k + "(*kernels).softmaxRow", k + "(*block).attend"}},
		{"attention", []string{k + "(*decoder).run", k + "(*Pool).Run"}},
		{"AdamW", []string{k + "avx2Adamw", k + "(*kernels).adamwRange", k + "AdamW.Step.func1"}},
		{"norms", []string{k + "avx2NormDX", k + "(*kernels).normDXRow", k + "RMSNormBackward.func1"}},
		{"loss and logits", []string{k + "avx2LogitGrad", k + "(*kernels).logitGradRow", k + "LogitBackward.func1"}},
		{"drawing tokens", []string{s + "(*drawer).pick", s + "(*drawer).draw"}},
		{"drawing tokens", []string{k + "avx2Max", k + "Max", s + "(*drawer).draw"}},
		{"elementwise", []string{k + "avx2Swiglu", k + "gating.row", k + "Gate.Forward.func1"}},
		{"sharing out work", []string{"runtime.futex", "runtime.notesleep", k + "(*job).wait", k + "(*Pool).Run"}},
		{"sampler", []string{"runtime.mapaccess1", s + "(*scheduler).admit"}},
		{"elementwise", []string{"runtime.memclrNoHeapPointers", e + "clearFlat.func1"}},
		{"engine", []string{e + "(*head).takeGradient"}},
		{"rest of the program", []string{"internal/runtime/maps.(*Iter).Next", module + "/buffer.(*Queue).Put"}},
		{"rest of the program", []string{"encoding/json.Marshal", "main.say"}},
		{goRuntime, []string{"runtime.futex", "runtime.mcall"}},
		{goRuntime, nil},
	} {
		if got, _ := groupOf(c.stack); got != c.want {
			t.Errorf("%q is of group %q, want %q", c.stack, got, c.want)
		}
	}
}

func TestPartsOf(t *testing.T) {
	p := &profile.Profile{DurationNanos: 1000, Sample: []*profile.Sample{
		sampleOf(900, module+"/engine/cpu/internal/kernel.avx2Tile6x1"), sampleOf(300, module+"/engine/cpu/internal/kernel.avx2Adamw"),
		sampleOf(100, module+"/engine/cpu/internal/kernel.avx2Tile4x1"),
	}}
	parts := partsOf(p, 2)
	want := []part{{Group: "matrix tiles", Share: 0.5}, {Group: waiting, Share: 0.35}, {Group: "AdamW", Share: 0.15}}
	if len(parts) != len(want) {
		t.Fatalf("parts %v, want %v", parts, want)
	}
	for i := range want {
		if parts[i].Group != want[i].Group || math.Abs(parts[i].Share-want[i].Share) > 1e-9 {
			t.Errorf("part %d is %v, want %v", i, parts[i], want[i])
		}
	}
	table := timeTable{Workload: "prefill", Unit: "tok/s", Value: 7, Parts: parts}
	if row := "| 50.0 % | matrix tiles | kernel.avx2Tile6x1 45.0 %, kernel.avx2Tile4x1 5.0 % |"; !strings.Contains(table.text(), row) {
		t.Errorf("table is\n%s\nwant it to have %s", table.text(), row)
	}
}

func sampleOf(nanoseconds int64, name string) *profile.Sample {
	return &profile.Sample{Value: []int64{1, nanoseconds}, Location: []*profile.Location{{Line: []profile.Line{{Function: &profile.Function{Name: name}}}}}}
}
