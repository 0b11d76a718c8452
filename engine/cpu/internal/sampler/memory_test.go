package sampler

import (
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// Keys and values take half the bytes beside rounded weights, and twice as many tokens fit where the default bounds them.
func TestRoundedCacheTakesHalf(t *testing.T) {
	cfg := *tiny(t, "llama").Config
	cache := func(opts Options) int64 {
		parts, err := Plan(cfg, opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			if p.Kind == "KV cache" {
				return p.Bytes
			}
		}
		return 0
	}
	for _, storage := range []kernel.Storage{kernel.BF16, kernel.Int8} {
		if whole, half := cache(Options{MaxTokens: 4096}), cache(Options{MaxTokens: 4096, Storage: storage}); 2*half != whole {
			t.Errorf("storage %d: %d bytes of %d in float32", storage, half, whole)
		}
		cfg := cfg
		cfg.MaxPositions = 16384
		f32, err := Options{}.withDefaults(&cfg)
		rounded, err2 := Options{Storage: storage}.withDefaults(&cfg)
		if err != nil || err2 != nil || f32.MaxTokens != 65536 || rounded.MaxTokens != 2*f32.MaxTokens {
			t.Errorf("storage %d: %d tokens, %d in float32 (%v, %v)", storage, rounded.MaxTokens, f32.MaxTokens, err2, err)
		}
	}
}

func TestPlanIsWhatIsTaken(t *testing.T) {
	for i, opts := range []Options{
		{}, {MaxSequences: 3, MaxModelLen: 40}, {Storage: kernel.BF16, MaxTokens: 640, PrefillChunk: 16}, {InPlace: true}, {InPlace: true}, {},
		{Storage: kernel.Int8}, {InPlace: true},
	} {
		name := []string{"llama", "llama", "gemma3_text", "lfm2"}[i/2]
		cfg := *tiny(t, name).Config
		s, err := New(cfg, opts)
		if err != nil {
			t.Fatal(err)
		}
		taken := s.arena.Bytes()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		parts, err := Plan(cfg, opts)
		if err != nil {
			t.Fatal(err)
		}
		var sum int64
		for _, p := range parts {
			if p.Bytes <= 0 {
				t.Errorf("%s: %d bytes", p.Kind, p.Bytes)
			}
			if p.Kind != "sampler's scratch" {
				sum += p.Bytes
			}
		}
		if sum != taken {
			t.Errorf("%+v: %d bytes planned, %d taken", opts, sum, taken)
		}
	}
	if _, err := Plan(*tiny(t, "llama").Config, Options{MaxSequences: -1}); err == nil {
		t.Error("options that cannot work were planned")
	}
}

// Each token of the cache takes room for what convolutions read, whatever the storage of weights.
func TestPlanCountsConvolutions(t *testing.T) {
	cfg := *tiny(t, "lfm2").Config // two layers with convolutions, one with attention
	alone := cfg
	alone.ShortConv, alone.NumLayers = nil, 1
	for _, storage := range []kernel.Storage{kernel.F32, kernel.BF16, kernel.Int8} {
		cache := func(cfg model.Config) engine.MemoryPart {
			parts, err := Plan(cfg, Options{MaxTokens: 4096, Storage: storage})
			if err != nil {
				t.Fatal(err)
			}
			return parts[slices.IndexFunc(parts, func(p engine.MemoryPart) bool { return p.Kind == "KV cache" })]
		}
		whole, attention := cache(cfg), cache(alone)
		if more := whole.Bytes - attention.Bytes; more != 4096*2*4*int64(cfg.HiddenSize) || !strings.Contains(whole.Why, "convolutions") {
			t.Errorf("storage %d: %d bytes for convolutions: %s", storage, more, whole.Why)
		}
	}
}

// Weights that are read where they are need no room to be packed.
func TestPlanInPlacePacksNothing(t *testing.T) {
	cfg := *tiny(t, "llama").Config
	scratch := func(opts Options) int64 {
		parts, err := Plan(cfg, opts)
		if err != nil {
			t.Fatal(err)
		}
		return parts[slices.IndexFunc(parts, func(p engine.MemoryPart) bool { return p.Kind == "sampler's scratch" })].Bytes
	}
	if own, shared := scratch(Options{}), scratch(Options{InPlace: true}); own-shared != 4*int64(largestStage(&cfg)) {
		t.Errorf("scratch of %d bytes, and of %d in place", own, shared)
	}
}
