package sampler

import (
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestIsASampler(t *testing.T) {
	m := tiny(t, "llama")
	trinitytest.Sampler(t, trinitytest.SamplerOptions{Vocab: m.Config.VocabSize}, func(t *testing.T) trinity.Sampler {
		return start(t, m, Options{MaxSequences: 3, PrefillChunk: 2})
	})
}
