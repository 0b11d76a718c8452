package served_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest/server"
)

// routing returns a sampler of a mixture that returns experts.
func routing(t *testing.T) trinity.Sampler {
	t.Helper()
	opener, err := registry.Samplers.Build("cpu", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := opener.OpenSampler(t.Context(), engine.SamplerSpec{
		ModelPath: mixture, MaxSequences: 8, MaxModelLen: 32, Record: engine.RecordSpec{Routes: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSampler(t, s) })
	return s
}

func TestServersReturnExperts(t *testing.T) {
	own := routing(t)
	p := trinity.SamplingParams{Temperature: 1, MaxTokens: 6, IgnoreEOS: true, Seed: 3}
	prompt := trinity.Prompt{Tokens: []int32{3, 9, 4, 33}}
	want, err := own.Sample(t.Context(), prompt, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"vllm", "vllm by tokens", "sglang"} {
		o := server.Options{Vocab: vocab, MaxLen: 32, Routed: [2]int{1, 2}, Tokens: kind == "vllm by tokens"}
		start, plugin := server.VLLM, "vllm"
		if kind == "sglang" {
			start, plugin = server.SGLang, "sglang"
		}
		fake := start(t, own, o)
		with := spec(fake.URL)
		with.ModelPath, with.Record.Routes = mixture, true
		s := must(t, plugin, with)
		streamed := p
		streamed.OnToken = func(int, trinity.Sampled) {}
		for _, p := range []trinity.SamplingParams{p, streamed} {
			got, err := s.Sample(t.Context(), prompt, p)
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			if !slices.Equal(got[0].Tokens, want[0].Tokens) || !slices.Equal(got[0].Experts, want[0].Experts) {
				t.Errorf("%s: experts %v of %v; want %v of %v", kind, got[0].Experts, got[0].Tokens, want[0].Experts, want[0].Tokens)
			}
		}
		known := prompt
		known.Experts = []byte{7, 0, 7, 1} // of two tokens, as an earlier turn had them
		got, err := s.Sample(t.Context(), known, p)
		if joined := slices.Concat(known.Experts, want[0].Experts[4:]); err != nil || !slices.Equal(got[0].Experts, joined) {
			t.Errorf("%s: a later turn: %v; want %v", kind, err, joined)
		}
		for lie, why := range map[server.Lie]string{
			server.NoExperts: "it returned no experts", server.FewExperts: "its experts (routed_experts)",
			server.FarExperts: "expert 200, and the model has experts 0 to 7",
		} {
			fake.Tell(lie)
			var failed *trinity.RolloutError
			if _, err := s.Sample(t.Context(), prompt, p); !errors.As(err, &failed) || !strings.Contains(err.Error(), why) {
				t.Errorf("%s %s: %v; want a failed rollout: %s", kind, lie, err, why)
			}
			if _, err := open(t, plugin, with, nil); err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s %s: opened: %v", kind, lie, err)
			}
		}
	}
}
