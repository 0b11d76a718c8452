package sampler

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
)

// The score of a prompt's token has the bits of the log-probability that the token has when it is
// sampled, whatever else the sampler computes and however few rows its head has.
func TestScoresAreThoseOfSampling(t *testing.T) {
	for _, sequences := range []int{1, 2, 7} {
		s := start(t, tiny(t, "llama"), Options{MaxSequences: sequences, PrefillChunk: 24})
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() { scoresOf(t, s, int32(i)) })
		}
		wg.Wait()
		checkPages(t, s)
	}
}

func scoresOf(t *testing.T, s *Sampler, first int32) {
	prompt := []int32{first + 2, 3, 5, 7}
	for range 2 { // the second time, the pages are known
		p := trinity.SamplingParams{Temperature: 1, Seed: 9, MaxTokens: 40, IgnoreEOS: true, TopLogprobs: 3}
		sampled, err := s.Sample(context.Background(), trinity.Prompt{Tokens: prompt}, p)
		if err != nil {
			t.Error(err)
			return
		}
		whole := slices.Concat(prompt, sampled[0].Tokens)
		out, err := s.Sample(context.Background(), trinity.Prompt{Tokens: whole},
			trinity.SamplingParams{N: 2, MaxTokens: 1, TopLogprobs: 3, ScorePrompt: true})
		if err != nil {
			t.Error(err)
			return
		}
		for _, c := range out {
			got := c.Prompt
			if len(got.Logprobs) != len(whole)-1 || len(got.TopLogprobs) != len(whole)-1 || len(c.Tokens) != 1 {
				t.Errorf("%d scores and %d lists of %d tokens, %d sampled", len(got.Logprobs), len(got.TopLogprobs), len(whole), len(c.Tokens))
				return
			}
			if !slices.Equal(got.Logprobs[len(prompt)-1:], sampled[0].Logprobs) {
				t.Errorf("scores %v, sampled %v", got.Logprobs[len(prompt)-1:], sampled[0].Logprobs)
			}
			if !slices.EqualFunc(got.TopLogprobs[len(prompt)-1:], sampled[0].TopLogprobs, slices.Equal) {
				t.Errorf("likely tokens %v, sampled %v", got.TopLogprobs[len(prompt)-1:], sampled[0].TopLogprobs)
			}
		}
	}
	one, err := s.Sample(context.Background(), trinity.Prompt{Tokens: prompt[:1]}, trinity.SamplingParams{MaxTokens: 1, ScorePrompt: true})
	if err != nil || len(one[0].Prompt.Logprobs) != 0 || len(one[0].Tokens) != 1 {
		t.Errorf("%+v, %v", one, err)
	}
	none, err := s.Sample(context.Background(), trinity.Prompt{Tokens: prompt}, trinity.SamplingParams{MaxTokens: 1})
	if err != nil || none[0].Prompt.Logprobs != nil {
		t.Errorf("%+v, %v", none, err)
	}
}
