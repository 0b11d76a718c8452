package sampler

import (
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
)

// TestObserve: a step tells of its phases in order, and a sampler that is observed gives the same tokens.
func TestObserve(t *testing.T) {
	m := tiny(t, "llama")
	s := start(t, m, Options{})
	params := trinity.SamplingParams{Temperature: 1, MaxTokens: 3, IgnoreEOS: true, Seed: 1}
	want := sample(t, s, []int32{1, 2, 3}, params)
	var marks []string
	s.Observe(func(phase string) { marks = append(marks, phase) })
	if got := sample(t, s, []int32{1, 2, 3}, params); !same(got, want) {
		t.Errorf("observed, the sampler gives %v, not %v", got, want)
	}
	s.Observe(nil)
	step := []string{"begin"}
	for range m.Config.NumLayers {
		step = append(step, "rest", "qkv", "rest", "store", "attention", "out", "rest", "gate_up", "rest", "down")
	}
	step = append(step, "rest", "head", "draw", "rest", "end")
	last := marks[len(marks)-len(step):]
	if !slices.Equal(last, step) {
		t.Errorf("a step marks %q, want %q", last, step)
	}
	before := len(marks)
	if sample(t, s, []int32{1, 2, 3}, params); len(marks) != before {
		t.Error("a sampler marks phases that nobody observes any more")
	}
}
