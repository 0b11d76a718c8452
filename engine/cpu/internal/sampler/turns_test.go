package sampler

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/trinity-go/trinity"
)

// counted is random tokens, the same for the same seed.
func counted(n int, seed uint64) []int32 {
	rng := rand.New(rand.NewPCG(seed, 7))
	v := make([]int32, n)
	for i := range v {
		v[i] = 2 + rng.Int32N(62)
	}
	return v
}

func TestTurnsShareTheirPages(t *testing.T) {
	for _, name := range slices.Concat([]string{"llama", "qwen3"}, newer) {
		m := tiny(t, name)
		s := start(t, m, Options{MaxModelLen: 256})
		p := trinity.SamplingParams{Temperature: 1, MaxTokens: 36, Seed: 5, IgnoreEOS: true}
		conversation := counted(40, 1)
		for turn, want := range []struct{ prefilled, reused int64 }{
			{40, 0},
			{40 + 11, 40 + 35}, // the last token has no K/V: 4 pages of 16 are full, the fifth has 11 tokens
			{40 + 11 + 11, 75 + 121},
		} {
			reply := sample(t, s, conversation, p)
			if got := s.Stats(); got.Prefilled != want.prefilled || got.Reused != want.reused {
				t.Errorf("%s, turn %d: %d tokens computed and %d reused, want %d and %d", name, turn, got.Prefilled, got.Reused, want.prefilled, want.reused)
			}
			if fresh := sample(t, start(t, m, Options{MaxModelLen: 256}), conversation, p); !same(reply, fresh) {
				t.Errorf("%s, turn %d: got %v, want %v", name, turn, reply, fresh)
			}
			conversation = slices.Concat(conversation, reply[0].Tokens, counted(10, uint64(turn)+10))
		}
		checkPages(t, s)
	}
}

// TestPromptsThatBeginAlikeAreComputedOnce starts them at the same time: the second finds the whole
// pages of the first in the step that computes them, and has nothing to copy from a part of one.
func TestPromptsThatBeginAlikeAreComputedOnce(t *testing.T) {
	for _, c := range []struct {
		alike             int
		prefilled, reused int64
	}{{32, 32 + 5*9, 4 * 32}, {40, 32 + 5*17, 4 * 32}} {
		s := start(t, tiny(t, "llama"), Options{})
		alone := start(t, tiny(t, "llama"), Options{})
		p := trinity.SamplingParams{MaxTokens: 4, IgnoreEOS: true}
		var requests []*request
		s.gate.Lock()
		for i := range uint64(5) {
			requests = append(requests, enqueued(t, s, slices.Concat(counted(c.alike, 1), counted(9, i+2)), p))
		}
		s.gate.Unlock()
		for i, r := range requests {
			got, err := r.wait(context.Background(), s.inbox)
			if want := sample(t, alone, r.prompt, p); err != nil || !same(got, want) {
				t.Errorf("%d tokens alike, request %d: got %v, %v; want %v", c.alike, i, got, err, want)
			}
		}
		if got := s.Stats(); got.Prefilled != c.prefilled || got.Reused != c.reused {
			t.Errorf("%d tokens alike: %+v", c.alike, got)
		}
	}
}

