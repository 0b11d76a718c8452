package sampler

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// conversation returns the first turn of a random request.
func conversation(rng *rand.Rand) asked {
	p := trinity.SamplingParams{
		N: 1 + rng.IntN(4), Temperature: []float32{0, 0.2, 1}[rng.IntN(3)], MaxTokens: 1 + rng.IntN(30), Seed: rng.Uint64N(3),
		IgnoreEOS: rng.IntN(2) == 0, TopLogprobs: rng.IntN(3),
		Adapter: append([]string{"", trinity.BaseAdapter}, recordedAdapters...)[rng.IntN(4)],
	}
	switch rng.IntN(4) {
	case 0:
		p.ScorePrompt, p.ScoreFrom, p.PromptDraws = true, rng.IntN(3), 1+rng.IntN(2)
	case 1:
		p.Stop = []string{"4", "9:"}
	case 2:
		p.Constraint = &ladder{most: 99}
	}
	return asked{counted(3+rng.IntN(30), rng.Uint64N(3)), p}
}

// undefinedAs replaces scores that are no numbers, which do not equal themselves.
func undefinedAs(x float32, all []trinity.Completion) []trinity.PromptScores {
	var scores []trinity.PromptScores
	for _, c := range all {
		s := c.Prompt
		s.Logprobs = slices.Clone(s.Logprobs)
		for i, v := range s.Logprobs {
			if v != v {
				s.Logprobs[i] = x
			}
		}
		scores = append(scores, s)
	}
	return scores
}

// TestConversationsWithDrafts has turns that go on from replies, and so from pages that drafts have filled or left
// behind: with half words of bf16, several adapters, scores of prompts, and caches that are nearly full.
func TestConversationsWithDrafts(t *testing.T) {
	m := tiny(t, "llama")
	for _, storage := range []kernel.Storage{kernel.F32, kernel.BF16} {
		begin := func(opts Options) *Sampler {
			opts.Storage, opts.Decode = storage, letters
			s := start(t, m, opts)
			load(t, s, recordedAdapters...)
			return s
		}
		plain := begin(Options{})
		for _, opts := range []Options{
			{Drafts: 3, MaxTokens: 192}, {Drafts: 16, MaxTokens: 224, MaxSequences: 5, PrefillChunk: 7}, {Drafts: 1},
		} {
			s, rng := begin(opts), rand.New(rand.NewPCG(uint64(opts.Drafts), 7))
			for range 3 {
				var requests []asked
				for range 8 {
					requests = append(requests, conversation(rng))
				}
				for _, inFlight := range []int{1, 4, 8} {
					order := rng.Perm(len(requests))
					want, got := answers(t, plain, requests, order, 1), answers(t, s, requests, order, inFlight)
					for i := range requests {
						a := &requests[i]
						if !alike(got[i], want[i]) || !reflect.DeepEqual(undefinedAs(1, got[i]), undefinedAs(1, want[i])) {
							t.Fatalf("%v, drafts %d, %d tokens and %+v:\n got %+v\nwant %+v",
								storage, opts.Drafts, len(a.prompt), a.params, got[i], want[i])
						}
						if next := slices.Concat(a.prompt, got[i][rng.IntN(len(got[i]))].Tokens); len(next) < 60 {
							a.prompt = next
							if a.params.ScorePrompt {
								a.params.ScoreFrom = rng.IntN(len(next) - 1)
							}
						}
					}
				}
				checkPages(t, s)
			}
			if stats := s.Stats(); stats.Accepted == 0 || stats.Accepted == stats.Drafted || stats.Reused == 0 {
				t.Errorf("drafts %d: %+v: the test needs drafts that are accepted, others, and turns that find pages", opts.Drafts, stats)
			}
		}
	}
}
