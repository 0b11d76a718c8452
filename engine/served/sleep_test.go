package served_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/served"
	"github.com/trinity-go/trinity/trinitytest/server"
	"github.com/trinity-go/trinity/weights"
)

// sampled samples a few tokens.
func sampled(t *testing.T, s trinity.Sampler) ([2]int64, error) {
	t.Helper()
	out, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3}}, trinity.SamplingParams{MaxTokens: 3})
	if err != nil {
		return [2]int64{}, err
	}
	return out[0].Versions, nil
}

// Servers that share GPUs with the trainer sleep until a version is delivered. A request waits meanwhile:
// the fakes refuse requests, and loads of weights, while they sleep, and to sleep during a request.
func TestServersSleepAndWake(t *testing.T) {
	for name, o := range map[string]server.Options{
		"vllm": {Develops: true, Sleeps: true}, "vllm that fetches": {Develops: true, Fetches: true, Sleeps: true},
		"sglang": {Sleeps: true}, "vllm with an adapter": {Develops: true, LoRA: true, Sleeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.Vocab, o.MaxLen = vocab, 32
			plugin, _, _ := strings.Cut(name, " ")
			fake := starts[plugin](t, own(t), o)
			with, dir := spec(fake.URL), tiny
			if o.LoRA {
				with.LoRA, with.Follows, dir = &engine.LoRASpec{LoraRank: 4}, true, adapter
			}
			s := served.Share(must(t, plugin, with))
			for version := range int64(3) {
				if err := s.Sleep(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n, asleep := fake.Naps(); int64(n) != 2*version+1 || !asleep {
					t.Fatalf("slept %d times, sleeps now: %t", n, asleep)
				}
				answered := make(chan error, 1)
				go func() {
					_, err := sampled(t, s.(trinity.Sampler))
					answered <- err
				}()
				if err := errors.Join(s.LoadWeights(t.Context(), dir, version), <-answered); err != nil {
					t.Fatal(err)
				}
				if versions, err := sampled(t, s.(trinity.Sampler)); err != nil || versions != [2]int64{version, version} {
					t.Errorf("sampled with versions %v: %v", versions, err)
				}
				if err := errors.Join(s.Sleep(t.Context()), s.Wake(t.Context())); err != nil { // for a checkpoint
					t.Fatal(err)
				}
			}
		})
	}
}

// A server that sleeps gets an adapter beside the policy when the next version wakes it.
func TestAdapterForAServerThatSleeps(t *testing.T) {
	fake := starts["vllm"](t, own(t), server.Options{Vocab: vocab, MaxLen: 32, Develops: true, LoRA: true, Sleeps: true})
	with := spec(fake.URL)
	with.LoRA, with.Follows, with.Adapters = &engine.LoRASpec{LoraRank: 4}, true, []string{adapter}
	s := must(t, "vllm", with)
	sleeper := served.Share(s)
	if err := errors.Join(sleeper.Sleep(t.Context()), s.(engine.AdapterLoader).LoadAdapter(t.Context(), "old", adapter, 7)); err != nil {
		t.Fatal(err)
	}
	if has := fake.Adapters(); len(has) > 0 {
		t.Errorf("it has got %q in its sleep", has)
	}
	if err := sleeper.LoadWeights(t.Context(), adapter, 0); err != nil {
		t.Fatal(err)
	}
	out, err := s.Sample(t.Context(), asking, trinity.SamplingParams{MaxTokens: 3, Adapter: "old"})
	if err != nil || out[0].Versions != [2]int64{7, 7} {
		t.Errorf("%+v, %v", out, err)
	}
}

// A server that does not fall asleep or wake up ends the run with its name and the phase. One that sleeps
// on is found by the next request.
func TestServersThatCannotSleep(t *testing.T) {
	for _, plugin := range []string{"vllm", "sglang"} {
		for lie, want := range map[server.Lie]string{
			server.StallsSleep: ": sleep: load_timeout of 300ms passed",
			server.StallsWake:  ": loading version 1 from ",
			server.SleepsOn:    "the engine is to load weights while they sleep",
			"":                 "",
		} {
			fake := starts[plugin](t, own(t), server.Options{Vocab: vocab, MaxLen: 32, Develops: true, Sleeps: true})
			opened, err := open(t, plugin, spec(fake.URL), map[string]any{"load_timeout": 0.3})
			if err != nil {
				t.Fatal(err)
			}
			s := served.Share(opened)
			fake.Tell(lie)
			if err = s.Sleep(t.Context()); err == nil {
				err = s.LoadWeights(t.Context(), tiny, 1)
			}
			if err == nil {
				_, err = sampled(t, opened)
			}
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), fake.URL) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%s, %s: got %v, want %q", plugin, lie, err, want)
			}
			if lie == server.StallsWake && (err == nil || !strings.Contains(err.Error(), "waking weights: ")) {
				t.Errorf("%s: no phase in %v", plugin, err)
			}
		}
	}
	fake := server.VLLM(t, own(t), server.Options{Vocab: vocab, MaxLen: 32, Develops: true})
	s := must(t, "vllm", spec(fake.URL))
	if err := s.(weights.Sleeper).Sleep(t.Context()); err != nil {
		t.Errorf("a server with GPUs of its own: %v", err)
	}
	err := served.Share(s).Sleep(t.Context())
	if err == nil || !strings.Contains(err.Error(), "sleep: ") || !strings.Contains(err.Error(), "404") {
		t.Errorf("a server without sleep mode: %v", err)
	}
}

// A server that ends while it sleeps is started again when its turn comes, is awake then, and gets the
// version.
func TestServerEndsAsleep(t *testing.T) {
	s := &starter{t: t, options: server.Options{Sleeps: true}}
	with := startsOf(s, 1)
	with.Start.Place.Beside = "trainer"
	sampler := served.Hasten(must(t, "vllm", with))
	sleeper := sampler.(weights.Sleeper)
	if err := errors.Join(sleeper.LoadWeights(t.Context(), tiny, 1), sleeper.Sleep(t.Context())); err != nil {
		t.Fatal(err)
	}
	s.started("rollout-0", 1).close()
	if err := sleeper.LoadWeights(t.Context(), tiny, 2); err != nil {
		t.Fatal(err)
	}
	if versions, err := sampled(t, sampler); err != nil || versions != [2]int64{2, 2} {
		t.Errorf("sampled with versions %v: %v", versions, err)
	}
	second := s.started("rollout-0", 2)
	if n, asleep := second.fake.Naps(); n != 0 || asleep || len(second.fake.Loads()) != 1 {
		t.Errorf("slept %d times, sleeps %t, loaded %q", n, asleep, second.fake.Loads())
	}
	closeSampler(t, sampler)
	s.areStopped()
}
