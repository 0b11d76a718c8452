package sampler

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/trinitytest"
)

// open opens a model for the length of the test.
func open(t testing.TB, path string) *model.Model {
	t.Helper()
	m, err := model.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func tiny(t testing.TB, name string) *model.Model {
	return open(t, filepath.Join("..", "..", "testdata", name))
}

// tensors reads a model's weights the way an engine hands out its own.
func tensors(m *model.Model) func(string) ([]float32, error) {
	return func(name string) ([]float32, error) {
		tensor, err := m.Tensor(name)
		if err != nil {
			return nil, err
		}
		v := make([]float32, tensor.Len())
		return v, tensor.Float32(v)
	}
}

// start is a sampler of a model for the length of the test.
func start(t testing.TB, m *model.Model, opts Options) *Sampler {
	t.Helper()
	if opts.Pool == nil {
		opts.Pool = kernel.NewPool(2)
		t.Cleanup(opts.Pool.Close)
	}
	s, err := New(*m.Config, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Update(1, tensors(m)); err != nil {
		t.Fatal(err)
	}
	return s
}

func sample(t testing.TB, s *Sampler, prompt []int32, p trinity.SamplingParams) []trinity.Completion {
	t.Helper()
	out, err := s.Sample(context.Background(), trinity.Prompt{Tokens: prompt}, p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// recorded is a continuation by transformers.
type recorded struct {
	Prompt   []int32
	Penalty  float32
	Tokens   []int32
	Logprobs []float64
}

func readRecorded(t testing.TB, name string, v any) {
	t.Helper()
	trinitytest.ReadRecorded(t, filepath.Join("testdata", name+".json.gz"), v)
}

func (r recorded) compare(t *testing.T, got trinity.Completion, tolerance float64) {
	t.Helper()
	if !slices.Equal(got.Tokens, r.Tokens) {
		t.Errorf("prompt %v, penalty %v:\n got %v\nwant %v", r.Prompt, r.Penalty, got.Tokens, r.Tokens)
		return
	}
	for i, want := range r.Logprobs {
		if d := float64(got.Logprobs[i]) - want; d > tolerance || d < -tolerance {
			t.Errorf("prompt of %d tokens, penalty %v: logprob %d is %v, want %v", len(r.Prompt), r.Penalty, i, got.Logprobs[i], want)
		}
	}
}

func TestGreedyEqualsTransformers(t *testing.T) {
	var cases map[string][]recorded
	readRecorded(t, "greedy", &cases)
	for _, name := range []string{"llama", "llama3_bias_tied", "mistral", "qwen2", "qwen3", "qwen3_moe", "qwen3_moe_sums"} {
		t.Run(name, func(t *testing.T) {
			s := start(t, tiny(t, name), Options{PrefillChunk: 7})
			for _, c := range cases[name] {
				p := trinity.SamplingParams{MaxTokens: len(c.Tokens), RepetitionPenalty: c.Penalty, IgnoreEOS: true}
				c.compare(t, sample(t, s, c.Prompt, p)[0], 2e-5)
			}
		})
	}
}

func TestSmolLM2EqualsTransformers(t *testing.T) {
	path := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if path == "" || testing.Short() {
		t.Skip("TRINITY_SMOLLM2_GGUF is not set, or -short")
	}
	var cases []recorded
	readRecorded(t, "smollm2", &cases)
	s := start(t, open(t, path), Options{MaxTokens: 2048, MaxModelLen: 1024})
	var requests []asked
	for i, c := range cases {
		c.compare(t, sample(t, s, c.Prompt, trinity.SamplingParams{MaxTokens: len(c.Tokens), IgnoreEOS: true})[0], 2e-3)
		p := trinity.SamplingParams{N: 2, Temperature: 1, MaxTokens: 12, Seed: uint64(i)}
		requests = append(requests, asked{c.Prompt, p}, asked{append(slices.Clone(c.Prompt), 100, 200), p})
	}
	want := answers(t, s, requests, []int{0, 1, 2, 3, 4, 5, 6, 7}, 1)
	got := answers(t, start(t, open(t, path), Options{MaxTokens: 2048, MaxModelLen: 1024, PrefillChunk: 7}), requests, []int{7, 5, 3, 1, 0, 2, 4, 6}, 8)
	for i := range requests {
		if !same(got[i], want[i]) {
			t.Errorf("request %d alone and in company:\n got %v\nwant %v", i, got[i], want[i])
		}
	}
}