// enqueued is a request in the queue of a sampler whose gate is held.
func enqueued(t *testing.T, s *Sampler, prompt []int32, p trinity.SamplingParams) *request {
	t.Helper()
	r, err := s.newRequest(prompt, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.inbox.push(r); err != nil {
		t.Fatal(err)
	}
	return r
}

// preempted samples, and sends all completions back to wait after so many steps.
func preempted(t *testing.T, s *Sampler, prompt []int32, p trinity.SamplingParams, steps int) []trinity.Completion {
	t.Helper()
	s.gate.Lock()
	defer s.gate.Unlock()
	r := enqueued(t, s, prompt, p)
	for range steps {
		s.scheduler.step()
	}
	for len(s.scheduler.running) > 0 {
		s.scheduler.preempt(s.scheduler.youngest())
	}
	return finished(t, s, r)
}

// finished steps a sampler whose gate is held until a request is answered.
func finished(t *testing.T, s *Sampler, r *request) []trinity.Completion {
	t.Helper()
	for range 1000 {
		select {
		case <-r.done:
			return r.completions
		default:
			s.scheduler.step()
		}
	}
	t.Fatal("no answer after 1000 steps")
	return nil
}

// TestWhatOldWeightsComputedIsNotFound replaces the weights while a completion fills its first
// page.
func TestWhatOldWeightsComputedIsNotFound(t *testing.T) {
	m := tiny(t, "llama")
	s, fresh := start(t, m, Options{}), start(t, m, Options{})
	if err := fresh.Update(2, scaledTensors(m)); err != nil {
		t.Fatal(err)
	}
	p := trinity.SamplingParams{MaxTokens: 30, IgnoreEOS: true}
	s.gate.Lock()
	r := enqueued(t, s, counted(4, 1), p)
	for range 5 {
		s.scheduler.step()
	}
	if err := s.replaceWeights(2, Weights{Tensor: scaledTensors(m)}); err != nil {
		t.Fatal(err)
	}
	first := finished(t, s, r)[0]
	s.gate.Unlock()
	next := slices.Concat(r.prompt, first.Tokens, counted(5, 2))
	if got, want := sample(t, s, next, p), sample(t, fresh, next, p); first.Versions != [2]int64{1, 2} || !same(got, want) {
		t.Errorf("versions %v, then %v; want %v", first.Versions, got, want)
	}
	if n := s.Stats().Reused; n != 0 {
		t.Errorf("%d tokens were reused", n)
	}
	checkPages(t, s)
}

// TestPreemptedAfterAnyToken sends all completions of a prompt back to wait, after each number of
// tokens.
func TestPreemptedAfterAnyToken(t *testing.T) {
	m := tiny(t, "llama")
	prompt := counted(21, 3)
	p := trinity.SamplingParams{N: 3, Temperature: 1, MaxTokens: 20, Seed: 9, IgnoreEOS: true, RepetitionPenalty: 1.1}
	want := sample(t, start(t, m, Options{}), prompt, p)
	for steps := 1; steps < 20; steps++ {
		s := start(t, m, Options{})
		if got := preempted(t, s, prompt, p, steps); !same(got, want) {
			t.Errorf("after %d tokens: got %v, want %v", steps, got, want)
		}
		checkPages(t, s)
	}
}

// TestPreemptionChangesNothing samples with room for a few sequences at a time.
func TestPreemptionChangesNothing(t *testing.T) {
	requests := twenty()
	for i := range requests { // they write more than their prompts let expect
		requests[i].params.MaxTokens, requests[i].params.IgnoreEOS = 64-len(requests[i].prompt), true
	}
	order := rand.New(rand.NewPCG(3, 4)).Perm(len(requests))
	for _, name := range []string{"llama", "mistral", "lfm2"} {
		m := tiny(t, name)
		want := answers(t, start(t, m, Options{}), requests, order, 20)
		for _, opts := range []Options{{MaxTokens: 80}, {MaxTokens: 200, PrefillChunk: 7}} {
			opts.MaxModelLen = 64
			s := start(t, m, opts)
			got := answers(t, s, requests, order, 20)
			for i := range requests {
				if !same(got[i], want[i]) {
					t.Errorf("%s, cache of %d: request %d: got %v, want %v", name, opts.MaxTokens, i, got[i], want[i])
				}
			}
			if s.Stats().Preempted == 0 {
				t.Errorf("%s, cache of %d: nothing was preempted", name, opts.MaxTokens)
			}
			checkPages(t, s)
		}
	}
}

// TestTokensAreToldOnce: a preempted sequence is computed again, not sampled again, and the first
// to arrive never gives way.
func TestTokensAreToldOnce(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{MaxTokens: 128, MaxModelLen: 96})
	var mu sync.Mutex
	told := map[int][]int32{}
	p := trinity.SamplingParams{N: 6, Temperature: 1, MaxTokens: 60, Seed: 1, IgnoreEOS: true, OnToken: func(i int, s trinity.Sampled) {
		mu.Lock()
		defer mu.Unlock()
		told[i] = append(told[i], s.Token)
	}}
	out := sample(t, s, counted(21, 1), p)
	for i, c := range out {
		if len(c.Tokens) != 60 || !slices.Equal(told[i], c.Tokens) {
			t.Errorf("completion %d: told %v, returned %v", i, told[i], c.Tokens)
		}
	}
	if s.Stats().Preempted == 0 {
		t.Error("nothing was preempted")
	}
	checkPages(t, s)
}

// TestRandomRequestsCancelsAndUpdates ends with every page accounted for. The updates bring the
// same weights, so that answers are known.
func TestRandomRequestsCancelsAndUpdates(t *testing.T) {
	for _, keep := range []bool{false, true} {
		randomRequests(t, Options{MaxTokens: 160, MaxModelLen: 64, MaxSequences: 9, PrefillChunk: 24, KeepAcrossVersions: keep})
	}
}

func randomRequests(t *testing.T, opts Options) {
	m := tiny(t, "llama")
	s := start(t, m, opts)
	requests := twenty()
	want := answers(t, start(t, m, Options{}), requests, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, 20)
	var wait sync.WaitGroup
	var finished, cancelled atomic.Int32
	for worker := range uint64(6) {
		wait.Go(func() {
			rng := rand.New(rand.NewPCG(worker, 1))
			ended := make(chan struct{}) // of the worker's rollout
			for range 25 {
				i := rng.IntN(len(requests))
				p := requests[i].params
				switch rng.IntN(8) {
				case 0, 1, 2, 3:
					p.Hold = ended
				case 4:
					close(ended)
					ended = make(chan struct{})
				}
				ctx, cancel := context.WithCancel(context.Background())
				if tokens := rng.IntN(40); tokens < 20 {
					p.OnToken = func(int, trinity.Sampled) {
						if tokens--; tokens < 0 {
							cancel()
						}
					}
				}
				if rng.IntN(8) == 0 {
					cancel() // a busy machine may learn of those above when the reply is whole
				}
				got, err := s.Sample(ctx, trinity.Prompt{Tokens: requests[i].prompt}, p)
				cancel()
				switch {
				case err == nil && !same(got, want[i]):
					t.Errorf("request %d: got %v, want %v", i, got, want[i])
				case err == nil:
					finished.Add(1)
				case errors.Is(err, context.Canceled):
					cancelled.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	for version := range int64(8) {
		if err := s.Update(version+2, tensors(m)); err != nil {
			t.Error(err)
		}
	}
	wait.Wait()
	if finished.Load() == 0 || cancelled.Load() == 0 {
		t.Errorf("%d finished, %d cancelled: the test needs both", finished.Load(), cancelled.Load())
	}
	checkPages(t, s)
}
