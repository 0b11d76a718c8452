package served_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	_ "github.com/trinity-go/trinity/engine/cpu" // whose sampler the servers have
	_ "github.com/trinity-go/trinity/engine/served"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/serve/openai"
	"github.com/trinity-go/trinity/trinitytest"
)

const (
	tiny     = "../cpu/testdata/llama"
	vocab    = 64
	tolerate = 1e-6 // nats
)

// own returns the sampler that a server has.
func own(t *testing.T) trinity.Sampler {
	t.Helper()
	opener, err := registry.Samplers.Build("cpu", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := opener.OpenSampler(t.Context(), trinity.SamplerSpec{ModelPath: tiny, MaxSequences: 8, MaxModelLen: 32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSampler(t, s) })
	return s
}

func closeSampler(t *testing.T, s trinity.Sampler) {
	if err := s.(interface{ Close() error }).Close(); err != nil {
		t.Error(err)
	}
}

// spec is that of a run that trains on what servers sample.
func spec(urls ...string) trinity.SamplerSpec {
	return trinity.SamplerSpec{ModelPath: tiny, MaxSequences: 8, MaxModelLen: 32, Servers: urls, Record: true, Patience: time.Minute}
}

func open(t *testing.T, kind string, s trinity.SamplerSpec, args map[string]any) (trinity.Sampler, error) {
	t.Helper()
	opener, err := registry.Samplers.Build(kind, args)
	if err != nil {
		t.Fatal(err)
	}
	out, err := opener.OpenSampler(t.Context(), s)
	if err == nil {
		t.Cleanup(func() { closeSampler(t, out) })
	}
	return out, err
}

// Mode serve is a server like any other.
func TestOwnServerIsASampler(t *testing.T) {
	trinitytest.Sampler(t, trinitytest.SamplerOptions{Vocab: vocab, Tolerance: tolerate}, func(t *testing.T) trinity.Sampler {
		served := &openai.Served{Name: "m", Sampler: own(t), Renderer: trinitytest.Chat{}, MaxLen: 32}
		api := &openai.Server{
			Name: "m", Model: served.Of, Renderer: trinitytest.Chat{}, VocabSize: vocab, Waiting: 256, Timeout: time.Minute,
			Token: "key", Say: func(string) {},
		}
		web := httptest.NewServer(api.Handler())
		t.Cleanup(web.Close)
		with := spec(web.URL + "/v1")
		with.Key = "key"
		s, err := open(t, "vllm", with, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
