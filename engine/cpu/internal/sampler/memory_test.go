package sampler

import (
	"testing"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

func TestPlanIsWhatIsTaken(t *testing.T) {
	for _, opts := range []Options{{}, {MaxSequences: 3, MaxModelLen: 40}, {Storage: kernel.BF16, MaxTokens: 640, PrefillChunk: 16}} {
		cfg := *tiny(t, "llama").Config
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
