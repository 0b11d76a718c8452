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
	"sync/atomic"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/engine"
	_ "github.com/trinity-go/trinity/engine/cpu"
	_ "github.com/trinity-go/trinity/engine/tinker"
	"github.com/trinity-go/trinity/internal/serve/tinker"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/weights"
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
	o := tinker.Options{Dir: dir, Alpha: 32, Gap: time.Minute, Hold: 10 * time.Second, Say: func(string) {}}
	o.Bases = []*tinker.Base{{
		Name: "tiny", Tokenizer: "tiny", Arch: "llama", Vocab: vocab, EOS: []int32{2}, MaxLen: length, MaxScored: length + 2, MaxRank: 16,
		MicroTokens: length, Sampler: sampler.(tinker.Sampler),
		Open: func(ctx context.Context, lora *engine.LoRASpec, seed uint64) (engine.Trainer, error) {
			return trainers.OpenTrainer(ctx, engine.TrainerSpec{
				ModelPath: tiny, LoRA: lora, Seed: seed, Train: true, MicroTokens: length, MaxModelLen: length + 1,
			})
		},
	}}
	s, err := tinker.New(o)
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
		files := os.DirFS(filepath.Join(dir, strings.TrimPrefix(r.URL.Path, "/files/")))
		if err := errors.Join(archive.AddFS(files), archive.Close()); err != nil {
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
	return trinitytest.Trained{Engine: e, Sampler: s, Targets: true, Plain: address != "", Remote: address != ""}
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
	trinitytest.Sampler(t, trinitytest.SamplerOptions{Vocab: vocab, Unbiased: true}, func(t *testing.T) trinity.Sampler {
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
					adam := trinity.OptimParams{LR: 0.01, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, ClipNorm: 1}
					if m, err = e.Engine.OptimStep(t.Context(), adam); err != nil {
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
					b := replies[1][i]
					if !slices.Equal(a.Tokens, b.Tokens) || a.FinishReason != b.FinishReason || a.Versions != b.Versions {
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

// TestRepliesEndAsOnTheEmbeddedEngine samples with each way to end a reply.
func TestRepliesEndAsOnTheEmbeddedEngine(t *testing.T) {
	here, there := open(t, "", nil), open(t, serve(t, nil), nil)
	for _, p := range []trinity.SamplingParams{
		{}, {StopTokens: []int32{2}}, {StopTokens: []int32{2, 5}}, {StopTokens: []int32{5}}, {IgnoreEOS: true},
		{IgnoreEOS: true, StopTokens: []int32{2}}, {IgnoreEOS: true, StopTokens: []int32{2, 5}},
		{Stop: []string{"DE", "H"}}, {Stop: []string{"CC"}, StopTokens: []int32{2, 7}},
	} {
		stopped := 0
		for seed := range uint64(12) {
			p.Temperature, p.MaxTokens, p.Seed, p.N = 1, 20, seed, 2
			var replies [2][]trinity.Completion
			for i, e := range []trinitytest.Trained{here, there} {
				var err error
				if replies[i], err = e.Sampler.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3, 4, 5}}, p); err != nil {
					t.Fatal(err)
				}
			}
			for i, a := range replies[0] {
				b := replies[1][i]
				if !slices.Equal(a.Tokens, b.Tokens) || a.FinishReason != b.FinishReason || len(b.Logprobs) != len(b.Tokens) {
					t.Errorf("%+v:\n%v %s\n%v %s", p, a.Tokens, a.FinishReason, b.Tokens, b.FinishReason)
				}
				if a.FinishReason == "stop" {
					stopped++
				}
			}
		}
		if free := p.IgnoreEOS && len(p.StopTokens) < 2; (stopped == 0) != free {
			t.Errorf("%+v: %d replies stopped", p, stopped)
		}
	}
}

// TestServersLossIsTheRunsOwn trains a step with trinity_ppo, which the service computes, and with the same loss here.
func TestServersLossIsTheRunsOwn(t *testing.T) {
	var passes atomic.Int64
	address := serve(t, func(rest http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/forward_backward") {
				passes.Add(1)
			}
			rest.ServeHTTP(w, r)
		})
	})
	policy, err := loss.PolicyLosses.Build("ppo", map[string]any{"loss_agg_mode": "seq-mean-token-mean"})
	if err != nil {
		t.Fatal(err)
	}
	kl, err := loss.KLs.Build("k2", map[string]any{"kl_coef": 0.1})
	if err != nil {
		t.Fatal(err)
	}
	own := loss.NewComposite(policy, kl, nil)
	step := func(change func(*engine.TrainerSpec)) (norm, clipped float64) {
		e, b := open(t, address, change), batch()
		stats, err := e.Engine.Forward(t.Context(), b, trinity.Streams{})
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range b.Experiences {
			x.Logprobs, x.RefLogprobs = slices.Clone(stats[i].Logprob), slices.Clone(stats[i].Logprob)
			x.Advantages = make([]float32, len(x.Tokens))
			for t := range x.Tokens {
				x.Advantages[t] = float32(i%3) - 0.9
				if x.Mask[t] {
					x.Logprobs[t] += float32(t%5-2) * 0.7 // some ratios are clipped, some on both sides
					x.RefLogprobs[t] -= 0.25
				}
			}
		}
		passes.Store(0)
		m, err := e.Engine.ForwardBackward(t.Context(), b, own)
		if err != nil {
			t.Fatal(err)
		}
		done, err := e.Engine.OptimStep(t.Context(), trinity.OptimParams{LR: 0.01})
		if err != nil {
			t.Fatal(err)
		}
		return done["grad_norm"], m["pg_clipfrac"]
	}
	norm, _ := step(nil)
	if n := passes.Load(); n != 2 {
		t.Errorf("the run's own loss takes %d requests, want 2", n)
	}
	served, clipped := step(func(s *engine.TrainerSpec) {
		s.Service.ServerLoss = "trinity_ppo"
		s.Service.LossConfig = map[string]float64{"clip_range": 0.2, "clip_ratio_c": 3, "kl_coef": 0.1}
	})
	if n := passes.Load(); n != 1 {
		t.Errorf("the service's loss takes %d requests, want 1", n)
	}
	if math.Abs(norm-served) > 1e-6*norm || clipped == 0 {
		t.Errorf("gradient norms %v here, %v there, clipped %v", norm, served, clipped)
	}
}

