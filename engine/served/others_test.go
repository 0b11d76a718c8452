package served_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/served"
	"github.com/trinity-go/trinity/trinitytest/server"
	"github.com/trinity-go/trinity/weights"
)

var asking = trinity.Prompt{Tokens: []int32{3, 4, 5}}

// Requests name adapters beside the policy, which stay the same when this changes.
func TestAdaptersBesideThePolicy(t *testing.T) {
	const partial = "../cpu/internal/sampler/testdata/adapters/partial"
	oracle := own(t)
	for name, dir := range map[string]string{"old": adapter, "new": partial} {
		if err := oracle.(engine.AdapterLoader).LoadAdapter(t.Context(), name, dir, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, plugin := range []string{"vllm", "sglang"} {
		for _, byTokens := range []bool{false, true} {
			fake := starts[plugin](t, own(t), server.Options{Vocab: vocab, MaxLen: 32, LoRA: true, Tokens: byTokens})
			with := spec(fake.URL)
			with.LoRA, with.Follows, with.Adapters = &engine.LoRASpec{LoraRank: 2}, true, []string{adapter}
			s := served.Hasten(must(t, plugin, with))
			same := func(when, name, as string, version int64) {
				t.Helper()
				p := trinity.SamplingParams{Temperature: 1, MaxTokens: 6, Seed: 3, Adapter: name}
				got, err := s.Sample(t.Context(), asking, p)
				if err != nil {
					t.Fatalf("%s, %s: %v", plugin, when, err)
				}
				p.Adapter = as
				want, err := oracle.Sample(t.Context(), asking, p)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got[0].Logprobs, want[0].Logprobs) || got[0].Versions != [2]int64{version, version} {
					t.Errorf("%s, %s: adapter %q gives %v, want %v; versions %v", plugin, when, name, got[0].Logprobs, want[0].Logprobs,
						got[0].Versions)
				}
			}
			loader := s.(engine.AdapterLoader)
			if err := loader.LoadAdapter(t.Context(), "old", adapter, 7); err != nil {
				t.Fatal(plugin, err)
			}
			for version := range int64(3) {
				if err := s.(weights.Loader).LoadWeights(t.Context(), partial, version); err != nil {
					t.Fatal(plugin, err)
				}
			}
			same("beside the policy", "old", "old", 7)
			same("the policy", "", "new", 2)
			same("the base", trinity.BaseAdapter, trinity.BaseAdapter, 2)
			fake.Tell(server.Restarted)
			same("after a restart", "old", "old", 7)
			same("the policy after a restart", "", "new", 2)
			if err := loader.LoadAdapter(t.Context(), "old", partial, 8); err != nil {
				t.Fatal(plugin, err)
			}
			same("replaced", "old", "new", 8)
			if n := len(fake.Adapters()); n != 2 || !slices.Equal(loader.Adapters(), []string{"old"}) {
				t.Errorf("%s: the server has %q, beside the policy are %q", plugin, fake.Adapters(), loader.Adapters())
			}
			if err := errors.Join(loader.LoadAdapter(t.Context(), "b", adapter, 0), loader.DropAdapter(t.Context(), "old")); err != nil {
				t.Error(plugin, err)
			}
			for _, name := range []string{"old", "never"} {
				_, err := s.Sample(t.Context(), asking, trinity.SamplingParams{MaxTokens: 3, Adapter: name})
				if !errors.Is(err, trinity.ErrUnknownAdapter) || !errors.Is(loader.DropAdapter(t.Context(), name), trinity.ErrUnknownAdapter) {
					t.Errorf("%s: adapter %q: %v", plugin, name, err)
				}
			}
			closeSampler(t, s)
			if left := fake.Adapters(); len(left) > 0 {
				t.Errorf("%s: the server still has %q", plugin, left)
			}
		}
	}
}

// What cannot be an adapter beside the policy is refused before a server gets it.
func TestAdaptersThatServersDoNotGet(t *testing.T) {
	fake := starts["vllm"](t, own(t), server.Options{Vocab: vocab, MaxLen: 32, LoRA: true})
	with := spec(fake.URL)
	with.LoRA, with.Follows = &engine.LoRASpec{LoraRank: 4}, true
	loader, without := must(t, "vllm", with).(engine.AdapterLoader), must(t, "vllm", spec(fake.URL)).(engine.AdapterLoader)
	for _, c := range []struct {
		of        engine.AdapterLoader
		name, dir string
	}{{loader, "", adapter}, {loader, trinity.BaseAdapter, adapter}, {loader, "b", tiny}, {without, "b", adapter}} {
		if err := c.of.LoadAdapter(t.Context(), c.name, c.dir, 0); err == nil {
			t.Errorf("%q from %s is an adapter of the servers", c.name, c.dir)
		}
		if len(c.of.Adapters()) > 0 || len(fake.Loads()) > 0 {
			t.Errorf("the sampler has %q, the server was given %q", c.of.Adapters(), fake.Loads())
		}
	}
	fake.Tell(server.Unavailable)
	if err := loader.LoadAdapter(t.Context(), "b", adapter, 0); err == nil || len(loader.Adapters()) > 0 {
		t.Errorf("the sampler has %q of a server that does not answer: %v", loader.Adapters(), err)
	}
}
