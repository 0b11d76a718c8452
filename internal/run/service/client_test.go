package service_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/serve/tinker"
	"github.com/trinity-go/trinity/registry"
	_ "github.com/trinity-go/trinity/standard"
	"github.com/trinity-go/trinity/trinitytest"
)

const tiny = "../../../model/testdata/tiny/llama"

const (
	length = 48
	vocab  = 10
)

// serve serves the tiny model until the test ends, behind change, and returns the address.
func serve(t *testing.T, change func(http.Handler) http.Handler) string {
	t.Helper()
	dir := t.TempDir()
	trainers, samplers := built(t, "cpu")
	sampler, err := samplers.OpenSampler(t.Context(), engine.SamplerSpec{ModelPath: tiny, MaxSequences: 8, MaxModelLen: length + 2})
	if err != nil {
		t.Fatal(err)
	}
	s, err := tinker.New(tinker.Options{Dir: dir, Alpha: 32, Gap: time.Minute, Hold: 10 * time.Second, Say: func(string) {}, Bases: []*tinker.Base{{
		Name: "tiny", Tokenizer: "tiny", Arch: "llama", Vocab: vocab, MaxLen: length, MaxScored: length + 2, MaxRank: 16, MicroTokens: length,
		Sampler: sampler.(tinker.Sampler),
		Open: func(ctx context.Context, lora *engine.LoRASpec, seed uint64) (engine.Trainer, error) {
			return trainers.OpenTrainer(ctx, engine.TrainerSpec{
				ModelPath: tiny, LoRA: lora, Seed: seed, Train: true, MicroTokens: length, MaxModelLen: length + 1,
			})
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	handler := archives(t, dir, s.Handler())
	if change != nil {
		handler = change(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = sampler.(io.Closer).Close()
	})
	return server.URL
}

// archives serves the archives of the checkpoints below dir, at the address to which the API redirects.
func archives(t *testing.T, dir string, rest http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	mux.HandleFunc("GET /api/v1/training_runs/{run}/checkpoints/{kind}/{name}/archive", func(w http.ResponseWriter, r *http.Request) {
		run := strings.ReplaceAll(r.PathValue("run"), ":", "_")
		http.Redirect(w, r, "/files/"+run+"/"+r.PathValue("kind")+"/"+r.PathValue("name"), http.StatusFound)
	})
	mux.HandleFunc("GET /files/", func(w http.ResponseWriter, r *http.Request) {
		archive := tar.NewWriter(w)
		if err := errors.Join(archive.AddFS(os.DirFS(filepath.Join(dir, strings.TrimPrefix(r.URL.Path, "/files/")))), archive.Close()); err != nil {
			t.Error(err)
		}
	})
	return mux
}

func built(t *testing.T, name string) (engine.TrainerOpener, engine.SamplerOpener) {
	t.Helper()
	trainers, err := registry.Trainers.Build(name)
	if err != nil {
		t.Fatal(err)
	}
	samplers, err := registry.Samplers.Build(name)
	if err != nil {
		t.Fatal(err)
	}
	return trainers, samplers
}

// adapter is what both engines train: the layers.
var adapter = engine.LoRASpec{LoraRank: 4, LoraAlpha: 32, TargetModules: engine.Names{"all-linear"}, BaseModelName: "tiny"}

// open opens an engine with the sampler beside it: that of the service at an address, or the embedded one.
func open(t *testing.T, address string, change func(*engine.TrainerSpec)) trinitytest.Trained {
	t.Helper()
	name, service := "cpu", engine.ServiceSpec{}
	if address != "" {
		name = "tinker"
		service = engine.ServiceSpec{BaseModel: "tiny", Address: address, Seed: 7, MLP: true, Attention: true}
	}
	trainers, samplers := built(t, name)
	spec := engine.TrainerSpec{
		ModelPath: tiny, LoRA: &adapter, Seed: 7, Train: true, Reference: true, Ahead: true, MicroTokens: length, MaxModelLen: length,
		Service: service,
	}
	if change != nil {
		change(&spec)
	}
	e, err := trainers.OpenTrainer(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	s, err := samplers.OpenSampler(t.Context(), engine.SamplerSpec{
		ModelPath: tiny, LoRA: &adapter, MaxSequences: 8, MaxModelLen: length, Shared: true, Beside: e, Service: service, Text: letters,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.(io.Closer).Close() })
	return trinitytest.Trained{Engine: e, Sampler: s, Targets: true, Plain: address != ""}
}

// letters decodes each token as a letter.
func letters(tokens []int32) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteRune('A' + t)
	}
	return b.String()
}

func TestServiceIsAnEngine(t *testing.T) {
	address := serve(t, nil)
	trinitytest.Engine(t, func(t *testing.T) trinitytest.Trained { return open(t, address, nil) })
}

func TestServiceIsASampler(t *testing.T) {
	address := serve(t, nil)
	trinitytest.Sampler(t, trinitytest.SamplerOptions{Vocab: vocab}, func(t *testing.T) trinity.Sampler {
		return open(t, address, nil).Sampler
	})
}

// surrogate is a loss whose derivative depends on the log-probabilities.
type surrogate struct{}

func (surrogate) Streams() trinity.Streams { return trinity.Streams{} }

func (surrogate) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	grads, sum := make([]trinity.TokenGrads, len(now)), 0.0
	for i, x := range b.Experiences {
		grads[i].Logprob = make([]float32, len(x.Tokens))
		for t, trained := range x.Mask {
			if lp := float64(now[i].Logprob[t]); trained {
				a := float64(1 - 2*(t%2))
				sum -= a * math.Exp(lp)
				grads[i].Logprob[t] = float32(-a * math.Exp(lp))
			}
		}
	}
	return grads, trinity.Metrics{"loss": sum}, nil
}

func batch() *trinity.Batch {
	b := &trinity.Batch{Step: 1}
	for i := range 7 {
		x := &trinity.Experience{PromptLen: 3, Temperature: 1}
		for t := range 8 + 5*(i%3) {
			x.Tokens = append(x.Tokens, int32((5*t+i*t*t+i)%vocab))
			x.Mask = append(x.Mask, t >= 3 && t%4 != 0)
		}
		x.ID.Run = i
		b.Experiences = append(b.Experiences, x)
	}
	b.Whole = b.Experiences
	return b
}

// TestServiceEqualsTheEmbeddedEngine trains the same steps here and through a service, in one request and in many.
func TestServiceEqualsTheEmbeddedEngine(t *testing.T) {
	address := serve(t, nil)
	near := func(a, b, within float64) bool { return math.Abs(a-b) <= within*max(1, math.Abs(a)) }
	for name, change := range map[string]func(*engine.TrainerSpec){
		"one request": nil, "many": func(s *engine.TrainerSpec) { s.Service.ChunkBytes = 300 },
	} {
		t.Run(name, func(t *testing.T) {
			here, there := open(t, "", nil), open(t, address, change)
			for step := range 3 {
				var norms, losses [2]float64
				var lps [2][]trinity.TokenStats
				var replies [2][]trinity.Completion
				for i, e := range []trinitytest.Trained{here, there} {
					m, err := e.Engine.ForwardBackward(t.Context(), batch(), surrogate{})
					if err != nil {
						t.Fatal(err)
					}
					losses[i] = m["loss"]
					if m, err = e.Engine.OptimStep(t.Context(), trinity.OptimParams{LR: 0.01, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, ClipNorm: 1}); err != nil {
						t.Fatal(err)
					}
					norms[i] = m["grad_norm"]
					if lps[i], err = e.Engine.Forward(t.Context(), batch(), trinity.Streams{}); err != nil {
						t.Fatal(err)
					}
					p := e.Engine.(engine.Publisher)
					if err := p.Offer(t.Context(), int64(step+1)); err != nil {
						t.Fatal(err)
					}
					if _, err := p.Adopt(t.Context()); err != nil {
						t.Fatal(err)
					}
					params := trinity.SamplingParams{N: 2, Temperature: 1, MaxTokens: 9, Seed: 1<<63 + 5, Stop: []string{"Q"}}
					if replies[i], err = e.Sampler.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3, 4, 5}}, params); err != nil {
						t.Fatal(err)
					}
				}
				if !near(norms[0], norms[1], 1e-6) || !near(losses[0], losses[1], 1e-6) || norms[0] == 0 {
					t.Errorf("step %d: gradient norms %v, losses %v; want the same", step, norms, losses)
				}
				for i := range lps[0] {
					for j, lp := range lps[0][i].Logprob {
						if !near(float64(lp), float64(lps[1][i].Logprob[j]), 1e-5) {
							t.Fatalf("step %d: log-probability %v here, %v there", step, lp, lps[1][i].Logprob[j])
						}
					}
				}
				for i, a := range replies[0] {
					if b := replies[1][i]; !slices.Equal(a.Tokens, b.Tokens) || a.FinishReason != b.FinishReason || a.Versions != b.Versions {
						t.Errorf("step %d: the samplers gave\n%v\n%v", step, a, b)
					}
				}
			}
			a, err := here.Engine.Reference(t.Context(), batch())
			if err != nil {
				t.Fatal(err)
			}
			b, err := there.Engine.Reference(t.Context(), batch())
			if err != nil {
				t.Fatal(err)
			}
			for i := range a {
				for j := range a[i].Logprob {
					if !near(float64(a[i].Logprob[j]), float64(b[i].Logprob[j]), 1e-5) {
						t.Fatalf("reference %v here, %v there", a[i].Logprob[j], b[i].Logprob[j])
					}
				}
			}
		})
	}
}