// TestASamplerOfAnotherProcessFollows gives a sampler without a trainer the names of versions.
func TestASamplerOfAnotherProcessFollows(t *testing.T) {
	address := serve(t, nil)
	e := open(t, address, nil)
	_, samplers := built(t, "tinker")
	s, err := samplers.OpenSampler(t.Context(), engine.SamplerSpec{
		ModelPath: tiny, LoRA: &adapter, MaxSequences: 8, MaxModelLen: length, Follows: true,
		Service: engine.ServiceSpec{BaseModel: "tiny", Address: address},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.(io.Closer).Close()
	p := trinity.SamplingParams{Temperature: 1, MaxTokens: 8, Seed: 1}
	for version := range int64(3) {
		if _, err := e.Engine.ForwardBackward(t.Context(), batch(), surrogate{}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Engine.OptimStep(t.Context(), trinity.OptimParams{LR: 0.05, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8}); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := e.Engine.(engine.VersionWriter).SaveVersion(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		if err := s.(weights.Loader).LoadWeights(t.Context(), dir, version); err != nil {
			t.Fatal(err)
		}
		publisher := e.Engine.(engine.Publisher)
		if err := publisher.Offer(t.Context(), version); err != nil {
			t.Fatal(err)
		}
		if _, err := publisher.Adopt(t.Context()); err != nil {
			t.Fatal(err)
		}
		var replies [2][]trinity.Completion
		for i, one := range []trinity.Sampler{s, e.Sampler} {
			if replies[i], err = one.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3, 4, 5}}, p); err != nil {
				t.Fatal(err)
			}
		}
		a, b := replies[0][0], replies[1][0]
		if !slices.Equal(a.Tokens, b.Tokens) || !slices.Equal(a.Logprobs, b.Logprobs) || a.Versions != b.Versions {
			t.Errorf("version %d: %v and %v", version, a, b)
		}
	}
	err = s.(weights.Loader).LoadWeights(t.Context(), t.TempDir(), 9)
	if err == nil || !strings.Contains(err.Error(), "names no checkpoint") {
		t.Errorf("a directory without weights: %v", err)
	}
}

// TestStatesThatARunNoLongerNeedsGo removes what the service has of a state, and of no other one.
func TestStatesThatARunNoLongerNeedsGo(t *testing.T) {
	address := serve(t, nil)
	e := open(t, address, nil)
	count := func() int {
		t.Helper()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/api/v1/checkpoints", nil)
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		text, _ := io.ReadAll(reply.Body)
		return strings.Count(string(text), "weights/weights-step-") / 2 // its id and its path
	}
	dirs := []string{t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		if err := e.Engine.SaveState(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(); n != 2 {
		t.Fatalf("%d checkpoints", n)
	}
	f := e.Engine.(interface {
		Forget(ctx context.Context, dir string) error
	})
	for range 2 { // a run that was killed in between does so again
		if err := f.Forget(t.Context(), dirs[0]); err != nil {
			t.Error(err)
		}
	}
	if n := count(); n != 1 {
		t.Errorf("%d checkpoints are left", n)
	}
	if err := e.Engine.LoadState(t.Context(), dirs[1]); err != nil {
		t.Error(err)
	}
	if err := f.Forget(t.Context(), t.TempDir()); err == nil {
		t.Error("a directory without a state")
	}
}

// TestAServiceIsCheckedAtTheStart refuses what the service cannot do before anything is trained.
func TestAServiceIsCheckedAtTheStart(t *testing.T) {
	address := serve(t, nil)
	trainers, _ := built(t, "tinker")
	good := engine.TrainerSpec{
		ModelPath: tiny, LoRA: &adapter, Train: true, MaxModelLen: length,
		Service: engine.ServiceSpec{BaseModel: "tiny", Address: address, MLP: true, Attention: true},
	}
	for words, change := range map[string]func(*engine.TrainerSpec){
		`has no base model "other": set model.tinker.base_model to one of tiny`: func(s *engine.TrainerSpec) { s.Service.BaseModel = "other" },
		"model.max_model_len is 49: lower it":                                   func(s *engine.TrainerSpec) { s.MaxModelLen = length + 1 },
		"set model.tinker.enable to true":                                       func(s *engine.TrainerSpec) { s.Service.BaseModel = "" },
		"a service has adamw":                                                   func(s *engine.TrainerSpec) { s.Optimizer.Type = engine.SGD },
		"a critic or a reward model":                                            func(s *engine.TrainerSpec) { s.Head = engine.ValueHead },
	} {
		spec := good
		change(&spec)
		if e, err := trainers.OpenTrainer(t.Context(), spec); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, %v; want %q", e, err, words)
		}
	}
	e := open(t, address, nil)
	hot := batch()
	hot.Experiences[0].Temperature = 0.5
	if _, err := e.Engine.Forward(t.Context(), hot, trinity.Streams{}); err == nil || !strings.Contains(err.Error(), "temperature 0.5") {
		t.Errorf("%v", err)
	}
	for words, p := range map[string]trinity.SamplingParams{
		"min_p": {MinP: 0.1}, "repetition_penalty": {RepetitionPenalty: 2}, "min_tokens": {MinTokens: 3},
		"no adapter is called": {Adapter: "x"},
	} {
		_, err := e.Sampler.Sample(t.Context(), trinity.Prompt{Tokens: []int32{1}}, p)
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: %v; want %q", p, err, words)
		}
	}
}
