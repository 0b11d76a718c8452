package trinity_test

import (
	"context"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
)

// holding notes the Hold of each call, and says that it had computed half of the prompt before.
type holding struct {
	*hasher
	holds []<-chan struct{}
}

func (h *holding) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	h.holds = append(h.holds, p.Hold)
	out, err := h.hasher.Sample(ctx, prompt, p)
	out[0].Reused = len(prompt.Tokens) / 2
	return out, err
}

// Calls that a later one may continue hold their pages until the rollout ends.
func TestTurnsHoldTheirPages(t *testing.T) {
	sampler := &holding{hasher: newHasher()}
	m := talker(sampler.hasher, chatty{})
	ended := make(chan struct{})
	m.Sampler, m.Ended = sampler, ended
	if _, ok := m.PrefillReuse(); ok {
		t.Error("a model that nobody called has reused prompts")
	}
	prompt := []int32{1, 2, 3, 4, 5, 6, 7, 8}
	e, err := m.Generate(t.Context(), prompt)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := m.PrefillReuse(); ok {
		t.Error("the first call counts")
	}
	if err := m.Continue(t.Context(), e, []int32{9}); err != nil {
		t.Fatal(err)
	}
	d := m.Dialogue(nil)
	say(t, d, "hi")
	say(t, d, "and more", func(p *trinity.SamplingParams) { p.Hold = nil })
	if want := []<-chan struct{}{nil, ended, ended, ended}; !slices.Equal(sampler.holds, want) {
		t.Errorf("held %v, want %v", sampler.holds, want)
	}
	all, reused := 0, 0
	for _, call := range sampler.calls[1:] {
		all, reused = all+len(call[0]), reused+len(call[0])/2
	}
	if got, ok := m.PrefillReuse(); !ok || got != float64(reused)/float64(all) {
		t.Errorf("reused %v, want %d of %d", got, reused, all)
	}
}
