package sampler

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// asked is a request of the determinism tests.
type asked struct {
	prompt []int32
	params trinity.SamplingParams
}

// twenty requests: groups that share a prompt, prompts that begin alike, odd ones, of every kind of
// sampling.
func twenty() []asked {
	rng := rand.New(rand.NewPCG(8, 9))
	random := func(n int) []int32 {
		v := make([]int32, n)
		for i := range v {
			v[i] = 2 + rng.Int32N(62)
		}
		return v
	}
	var requests []asked
	shared := random(19)
	for i := range 8 {
		requests = append(requests, asked{shared, trinity.SamplingParams{Temperature: 1, MaxTokens: 24, Seed: uint64(i), IgnoreEOS: true}})
	}
	for i := range 6 {
		prompt := append(slices.Clone(shared[:16]), random(1+5*i)...)
		requests = append(requests, asked{prompt, trinity.SamplingParams{Temperature: 0.7, TopP: 0.9, MaxTokens: 5 + 3*i, Seed: 100}})
	}
	for i := range 6 {
		p := trinity.SamplingParams{Temperature: float32(i%3) * 0.6, TopK: 20, MinP: 0.02, RepetitionPenalty: 1.2, MinTokens: 3, MaxTokens: 15, Seed: uint64(7 * i), N: 1 + i%2}
		requests = append(requests, asked{random(1 + 6*i), p})
	}
	return requests
}

// answers samples all requests with the given number in flight, in the given order, and returns
// them by request.
func answers(t *testing.T, s *Sampler, requests []asked, order []int, inFlight int) [][]trinity.Completion {
	t.Helper()
	out := make([][]trinity.Completion, len(requests))
	var wait sync.WaitGroup
	slots := make(chan struct{}, inFlight)
	for _, i := range order {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			c, err := s.Sample(context.Background(), trinity.Prompt{Tokens: requests[i].prompt}, requests[i].params)
			if err != nil {
				t.Error(err)
			}
			out[i] = c
		})
	}
	wait.Wait()
	return out
}

func same(a, b []trinity.Completion) bool {
	return slices.EqualFunc(a, b, func(x, y trinity.Completion) bool {
		return slices.Equal(x.Tokens, y.Tokens) && x.FinishReason == y.FinishReason &&
			slices.EqualFunc(x.Logprobs, y.Logprobs, func(u, v float32) bool { return math.Float32bits(u) == math.Float32bits(v) })
	})
}

// newer are the families of 2025 and 2026.
var newer = []string{"smollm3", "gemma3_text", "olmo3", "phi3", "ministral3", "granite", "granitemoehybrid", "lfm2"}

func TestSameTokensAndBitsHoweverScheduled(t *testing.T) {
	requests := twenty()
	inOrder := make([]int, len(requests))
	for i := range inOrder {
		inOrder[i] = i
	}
	for _, name := range slices.Concat([]string{"llama", "mistral", "qwen3", "qwen3_moe"}, newer) {
		t.Run(name, func(t *testing.T) {
			m := tiny(t, name)
			want := answers(t, start(t, m, Options{Pool: kernel.NewPool(1)}), requests, inOrder, 1)
			for _, c := range []Options{
				{MaxSequences: 32},
				{MaxSequences: 3, PrefillChunk: 5},
				{MaxSequences: 7, PrefillChunk: 1, MaxTokens: 160},
				{MaxSequences: 20, PrefillChunk: 64, Pool: kernel.NewPool(3)},
			} {
				s := start(t, m, c)
				for round := range 2 {
					order := rand.New(rand.NewPCG(uint64(round), 1)).Perm(len(requests))
					got := answers(t, s, requests, order, []int{20, 4}[round])
					for i := range requests {
						if !same(got[i], want[i]) {
							t.Errorf("%d sequences, chunks of %d, round %d: request %d\n got %v\nwant %v", c.MaxSequences, c.PrefillChunk, round, i, got[i], want[i])
						}
					}
				}
			}
		})
	}
}

func TestSmallWeightsSampleTheSameHoweverScheduled(t *testing.T) {
	requests := twenty()
	for _, name := range []string{"llama", "qwen3_moe", "lfm2"} {
		m := tiny(t, name)
		for _, storage := range []kernel.Storage{kernel.BF16, kernel.Int8} {
			want := answers(t, start(t, m, Options{Storage: storage}), requests, rand.Perm(len(requests)), 1)
			got := answers(t, start(t, m, Options{Storage: storage, PrefillChunk: 3}), requests, rand.Perm(len(requests)), 20)
			for i := range requests {
				if !same(got[i], want[i]) {
					t.Errorf("%s, storage %d, request %d: got %v, want %v", name, storage, i, got[i], want[i])
				}
			}
		}
	}
}

func TestSeedsAndCompletionsDiffer(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{})
	seen := map[string]bool{}
	for seed := range 3 {
		for _, c := range sample(t, s, []int32{5, 6, 7}, trinity.SamplingParams{N: 4, Temperature: 1, MaxTokens: 20, Seed: uint64(seed), IgnoreEOS: true}) {
			key := fmt.Sprint(c.Tokens)
			if seen[key] {
				t.Errorf("seed %d: the tokens %s came twice", seed, key)
			}
			seen[key] = true
		}
	}
}
