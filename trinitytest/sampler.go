package trinitytest

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
)

// SamplerOptions describe a sampler under test.
type SamplerOptions struct {
	Vocab    int  // tokens of the vocabulary, at least 8
	Unbiased bool // the sampler has no penalties and no bias: they are errors
	OneToken bool // each completion is one sampled token, whatever the prompt and the stop conditions
	// Tolerance is how far log-probabilities may differ between two equal requests, in nats: servers
	// compute a request otherwise among others. 0 wants equal bits.
	Tolerance float64
}

// same reports whether two completions of equal requests are equal, within the tolerance.
func (o SamplerOptions) same(a, b trinity.Completion) bool {
	near := func(x, y float32) bool { return math.Abs(float64(x)-float64(y)) <= o.Tolerance }
	return slices.Equal(a.Tokens, b.Tokens) && slices.EqualFunc(a.Logprobs, b.Logprobs, near) && a.FinishReason == b.FinishReason
}

// Sampler checks the contract of trinity.Sampler. Its model has room for 32 tokens.
func Sampler(t *testing.T, o SamplerOptions, open func(t *testing.T) trinity.Sampler) {
	run := func(name string, check func(*testing.T, trinity.Sampler)) {
		t.Run(name, func(t *testing.T) { check(t, open(t)) })
	}
	run("completions are whole", samplerCompletions)
	run("a seed decides, not the company", o.seeds)
	run("every token is announced", samplerOnToken)
	run("the most likely tokens", o.topLogprobs)
	run("scores of the prompt", o.scores)
	run("cancelled", samplerCancelled)
	if o.OneToken {
		return
	}
	run("greedy needs no seed", o.greedy)
	run("a hold changes no token", o.hold)
	run("a bias forces tokens", o.bias)
	run("stops", samplerStops)
	run("bad prompts are errors", func(t *testing.T, s trinity.Sampler) { samplerBadPrompts(t, s, o.Vocab) })
}

var samplerPrompt = trinity.Prompt{Tokens: []int32{3, 4, 5}}

