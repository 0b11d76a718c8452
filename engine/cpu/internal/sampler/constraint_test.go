package sampler

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// ladder allows tokens whose remainder by 4 is the number of tokens before them by 4, until it has most
// tokens: then it allows end alone, or nothing if end is negative.
type ladder struct{ n, most, end int32 }

func (l *ladder) allows(token int32) bool {
	if l.n >= l.most {
		return token == l.end
	}
	return token%4 == l.n%4
}

func (l *ladder) Mask(bits []uint64) {
	clear(bits)
	for token := range int32(64 * len(bits)) {
		if l.allows(token) {
			bits[token/64] |= 1 << (token % 64)
		}
	}
}

func (l *ladder) Accept(token int32) error {
	if !l.allows(token) {
		return errors.New("not allowed")
	}
	l.n++
	return nil
}

func (l *ladder) Fork() trinity.Constraint {
	fork := *l
	return &fork
}

// Constrained completions follow their constraint, each a fork of its own, in any company; their
// log-probabilities are those of the whole distribution.
func TestConstrainedCompletions(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{MaxTokens: 96, MaxModelLen: 32}) // so few that sequences are preempted
	p := trinity.SamplingParams{N: 3, Temperature: 0.8, TopP: 0.9, MaxTokens: 12, Seed: 5, IgnoreEOS: true, Constraint: &ladder{most: 99}}
	requests := []asked{{[]int32{5, 6, 7}, p}, {[]int32{5, 6}, trinity.SamplingParams{N: 4, Temperature: 1, MaxTokens: 20, IgnoreEOS: true}}}
	for _, got := range answers(t, s, requests, []int{0, 1}, 2)[0] {
		if !got.Changed || len(got.Tokens) != 12 {
			t.Fatalf("changed %v, tokens %v", got.Changed, got.Tokens)
		}
		for i, token := range got.Tokens {
			if int(token)%4 != i%4 {
				t.Errorf("token %d is %d", i, token)
			}
		}
	}
	q := p
	q.Temperature, q.TopP = 1, 1
	got := sample(t, s, []int32{5, 6, 7}, q)[0]
	text := append([]int32{5, 6, 7}, got.Tokens...)
	whole := sample(t, s, text, trinity.SamplingParams{MaxTokens: 1, ScorePrompt: true})[0].Prompt.Logprobs[2:]
	for i := range whole {
		if d := math.Abs(float64(whole[i] - got.Logprobs[i])); d > 1e-5 {
			t.Errorf("logprob %d is %v, of the whole distribution %v", i, got.Logprobs[i], whole[i])
		}
	}
}

// A dead end fails its own request alone, and an end that only the constraint knows is none.
func TestDeadEnd(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{})
	p := trinity.SamplingParams{Temperature: 1, MaxTokens: 9, IgnoreEOS: true, Constraint: &ladder{most: 3, end: -1}}
	done := make(chan []trinity.Completion)
	go func() {
		others := trinity.SamplingParams{N: 4, Temperature: 1, MaxTokens: 20, IgnoreEOS: true}
		out, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{5}}, others)
		if err != nil {
			t.Error(err)
		}
		done <- out
	}()
	if _, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{5, 6}}, p); !errors.Is(err, trinity.ErrConstraint) {
		t.Errorf("a dead end gives %v", err)
	}
	if out := <-done; len(out) != 4 {
		t.Errorf("the other request has %d completions", len(out))
	}
	p.IgnoreEOS, p.Constraint = false, &ladder{most: 3, end: s.cfg.EOS[0]}
	p.MinTokens = 5
	_, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{5, 6}}, p)
	if !errors.Is(err, trinity.ErrConstraint) || !strings.Contains(err.Error(), "lower min_tokens") {
		t.Errorf("min_tokens behind the end of the form gives %v", err)
	}
	p.MinTokens = 0
	if got := sample(t, s, []int32{5, 6}, p)[0]; got.FinishReason != "stop" || !slices.Equal(got.Tokens[3:], s.cfg.EOS[:1]) {
		t.Errorf("%q %v", got.FinishReason, got.Tokens)
	}
}

func TestConstrainedDrawDoesNotAllocate(t *testing.T) {
	logits, d := randomLogits(1000, 2), newDrawer(1000)
	q := query{temperature: 1, topP: 1, penalty: 1, u: 0.5, constraint: &ladder{most: 9}}
	if n := testing.AllocsPerRun(10, func() { d.draw(logits, &q) }); n != 0 {
		t.Errorf("%v allocations a draw", n)
	}
	for n := range 200 {
		q.u = float64(n) / 200
		if token, _ := d.draw(logits, &q); token%4 != 0 {
			t.Fatalf("drew token %d", token)
		}
	}
}

// breaking allows every token and breaks at the one with a number.
type breaking struct{ n, at int }

func (b *breaking) Mask(bits []uint64) {
	for i := range bits {
		bits[i] = ^uint64(0)
	}
}

func (b *breaking) Accept(int32) error {
	if b.n++; b.n == b.at {
		return errors.New("too much")
	}
	return nil
}

func (b *breaking) Fork() trinity.Constraint {
	fork := *b
	return &fork
}

// TestTokensBeforeABreakAreTold: a constraint that breaks at a token that drafts precede has told them.
func TestTokensBeforeABreakAreTold(t *testing.T) {
	m := tiny(t, "llama")
	prompt, p := counted(5, 2), trinity.SamplingParams{MaxTokens: 20, IgnoreEOS: true}
	s := start(t, m, Options{Drafts: 8})
	want := sample(t, s, prompt, p)[0].Tokens
	for at := 1; at < 12; at++ {
		var told []int32
		q := p
		q.Constraint = &breaking{at: at}
		q.OnToken = func(_ int, s trinity.Sampled) { told = append(told, s.Token) }
		if _, err := s.Sample(t.Context(), trinity.Prompt{Tokens: prompt}, q); !errors.Is(err, trinity.ErrConstraint) {
			t.Fatalf("%v", err)
		}
		if !slices.Equal(told, want[:at-1]) {
			t.Errorf("broken at token %d: told %v, want %v", at, told, want[:at-1])
		}
	}
}
