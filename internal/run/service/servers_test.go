package service_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	_ "github.com/trinity-go/trinity/engine/served"
	"github.com/trinity-go/trinity/internal/run/service"
	"github.com/trinity-go/trinity/internal/wire/tinker"
	"github.com/trinity-go/trinity/trinitytest/server"
)

// bytesOf is the vocabulary of the model of the quickstart.
const bytesOf = 272

// starter starts a server of a kind.
type starter func(server.Host, trinity.Sampler, server.Options) *server.Fake

// pretended starts a server that samples from a model with the embedded sampler.
func pretended(t *testing.T, model string, start starter, o server.Options) *server.Fake {
	t.Helper()
	_, samplers := built(t, "cpu")
	s, err := samplers.OpenSampler(t.Context(), engine.SamplerSpec{ModelPath: model, MaxSequences: 8, MaxModelLen: 512})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.(io.Closer).Close() })
	o.Vocab, o.MaxLen, o.LoRA = bytesOf, 512, true
	return start(t, s, o)
}

// onServer is a client of a service that samples on a server.
type onServer struct {
	t       *testing.T
	client  *tinker.Client
	address string
	fake    *server.Fake
}

// serveOn runs a service that samples on a server.
func serveOn(t *testing.T, sampler string, fake *server.Fake, model string) *onServer {
	t.Helper()
	t.Setenv("TINKER_API_KEY", "tml-local")
	address := running(t, t.TempDir(), func(o *service.Options) {
		o.Sampler, o.SamplerArgs = sampler, map[string]any{"base_urls": []any{fake.URL}}
		o.Models = []service.Model{{Name: "own/tiny", Path: model}}
	})
	c, err := tinker.Open(t.Context(), address, time.Minute, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &onServer{t, c, address, fake}
}

// train trains a model on a sequence, so that its adapter changes what it samples.
func (s *onServer) train(head bool) *tinker.Training {
	s.t.Helper()
	layers := true
	m, err := s.client.Train(s.t.Context(), "own/tiny", tinker.LoRAConfig{Rank: 4, TrainMLP: &layers, TrainAttn: &layers, TrainUnembed: &head})
	if err != nil {
		s.t.Fatal(err)
	}
	rate := 0.01
	for range 2 {
		s.score(m, []int32{70, 71, 72, 73, 74}, false)
		if _, err := m.Step(s.t.Context(), map[string]*float64{"learning_rate": &rate}); err != nil {
			s.t.Fatal(err)
		}
	}
	return m
}

// score returns the log-probabilities of the tokens after the first, by the trainer.
func (s *onServer) score(m *tinker.Training, tokens []int32, forward bool) []float32 {
	s.t.Helper()
	n := len(tokens) - 1
	ones := slices.Repeat([]float32{1}, n)
	d := tinker.Datum{Input: []tinker.Chunk{tinker.TextChunk(tokens[:n])}, Inputs: []tinker.Named{
		{Name: "target_tokens", Tensor: tinker.NewTokens(tokens[1:])}, {Name: "weights", Tensor: tinker.NewFloats(ones)},
	}}
	out, _, err := m.Pass(s.t.Context(), tinker.Pass{Loss: "cross_entropy", ForwardOnly: forward}, []tinker.Datum{d})
	if err != nil {
		s.t.Fatal(err)
	}
	return out[0]
}

// save returns a session that samples from a model.
func (s *onServer) save(m *tinker.Training, name string) (*tinker.Sampling, error) {
	s.t.Helper()
	path, err := m.Save(s.t.Context(), tinker.SamplerWeights, name)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.client.SampleFrom(s.t.Context(), "", path)
}

// ask is a request for three tokens, changed.
func ask(change func(*tinker.Sample)) tinker.Sample {
	most, seed := 3, tinker.Seed(5)
	in := tinker.Sample{NumSamples: 1, Prompt: tinker.Prompt{Chunks: []tinker.PromptChunk{{Type: "encoded_text", Tokens: []int32{70, 71}}}}}
	in.Params.MaxTokens, in.Params.Seed = &most, &seed
	if change != nil {
		change(&in)
	}
	return in
}

// sameAsTrained checks that the log-probabilities of a sample are those of the trainer.
func (s *onServer) sameAsTrained(m *tinker.Training, from *tinker.Sampling, what string) {
	s.t.Helper()
	out, err := from.Sample(s.t.Context(), ask(nil))
	if err != nil {
		s.t.Errorf("%s: %v", what, err)
		return
	}
	q := out.Sequences[0]
	want := s.score(m, append([]int32{70, 71}, q.Tokens...), true)[1:]
	for i, l := range q.Logprobs {
		if math.Abs(float64(l-want[i])) > 1e-4 {
			s.t.Errorf("%s: %v, and %v by the trainer", what, q.Logprobs, want)
			return
		}
	}
}

var kindsOfServers = map[string]struct {
	plugin  string
	start   starter
	options server.Options
}{
	"vLLM":           {"vllm", server.VLLM, server.Options{}},
	"vLLM by tokens": {"vllm", server.VLLM, server.Options{Tokens: true, Develops: true, MaxRank: 32}},
	"SGLang":         {"sglang", server.SGLang, server.Options{MaxRank: 32}},
}

// A service trains here and samples on a server, which has the adapters of several models, also after it has restarted.
func TestAServiceSamplesOnServers(t *testing.T) {
	model := quickstart(t, "")
	for name, c := range kindsOfServers {
		t.Run(name, func(t *testing.T) {
			fake := pretended(t, model, c.start, c.options)
			s := serveOn(t, c.plugin, fake, model)
			one, two := s.train(false), s.train(false)
			s.score(two, []int32{80, 81, 82}, false)
			rate := 0.02
			if _, err := two.Step(t.Context(), map[string]*float64{"learning_rate": &rate}); err != nil {
				t.Fatal(err)
			}
			of := map[string]*tinker.Training{"one": one, "two": two}
			from := map[string]*tinker.Sampling{}
			for name, m := range of {
				var err error
				if from[name], err = s.save(m, name); err != nil {
					t.Fatal(err)
				}
				s.sameAsTrained(m, from[name], name)
			}
			base, err := s.client.SampleFrom(t.Context(), "own/tiny", "")
			if err != nil {
				t.Fatal(err)
			}
			before, err := base.Sample(t.Context(), ask(func(in *tinker.Sample) { in.TopSampleLogprobs = 2 }))
			if err != nil || before.Sequences[0].Top == nil {
				t.Fatalf("%+v, %v", before, err)
			}
			fake.Tell(server.Restarted)
			fake.Tell("")
			if n := len(fake.Adapters()); n != 0 {
				t.Fatalf("the server has %d adapters after a restart", n)
			}
			for name, m := range of {
				s.sameAsTrained(m, from[name], name+" after a restart")
			}
			if n := len(fake.Adapters()); n != 2 {
				t.Errorf("the server has %d adapters, want those of both models", n)
			}
			after, err := base.Sample(t.Context(), ask(nil))
			if err != nil || !slices.Equal(after.Sequences[0].Tokens, before.Sequences[0].Tokens) {
				t.Errorf("the base after a restart: %+v, %v", after, err)
			}
		})
	}
}

// What servers cannot do is refused in words.
func TestWhatServersCannotDo(t *testing.T) {
	model := quickstart(t, "")
	s := serveOn(t, "vllm", pretended(t, model, server.VLLM, server.Options{}), model)
	layers := true
	_, err := s.client.Train(t.Context(), "own/tiny", tinker.LoRAConfig{Rank: 64, TrainMLP: &layers})
	if err == nil || !strings.Contains(err.Error(), "lora_config.rank is 64: want 1 to 32") {
		t.Errorf("rank 64: %v", err)
	}
	if _, err := s.save(s.train(true), "head"); err == nil || !strings.Contains(err.Error(), "create the model with train_unembed=False") {
		t.Errorf("an adapter of the head: %v", err)
	}
	from, err := s.save(s.train(false), "layers")
	if err != nil {
		t.Fatal(err)
	}
	nucleus, three := float32(0.5), 3
	for want, change := range map[string]func(*tinker.Sample){
		"no log-probabilities of a prompt": func(in *tinker.Sample) { in.PromptLogprobs = true },
		"use forward of a training client": func(in *tinker.Sample) { in.TopPromptLogprobs = 2 },
		"with top_p 0.5 the servers":       func(in *tinker.Sample) { in.Params.TopP = &nucleus },
		"with top_k 3 the servers":         func(in *tinker.Sample) { in.Params.TopK = &three },
	} {
		if _, err := from.Sample(t.Context(), ask(change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	const asked = `{"model":"own/tiny","max_tokens":3,"prompt":"hi"`
	for body, want := range map[string]string{
		`,"presence_penalty":1}`:                     `"finish_reason"`,
		`,"echo":true,"logprobs":1}`:                 "leave out echo",
		`,"response_format":{"type":"json_object"}}`: "the embedded sampler (cpu)",
	} {
		r, err := http.Post(s.address+"/v1/completions", "application/json", strings.NewReader(asked+body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		if err = errors.Join(err, r.Body.Close()); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, %v, want %q", body, text, err, want)
		}
	}
}

// A service that cannot sample on servers says why in a line, before it opens a model.
func TestServersThatAServiceCannotUse(t *testing.T) {
	for want, change := range map[string]func(*service.Options){
		"--sampler-arg engine_num: must be at least 1, got 0": func(o *service.Options) { o.SamplerArgs = map[string]any{"engine_num": 0} },
		"--sampler-arg engine_num=two: want a whole number":   func(o *service.Options) { o.SamplerArgs = map[string]any{"engine_num": "two"} },
		"base_urls=http://gpu: want a list, such as [http://gpu:8000]": func(o *service.Options) {
			o.SamplerArgs = map[string]any{"base_urls": "http://gpu"}
		},
		"pyton: unknown argument": func(o *service.Options) { o.SamplerArgs = map[string]any{"pyton": "x"} },
		"--model names 2: run a service for each": func(o *service.Options) {
			o.Models = append(o.Models, service.Model{Name: "b", Path: tiny})
		},
		"trinity convert makes one of a GGUF file": func(o *service.Options) { o.Models[0].Path = "../../../examples/quickstart/model" },
	} {
		o := service.Options{
			Dir: t.TempDir(), Models: []service.Model{{Name: "tiny", Path: tiny}}, Trainer: "cpu", Sampler: "vllm", Address: "127.0.0.1:0",
			Say: func(string) {},
		}
		change(&o)
		err := service.Run(context.Background(), o)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A loop of the unmodified SDK trains here and samples on a server. Its default, an adapter of the head, is refused.
func TestTheSDKSamplesOnServers(t *testing.T) {
	python := os.Getenv("TRINITY_TINKER_PYTHON")
	if python == "" {
		t.Skip("TRINITY_TINKER_PYTHON names no Python that has tinker")
	}
	model := quickstart(t, "")
	s := serveOn(t, "vllm", pretended(t, model, server.VLLM, server.Options{}), model)
	script, err := filepath.Abs("testdata/servers.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "TINKER_BASE_URL="+s.address, "HF_HUB_OFFLINE=1", "TINKER_TELEMETRY=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"train_unembed=False", "no log-probabilities of a prompt", "sampled [True, True]"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("want %q in %s", want, out)
		}
	}
}