func complete(t *testing.T, s trinity.Sampler, prompt trinity.Prompt, p trinity.SamplingParams) []trinity.Completion {
	t.Helper()
	out, err := s.Sample(t.Context(), prompt, p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func samplerCompletions(t *testing.T, s trinity.Sampler) {
	for _, n := range []int{0, 1, 5} {
		out := complete(t, s, samplerPrompt, trinity.SamplingParams{N: n, Temperature: 1, MaxTokens: 6, Seed: 1})
		if len(out) != max(1, n) {
			t.Errorf("N = %d: %d completions", n, len(out))
		}
		for _, c := range out {
			if len(c.Tokens) == 0 || len(c.Tokens) > 6 || len(c.Logprobs) != len(c.Tokens) || slices.Max(c.Logprobs) > 0 {
				t.Errorf("tokens %v with logprobs %v; want 1 to 6 tokens and a logprob ≤ 0 for each", c.Tokens, c.Logprobs)
			}
			if c.Reused < 0 || c.Reused > len(samplerPrompt.Tokens) {
				t.Errorf("%d tokens of a prompt of %d were reused", c.Reused, len(samplerPrompt.Tokens))
			}
			if c.FinishReason != "stop" && c.FinishReason != "length" || c.Versions[0] > c.Versions[1] {
				t.Errorf("finish reason %q, versions %v; want stop or length, and the oldest version first", c.FinishReason, c.Versions)
			}
		}
	}
}

func (o SamplerOptions) seeds(t *testing.T, s trinity.Sampler) {
	type request struct {
		prompt trinity.Prompt
		params trinity.SamplingParams
	}
	var requests []request
	for i := range 8 {
		prompt := trinity.Prompt{Tokens: append(slices.Clone(samplerPrompt.Tokens), make([]int32, i/3)...)} // some requests share a prompt
		requests = append(requests, request{prompt, trinity.SamplingParams{N: 1 + i%2, Temperature: 1, MaxTokens: 4 + i, Seed: uint64(i)}})
	}
	alone := make([][]trinity.Completion, len(requests))
	for i, r := range requests {
		alone[i] = complete(t, s, r.prompt, r.params)
	}
	together := make([][]trinity.Completion, len(requests))
	var all sync.WaitGroup
	for i, r := range slices.Backward(requests) {
		all.Go(func() { together[i], _ = s.Sample(t.Context(), r.prompt, r.params) })
	}
	all.Wait()
	differ := false
	for i := range requests {
		if !slices.EqualFunc(alone[i], together[i], o.same) {
			t.Errorf("request %d alone and among others:\n%v\n%v", i, alone[i], together[i])
		}
		differ = differ || !slices.Equal(alone[i][0].Tokens, alone[0][0].Tokens)
	}
	if !differ {
		t.Error("all seeds gave the same tokens")
	}
}

func samplerOnToken(t *testing.T, s trinity.Sampler) {
	for _, alone := range []bool{false, true} {
		seen, sampled := make([][]trinity.Sampled, 2), make([][]trinity.Sampled, 2)
		p := trinity.SamplingParams{N: 2, Temperature: 1, MaxTokens: 6, TopLogprobs: 2,
			OnSampled: func(i int, s trinity.Sampled) { sampled[i] = append(sampled[i], s) }}
		if !alone {
			p.OnToken = func(i int, s trinity.Sampled) { seen[i] = append(seen[i], s) }
		}
		out := complete(t, s, samplerPrompt, p)
		for i := range out {
			var all []trinity.Sampled
			for j := range out[i].Tokens {
				all = append(all, out[i].At(j))
			}
			if !alone && !reflect.DeepEqual(seen[i], all) || !reflect.DeepEqual(sampled[i], all) {
				t.Errorf("completion %d: OnToken saw %v and OnSampled %v of %v", i, seen[i], sampled[i], all)
			}
		}
	}
}

// topLogprobs draws from a distribution that truncation and temperature change: neither changes
// which tokens are the most likely, and both leave the log-probabilities as training computes them.
func (o SamplerOptions) topLogprobs(t *testing.T, s trinity.Sampler) {
	p := trinity.SamplingParams{Temperature: 0.7, TopP: 0.9, TopK: 3, MaxTokens: 6, Seed: 1, Untrained: true}
	plain := complete(t, s, samplerPrompt, p)
	if plain[0].TopLogprobs != nil {
		t.Errorf("nobody asked for %v", plain[0].TopLogprobs)
	}
	for _, n := range []int{1, 5, trinity.MaxTopLogprobs} {
		p.TopLogprobs = n
		c := complete(t, s, samplerPrompt, p)[0]
		if !o.same(c, plain[0]) || len(c.TopLogprobs) != len(c.Tokens) {
			t.Fatalf("with %d most likely tokens: %v, want %v", n, c, plain[0])
		}
		for i, top := range c.TopLogprobs {
			if len(top) != min(n, o.Vocab) {
				t.Errorf("%d tokens, want %d of a vocabulary of %d", len(top), n, o.Vocab)
			}
			mass := 0.0
			for j, x := range top {
				mass += math.Exp(float64(x.Logprob))
				if j > 0 && (x.Logprob > top[j-1].Logprob || x.Logprob == top[j-1].Logprob && x.Token <= top[j-1].Token) {
					t.Errorf("%v is out of order", top)
				}
				if x.Token == c.Tokens[i] && math.Abs(float64(x.Logprob-c.Logprobs[i])) > o.Tolerance {
					t.Errorf("token %d was sampled with %v, and is in the list with %v", x.Token, c.Logprobs[i], x.Logprob)
				}
			}
			if whole := len(top) == o.Vocab; mass > 1+1e-4 || whole && mass < 1-1e-4 {
				t.Errorf("%d tokens of %d have probability %v together", len(top), o.Vocab, mass)
			}
			if float64(c.Logprobs[i]-top[0].Logprob) > o.Tolerance {
				t.Errorf("token %d with %v is more likely than %v", c.Tokens[i], c.Logprobs[i], top[0])
			}
		}
	}
}

// scores compares the scores of a prompt's tokens with those of further ids, of a part and of draws. A
// sampler may give none, and may refuse what it lacks.
func (o SamplerOptions) scores(t *testing.T, s trinity.Sampler) {
	prompt := trinity.Prompt{Tokens: []int32{3, 4, 5, 3, 6, 5, 4, 3, 3, 6, 5, 7, 3, 4, 5, 3, 6, 5, 4, 3}}
	places := len(prompt.Tokens) - 1
	p := trinity.SamplingParams{Temperature: 0.5, MaxTokens: 1, Seed: 3, ScorePrompt: true}
	whole := complete(t, s, prompt, p)[0].Prompt.Logprobs
	if whole == nil {
		t.Skip("this sampler gives no scores")
	}
	near := func(x, y float32) bool { return math.Abs(float64(x)-float64(y)) <= o.Tolerance || x != x && y != y }
	if len(whole) != places || slices.Max(whole) > 0 {
		t.Fatalf("%d scores of %d tokens: %v", len(whole), len(prompt.Tokens), whole)
	}
	p.ScoreFrom = 17
	if part := complete(t, s, prompt, p)[0].Prompt.Logprobs; len(part) != places || part[16] == part[16] ||
		!slices.EqualFunc(part[17:], whole[17:], near) {
		t.Errorf("from place 17: %v, want %v", part, whole)
	}
	p.ScoreFrom, p.PromptDraws = 0, 2
	for i, id := range prompt.Tokens[1:] {
		p.PromptTargets = append(p.PromptTargets, id, int32(i%9)-1)
	}
	out, err := s.Sample(t.Context(), prompt, p)
	if err != nil {
		t.Skipf("this sampler scores the prompt's tokens alone: %v", err)
	}
	got := out[0].Prompt
	if len(got.Targets) != 2*places || len(got.Draws) != places {
		t.Fatalf("%d targets, draws at %d places; want %d, %d", len(got.Targets), len(got.Draws), 2*places, places)
	}
	for i := range places {
		if !near(got.Targets[2*i], whole[i]) {
			t.Errorf("place %d: token %d has %v, and as a target %v", i, prompt.Tokens[i+1], whole[i], got.Targets[2*i])
		}
		if none := p.PromptTargets[2*i+1] < 0; none != (got.Targets[2*i+1] != got.Targets[2*i+1]) {
			t.Errorf("place %d: target %d has %v", i, p.PromptTargets[2*i+1], got.Targets[2*i+1])
		}
		for _, d := range got.Draws[i] {
			if len(got.Draws[i]) != 2 || d.Token < 0 || int(d.Token) >= o.Vocab || !(d.Logprob <= 0) ||
				d.Token == prompt.Tokens[i+1] && !near(d.Logprob, whole[i]) {
				t.Errorf("place %d: draws %v beside a token with %v", i, got.Draws[i], whole[i])
			}
		}
	}
}

func samplerCancelled(t *testing.T, s trinity.Sampler) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	if _, err := s.Sample(ctx, samplerPrompt, trinity.SamplingParams{N: 64, Temperature: 1, IgnoreEOS: true}); !errors.Is(err, errCause) {
		t.Errorf("got %v, want the context's cause", err)
	}
	complete(t, s, samplerPrompt, trinity.SamplingParams{MaxTokens: 2}) // the sampler still works
}

func (o SamplerOptions) greedy(t *testing.T, s trinity.Sampler) {
	first := complete(t, s, samplerPrompt, trinity.SamplingParams{MaxTokens: 8, Seed: 1})
	if again := complete(t, s, samplerPrompt, trinity.SamplingParams{MaxTokens: 8, Seed: 2}); !slices.EqualFunc(first, again, o.same) {
		t.Errorf("temperature 0: %v and %v", first, again)
	}
}

// hold runs two turns of a rollout that goes on, and both again after it has ended.
func (o SamplerOptions) hold(t *testing.T, s trinity.Sampler) {
	turns := func(hold <-chan struct{}) (all []trinity.Completion) {
		p := trinity.SamplingParams{Temperature: 1, MaxTokens: 9, Seed: 4, IgnoreEOS: true, Hold: hold}
		first := complete(t, s, samplerPrompt, p)
		next := slices.Concat(samplerPrompt.Tokens, first[0].Tokens, samplerPrompt.Tokens)
		return append(first, complete(t, s, trinity.Prompt{Tokens: next}, p)...)
	}
	want, ended := turns(nil), make(chan struct{})
	for range 2 {
		if got := turns(ended); !slices.EqualFunc(got, want, o.same) {
			t.Errorf("with a hold: %v, want %v", got, want)
		}
	}
	close(ended)
	if got := turns(ended); !slices.EqualFunc(got, want, o.same) {
		t.Errorf("with a hold that has ended: %v, want %v", got, want)
	}
}

// sixes is a constraint that allows the tokens 6 and 7 in turn.
type sixes struct{ n int32 }

func (s *sixes) Mask(bits []uint64) {
	clear(bits)
	bits[0] = 1 << (6 + s.n%2)
}

func (s *sixes) Accept(token int32) error {
	if token != 6+s.n%2 {
		return errors.New("want 6 and 7 in turn")
	}
	s.n++
	return nil
}

func (s *sixes) Fork() trinity.Constraint { return &sixes{s.n} }

func (o SamplerOptions) bias(t *testing.T, s trinity.Sampler) {
	p := trinity.SamplingParams{Temperature: 1, MaxTokens: 4, Seed: 1, IgnoreEOS: true, Untrained: true}
	if c := complete(t, s, samplerPrompt, p)[0]; c.Changed {
		t.Error("nothing changed the distribution, and Changed is set")
	}
	p.Constraint = &sixes{}
	switch out, err := s.Sample(t.Context(), samplerPrompt, p); {
	case err == nil && (!out[0].Changed || !slices.Equal(out[0].Tokens, []int32{6, 7, 6, 7})):
		t.Errorf("a constraint of 6 and 7 in turn gave %v, Changed %v", out[0].Tokens, out[0].Changed)
	case err != nil && !errors.Is(err, trinity.ErrConstraint):
		t.Errorf("a constraint gave %v; want tokens that keep to it, or ErrConstraint", err)
	}
	p.Constraint, p.LogitBias = nil, map[int32]float32{6: 100}
	if o.Unbiased {
		if c, err := s.Sample(t.Context(), samplerPrompt, p); err == nil || !strings.Contains(err.Error(), "logit_bias") {
			t.Errorf("a bias gave %v, %v; want an error", c, err)
		}
		return
	}
	c := complete(t, s, samplerPrompt, p)[0]
	if !slices.Equal(c.Tokens, []int32{6, 6, 6, 6}) || !c.Changed {
		t.Errorf("a bias of 100 for token 6: %v, Changed %v", c.Tokens, c.Changed)
	}
	p.LogitBias, p.FrequencyPenalty = nil, 1
	if c := complete(t, s, samplerPrompt, p)[0]; !c.Changed {
		t.Error("a penalty changed the distribution, and Changed is not set")
	}
}

func samplerStops(t *testing.T, s trinity.Sampler) {
	p := trinity.SamplingParams{Temperature: 1, MaxTokens: 12, Seed: 3, IgnoreEOS: true}
	free := complete(t, s, samplerPrompt, p)[0]
	if len(free.Tokens) != 12 || free.FinishReason != "length" {
		t.Fatalf("%d tokens, finish reason %q; want MaxTokens = 12 and length", len(free.Tokens), free.FinishReason)
	}
	p.StopTokens = []int32{free.Tokens[6]}
	want := free.Tokens[:1+slices.Index(free.Tokens, free.Tokens[6])]
	if got := complete(t, s, samplerPrompt, p)[0]; !slices.Equal(got.Tokens, want) || got.FinishReason != "stop" {
		t.Errorf("tokens %v, finish reason %q; want %v, the stop token included, and stop", got.Tokens, got.FinishReason, want)
	}
}

func samplerBadPrompts(t *testing.T, s trinity.Sampler, vocab int) {
	for _, prompt := range [][]int32{nil, {-1}, {1, int32(vocab)}} {
		if out, err := s.Sample(t.Context(), trinity.Prompt{Tokens: prompt}, trinity.SamplingParams{MaxTokens: 2}); err == nil {
			t.Errorf("prompt %v with a vocabulary of %d: %v, want an error", prompt, vocab, out)
		}
	}
	blank := trinity.PromptImage{Image: trinity.Image{At: 1, Len: 3, Grid: [3]int{1, 1, 1}}}
	prompt := trinity.Prompt{Tokens: []int32{1, 2, 3}, Images: []trinity.PromptImage{blank}}
	if out, err := s.Sample(t.Context(), prompt, trinity.SamplingParams{MaxTokens: 2}); err == nil {
		t.Errorf("an image beyond the prompt: %v, want an error", out)
	}
}
