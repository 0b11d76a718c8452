package cpu

import (
	"slices"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/sampler"
)

// beside opens an engine and its sampler, which reads the trained weights in place or has a copy.
func beside(t *testing.T, opts Options, inPlace bool) (*Engine, *sampler.Sampler) {
	t.Helper()
	e := open(t, opts)
	s, err := e.openSampler(t.Context(), engine.SamplerSpec{
		Shared: true, InPlace: inPlace, LoRA: opts.LoRA, MaxSequences: 8, MaxModelLen: 64, Beside: e,
	})
	if err != nil {
		t.Fatal(err)
	}
	own := s.(*sampler.Sampler)
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	})
	return e, own
}

// A sampler that reads the trained weights in place draws the tokens of one with a copy, and its log-probabilities, version after
// version, also after a checkpoint was loaded.
func TestASamplerInPlaceDrawsWhatACopyDraws(t *testing.T) {
	for _, name := range slices.Concat([]string{"llama", "llama3_bias_tied", "qwen2", "qwen3", "qwen3_moe"}, newer) {
		shared, inPlace := beside(t, tiny(name), true)
		own, copied := beside(t, tiny(name), false)
		if !shared.SharesWeights() || own.SharesWeights() {
			t.Fatalf("%s: the weights are shared: %t, and with a copy: %t", name, shared.SharesWeights(), own.SharesWeights())
		}
		same := func(version int64) {
			t.Helper()
			prompt := sequences(t, true)[0].Tokens[:6]
			got, want := rollouts(t, inPlace, prompt), rollouts(t, copied, prompt)
			for i := range got {
				if !slices.Equal(got[i].Tokens, want[i].Tokens) || !slices.Equal(got[i].Logprobs, want[i].Logprobs) || got[i].Versions[1] != version {
					t.Errorf("%s, version %d: completion %d of version %d differs", name, version, i, got[i].Versions[1])
				}
			}
		}
		same(0)
		for version := int64(1); version < 3; version++ {
			for _, e := range []*Engine{shared, own} {
				train(t, e, sequences(t, true), 1)
				if err := publish(t.Context(), e, version); err != nil {
					t.Fatal(err)
				}
			}
			same(version)
		}
		dir := t.TempDir()
		if err := own.SaveState(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		again, fresh := beside(t, tiny(name), true)
		if err := again.LoadState(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		inPlace = fresh
		same(2)
	}
}

// From an optimizer step to the next version no request samples: it waits, and has the tokens of that version.
func TestASamplerInPlaceRestsUntilTheNextVersion(t *testing.T) {
	e, s := beside(t, tiny("llama"), true)
	train(t, e, sequences(t, true), 1)
	done := make(chan []trinity.Completion, 1)
	go func() {
		out, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{5, 6, 7}}, trinity.SamplingParams{MaxTokens: 4, IgnoreEOS: true})
		if err != nil {
			t.Error(err)
		}
		done <- out
	}()
	for deadline := time.Now().Add(time.Minute); s.Stats().Queued == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the request was never queued, or was sampled by weights that are no version")
		}
	}
	if err := publish(t.Context(), e, 7); err != nil {
		t.Fatal(err)
	}
	if out := <-done; len(out) != 1 || out[0].Versions != [2]int64{7, 7} {
		t.Errorf("%+v, want tokens of version 7 alone", out)
	}
}

// An engine that closes first leaves its sampler at rest, which then closes.
func TestASamplerInPlaceOutlivesItsEngine(t *testing.T) {
	for _, opts := range []Options{tiny("llama"), adapterOptions("qwen2")} {
		e, s := beside(t, opts, true)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{5, 6, 7}}, trinity.SamplingParams{MaxTokens: 4})
			failed <- err
		}()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; err == nil {
			t.Error("a closed engine's weights were sampled from")
		}
	}
}

// An engine that trains ahead keeps its weights to itself, and a sampler with weights of its own format as well.
func TestWhichSamplersReadInPlace(t *testing.T) {
	ahead := tiny("llama")
	ahead.KeepPublished = true
	if _, err := open(t, ahead).openSampler(t.Context(), engine.SamplerSpec{Shared: true, InPlace: true}); err == nil {
		t.Error("an engine that trains ahead shares the weights that it trains")
	}
	for _, quantization := range []string{"bf16", "int8"} {
		e := open(t, tiny("llama3_bias_tied"))
		s, err := e.openSampler(t.Context(), engine.SamplerSpec{Shared: true, InPlace: true, Quantization: quantization, MaxModelLen: 64})
		if err != nil {
			t.Fatal(err)
		}
		if e.SharesWeights() {
			t.Errorf("a sampler in %s reads weights in f32", quantization)
		}
		rollouts(t, s, []int32{5, 6, 7})
		if err := s.(*sampler.Sampler).Close(); err != nil {
			t.Error(err)
		}
	}
}
