package sampler

import (
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
)

// waiting samples a first turn of a rollout that goes on until the returned channel is closed, then
// turns of other rollouts that fill the cache, and returns the prompt of the second turn.
func waiting(t *testing.T, s *Sampler, p trinity.SamplingParams, others int) (next []int32, ended chan struct{}) {
	t.Helper()
	ended = make(chan struct{})
	held := p
	held.Hold = ended
	first := counted(44, 1)
	next = slices.Concat(first, sample(t, s, first, held)[0].Tokens, counted(10, 2))
	for i := range others {
		sample(t, s, counted(60, uint64(i)+100), p)
	}
	return next, ended
}

// The cache has 32 pages of 16 tokens; each of the other rollouts fills 5.
func TestWaitingRolloutsKeepTheirPages(t *testing.T) {
	p := trinity.SamplingParams{Temperature: 1, MaxTokens: 30, Seed: 5, IgnoreEOS: true}
	for _, c := range []struct {
		others  int
		release bool
		reused  int
	}{
		{others: 1, reused: 73},                 // 4 whole pages and a part of the fifth
		{others: 20, reused: 64},                // whole pages alone are kept
		{others: 20, release: true, reused: 64}, // the page is newer than those of the other rollouts
	} {
		s := start(t, tiny(t, "llama"), Options{MaxTokens: 512, MaxModelLen: 256})
		next, ended := waiting(t, s, p, c.others)
		if c.release {
			close(ended)
			sample(t, s, counted(4, 9), p)
		}
		got := sample(t, s, next, p)
		if got[0].Reused != c.reused {
			t.Errorf("%+v: %d tokens of %d were reused", c, got[0].Reused, len(next))
		}
		if want := sample(t, start(t, tiny(t, "llama"), Options{MaxModelLen: 256}), next, p); !same(got, want) {
			t.Errorf("%+v: got %v, want %v", c, got, want)
		}
		checkPages(t, s)
	}
}

func TestEndedRolloutsKeepNothing(t *testing.T) {
	p := trinity.SamplingParams{Temperature: 1, MaxTokens: 30, Seed: 5, IgnoreEOS: true}
	s := start(t, tiny(t, "llama"), Options{MaxTokens: 512, MaxModelLen: 256})
	next, ended := waiting(t, s, p, 20)
	close(ended)
	for i := range 20 {
		sample(t, s, counted(60, uint64(i)+200), p)
	}
	if got := sample(t, s, next, p); got[0].Reused != 0 {
		t.Errorf("%d tokens of an ended rollout were reused", got[0].Reused)
	}
	if n := len(s.scheduler.holds); n != 0 {
		t.Errorf("%d ended rollouts are known", n)
	}
	checkPages(t, s)
}

// TestKeptPagesAreAShareOfTheCache lets more rollouts wait than the share of the cache has room for.
// Those that have waited longest lose their pages, unless they share them with one that has not.
func TestKeptPagesAreAShareOfTheCache(t *testing.T) {
	p := trinity.SamplingParams{Temperature: 1, MaxTokens: 1, IgnoreEOS: true}
	s := start(t, tiny(t, "llama"), Options{MaxTokens: 20 * pageTokens, MaxModelLen: 256})
	common := counted(32, 1)
	rollout := func(i int) []int32 { return slices.Concat(common, counted(33, uint64(i)+10)) }
	for i := range 6 { // 2 pages together and 2 each: 10 may be kept
		p.Hold = make(chan struct{})
		sample(t, s, rollout(i), p)
	}
	checkPages(t, s)
	p.Hold = nil
	for i := range 20 {
		sample(t, s, counted(60, uint64(i)+100), p)
	}
	for i, want := range []int{32, 32, 64, 64, 64, 64} {
		if got := sample(t, s, slices.Concat(rollout(i), counted(10, 3)), p)[0].Reused; got != want {
			t.Errorf("rollout %d: %d tokens were reused, want %d", i, got, want)
		}
	}
}

// TestReusedTokensAreThoseOfThePrompt: a completion tells how many tokens of its prompt needed no
// computing, also after it was sent back to wait.
func TestReusedTokensAreThoseOfThePrompt(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{})
	p := trinity.SamplingParams{N: 2, MaxTokens: 3, IgnoreEOS: true}
	prompt := counted(40, 1)
	for call, want := range [][2]int{{0, 40}, {40, 40}} {
		if out := sample(t, s, prompt, p); out[0].Reused != want[0] || out[1].Reused != want[1] {
			t.Errorf("call %d: %d and %d tokens were reused, want %v", call, out[0].Reused, out[1].Reused, want)
		}
	}
	s = start(t, tiny(t, "llama"), Options{})
	s.gate.Lock()
	defer s.gate.Unlock()
	r := enqueued(t, s, prompt, trinity.SamplingParams{MaxTokens: 10, IgnoreEOS: true})
	for range 4 {
		s.scheduler.step()
	}
	s.scheduler.preempt(0)
	if got := finished(t, s, r)[0].Reused; got != 0 {
		t.Errorf("%d tokens of a prompt that was computed once more were reused", got)
	}
}

// TestKeptAcrossVersions replaces the weights between two turns of a rollout, and in the middle of the
// second.
func TestKeptAcrossVersions(t *testing.T) {
	m := tiny(t, "llama")
	p := trinity.SamplingParams{Temperature: 1, MaxTokens: 30, Seed: 5, IgnoreEOS: true}
	fresh := start(t, m, Options{MaxModelLen: 256})
	if err := fresh.Update(2, scaledTensors(m)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		keep     bool
		reused   int
		versions [2]int64
	}{{false, 0, [2]int64{2, 3}}, {true, 73, [2]int64{1, 3}}} {
		s := start(t, m, Options{MaxModelLen: 256, KeepAcrossVersions: c.keep})
		next, ended := waiting(t, s, p, 0)
		if err := s.Update(2, scaledTensors(m)); err != nil {
			t.Fatal(err)
		}
		if got, want := sample(t, s, next, p), sample(t, fresh, next, p); !same(got, want) || got[0].Versions != [2]int64{2, 2} {
			t.Errorf("keep %v: a rollout that begins after the update got %v, want %v", c.keep, got, want)
		}
		held := p
		held.Hold = ended
		s.gate.Lock()
		r := enqueued(t, s, next, held)
		for range 5 {
			s.scheduler.step()
		}
		if err := s.replaceWeights(3, Weights{Tensor: scaledTensors(m)}); err != nil {
			t.Fatal(err)
		}
		got := finished(t, s, r)[0]
		s.gate.Unlock()
		if got.Reused != c.reused && c.keep || got.Versions != c.versions {
			t.Errorf("keep %v: %d tokens reused, versions %v; want %d and %v", c.keep, got.Reused, got.Versions, c.reused, c.versions)
		}
		third := slices.Concat(next, got.Tokens, counted(5, 4))
		last := sample(t, s, third, held)[0]
		if c.keep != (last.Versions[0] == 1) || c.keep != (last.Reused > 100) {
			t.Errorf("keep %v: the third turn reused %d tokens of %d, versions %v", c.keep, last.Reused, len(third), last.Versions)
		}
		close(ended)
		checkPages(t, s)
	}
}
