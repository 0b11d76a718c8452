package sampler

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strings"
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

// Scores from a place on, of further ids and draws have the bits of those of the whole prompt, and what
// came before the place is not computed again.
func TestScoresOfALaterPart(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{MaxSequences: 3, PrefillChunk: 24})
	prompt := make([]int32, 60)
	for i := range prompt {
		prompt[i] = int32(2 + i*i%19)
	}
	targets := make([]int32, 2*(len(prompt)-1))
	for i := range targets {
		targets[i] = int32(i%11) - 1
	}
	p := trinity.SamplingParams{
		MaxTokens: 1, Temperature: 0.7, Seed: 5, ScorePrompt: true, TopLogprobs: 2, PromptTargets: targets, PromptDraws: 3,
	}
	scoresFrom := func(from int) (trinity.PromptScores, int) {
		t.Helper()
		p.ScoreFrom = from
		out, err := s.Sample(t.Context(), trinity.Prompt{Tokens: prompt}, p)
		if err != nil {
			t.Fatal(err)
		}
		return out[0].Prompt, out[0].Reused
	}
	whole, _ := scoresFrom(0)
	for i, id := range targets {
		at := i / 2
		switch value := whole.Targets[i]; {
		case id < 0 && value == value:
			t.Errorf("target %d is none and has %v", i, value)
		case id == prompt[at+1] && value != whole.Logprobs[at]:
			t.Errorf("token %d has %v as a target and %v as the prompt's", id, value, whole.Logprobs[at])
		}
	}
	tokens := map[int32]bool{}
	for at, draws := range whole.Draws {
		for _, d := range draws {
			tokens[d.Token] = true
			if i := slices.IndexFunc(whole.TopLogprobs[at], func(x trinity.TokenLogprob) bool { return x.Token == d.Token }); i >= 0 &&
				whole.TopLogprobs[at][i] != d {
				t.Errorf("%v was drawn, and is likely with %v", d, whole.TopLogprobs[at][i])
			}
		}
	}
	if len(tokens) < 5 {
		t.Errorf("%d tokens were drawn at %d places", len(tokens), len(whole.Draws))
	}
	for _, from := range []int{1, 40, 48, 59} {
		got, reused := scoresFrom(from)
		if want := min(from, len(prompt)-1); reused < want-pageTokens || reused > want {
			t.Errorf("from place %d: %d tokens were reused", from, reused)
		}
		for i := range from {
			if got.Logprobs[i] == got.Logprobs[i] || got.TopLogprobs[i] != nil || got.Draws[i] != nil {
				t.Errorf("from place %d: place %d has %v, %v, %v", from, i, got.Logprobs[i], got.TopLogprobs[i], got.Draws[i])
			}
		}
		if !slices.Equal(got.Logprobs[from:], whole.Logprobs[from:]) || !slices.EqualFunc(got.Draws[from:], whole.Draws[from:], slices.Equal) ||
			!slices.EqualFunc(got.TopLogprobs[from:], whole.TopLogprobs[from:], slices.Equal) {
			t.Errorf("from place %d: %v, want %v", from, got, whole)
		}
		for i := 2 * from; i < len(targets); i++ {
			if math.Float32bits(got.Targets[i]) != math.Float32bits(whole.Targets[i]) {
				t.Errorf("from place %d: target %d has %v, want %v", from, i, got.Targets[i], whole.Targets[i])
			}
		}
	}
	checkPages(t, s)
}

func TestBadScores(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{})
	for want, p := range map[string]trinity.SamplingParams{
		"need ScorePrompt":     {PromptDraws: 1},
		"expected 0 to 2":      {ScorePrompt: true, ScoreFrom: 3},
		"expected 0 to 20":     {ScorePrompt: true, PromptDraws: 21},
		"expected as many":     {ScorePrompt: true, PromptTargets: []int32{1, 2, 3}},
		"target 1 of the prom": {ScorePrompt: true, PromptTargets: []int32{-1, 1 << 30}},
	} {
		if _, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3, 4, 5}}, p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
}

// Completions that begin after one another have the prompt computed again, with the same scores.
func TestPromptIsScoredAgain(t *testing.T) {
	p := trinity.SamplingParams{N: 3, MaxTokens: 4, IgnoreEOS: true, Temperature: 1, ScorePrompt: true, PromptDraws: 2}
	m := tiny(t, "llama")
	got := sample(t, start(t, m, Options{MaxSequences: 1}), counted(9, 1), p)
	want := sample(t, start(t, m, Options{}), counted(9, 1), p)
	for i := range got {
		if a, b := got[i].Prompt, want[i].Prompt; !reflect.DeepEqual(a, b) || len(a.Draws[3]) != 2 {
			t.Errorf("completion %d: got %v, want %v", i, a, b)
		}
	}
}
