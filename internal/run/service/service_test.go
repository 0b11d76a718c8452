package service

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/registry"
)

// Two services would write the same journals.
func TestOneServiceUsesADirectory(t *testing.T) {
	dir := t.TempDir()
	lock, err := durable.TakeLock(dir, "service", "trinity service")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	err = Run(t.Context(), Options{Dir: dir})
	if err == nil || !strings.HasPrefix(err.Error(), "the directory "+dir+" is that of trinity service (process ") {
		t.Errorf("%v", err)
	}
}

// starting is a sampler that starts servers.
type starting struct{ engine.SamplerOpener }

func (starting) Programs(engine.SamplerSpec) []engine.Program { return nil }

// A sampler on servers is refused before anything is opened.
func TestSamplersOnServersAreRefused(t *testing.T) {
	registry.Samplers.Register("starting", "", func() engine.SamplerOpener { return starting{} })
	_, _, err := openBase(t.Context(), &Options{Trainer: "cpu", Sampler: "starting", Say: func(string) {}}, Model{"tiny", tiny})
	if err == nil || !strings.HasPrefix(err.Error(), "the sampler starting samples on servers, which trinity service does not start") {
		t.Errorf("%v", err)
	}
}

// A model without a tokenizer samples, and refuses stop strings, which nobody can look for.
func TestABaseWithoutATokenizer(t *testing.T) {
	b, closing, err := openBase(t.Context(), &Options{Trainer: "cpu", Sampler: "cpu", MaxLen: 16, Say: func(string) {}}, Model{"tiny", tiny})
	if err != nil {
		t.Fatal(err)
	}
	defer closing()
	prompt, p := trinity.Prompt{Tokens: []int32{3, 4}}, trinity.SamplingParams{Temperature: 1, MaxTokens: 2, IgnoreEOS: true}
	if _, err := b.Sampler.Sample(t.Context(), prompt, p); err != nil {
		t.Error(err)
	}
	p.Stop = []string{"x"}
	if _, err := b.Sampler.Sample(t.Context(), prompt, p); err == nil || !strings.Contains(err.Error(), "use stop tokens") {
		t.Errorf("stop strings: %v", err)
	}
}
