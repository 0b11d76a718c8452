package sampler

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

func TestGroupsComputeTheirPromptOnce(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{MaxSequences: 4})
	prompt := []int32{9, 8, 7, 6, 5, 4, 3, 2, 9, 8, 7, 6}
	var wait sync.WaitGroup
	for i := range 10 {
		wait.Go(func() {
			sample(t, s, prompt, trinity.SamplingParams{Temperature: 1, MaxTokens: 8, Seed: uint64(i), IgnoreEOS: true})
		})
	}
	wait.Wait()
	sample(t, s, prompt, trinity.SamplingParams{N: 3, MaxTokens: 2, IgnoreEOS: true})
	if got := s.Stats(); got.Prefilled != 12 || got.Hits != 12 || got.Prompts != 1 || got.Sampled != 86 || got.Reused != 12*12 {
		t.Errorf("13 completions of one prompt: %+v", got)
	}
	longer := append(slices.Clone(prompt), 20, 21, 22)
	sample(t, s, longer, trinity.SamplingParams{MaxTokens: 2})
	if got := s.Stats(); got.Prefilled != 15 || got.Reused != 13*12 {
		t.Errorf("a prompt that begins with a known one: %+v", got)
	}
}

func TestRetainedPromptsMakeRoom(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{MaxSequences: 2, MaxTokens: 128, MaxModelLen: 64})
	for i := range int32(30) {
		sample(t, s, slices.Repeat([]int32{2 + i}, 20+int(i)), trinity.SamplingParams{Temperature: 1, MaxTokens: 10})
	}
	if got := s.Stats(); got.Cached > 128 || got.Prompts != 30 || got.Running != 0 {
		t.Errorf("%+v", got)
	}
}

func TestStopConditions(t *testing.T) {
	letters := func(tokens []int32) string {
		var b strings.Builder
		for _, t := range tokens {
			b.WriteByte(byte('0' + t))
		}
		return b.String()
	}
	s := start(t, tiny(t, "llama"), Options{Decode: letters})
	prompt := []int32{11, 12, 13}
	free := sample(t, s, prompt, trinity.SamplingParams{Temperature: 1.5, MaxTokens: 30, Seed: 4, IgnoreEOS: true})[0]
	at := func(i int) int32 { return free.Tokens[i] }
	first := func(token int32, from int) int { return from + slices.Index(free.Tokens[from:], token) }
	pair := letters(free.Tokens[9:11])
	for _, c := range []struct {
		name   string
		change func(*trinity.SamplingParams)
		length int
		reason string
	}{
		{"length", func(p *trinity.SamplingParams) { p.MaxTokens = 7 }, 7, "length"},
		{"stop token", func(p *trinity.SamplingParams) { p.StopTokens = []int32{at(6)} }, first(at(6), 0) + 1, "stop"},
		{"stop string", func(p *trinity.SamplingParams) { p.Stop = []string{pair} }, strings.Index(letters(free.Tokens), pair) + 2, "stop"},
		{"stop string at the limit", func(p *trinity.SamplingParams) { p.Stop, p.MaxTokens = []string{pair}, 11 }, strings.Index(letters(free.Tokens), pair) + 2, "stop"},
		{"model's length", func(p *trinity.SamplingParams) { p.MaxTokens = 0 }, 61, "length"},
	} {
		p := trinity.SamplingParams{Temperature: 1.5, MaxTokens: 30, Seed: 4, IgnoreEOS: true}
		c.change(&p)
		got := sample(t, s, prompt, p)[0]
		if len(got.Tokens) != c.length || got.FinishReason != c.reason || len(got.Logprobs) != c.length {
			t.Errorf("%s: %d tokens, %q; want %d, %q", c.name, len(got.Tokens), got.FinishReason, c.length, c.reason)
		}
		if n := min(len(got.Tokens), 30); !slices.Equal(got.Tokens[:n], free.Tokens[:n]) {
			t.Errorf("%s: a stop condition changed the tokens", c.name)
		}
	}
}

func TestEOSAndMinTokens(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{})
	p := trinity.SamplingParams{N: 40, Temperature: 2.5, MaxTokens: 40, Seed: 2}
	stopped := 0
	for _, c := range sample(t, s, []int32{30, 31}, p) {
		i := slices.Index(c.Tokens, 1)
		if i >= 0 && (i != len(c.Tokens)-1 || c.FinishReason != "stop") || i < 0 && c.FinishReason != "length" {
			t.Errorf("end-of-sequence token at %d of %d, %q", i, len(c.Tokens), c.FinishReason)
		}
		if i >= 0 {
			stopped++
		}
	}
	if stopped < 3 {
		t.Errorf("%d of 40 completions ended with the end-of-sequence token", stopped)
	}
	p.MinTokens, p.StopTokens = 25, []int32{5}
	for _, c := range sample(t, s, []int32{30, 31}, p) {
		early := c.Tokens[:25-1]
		if len(c.Tokens) < 25 || slices.Contains(early, 1) || slices.Contains(early, 5) {
			t.Errorf("min_tokens 25: %v", c.Tokens)
		}
	}
	p.MinTokens, p.IgnoreEOS, p.StopTokens = 0, true, []int32{1}
	for _, c := range sample(t, s, []int32{30, 31}, p) {
		if c.FinishReason != "length" {
			t.Errorf("IgnoreEOS: ended with %q after %d tokens", c.FinishReason, len(c.Tokens))
		}
	}
}

func TestCancellation(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{MaxSequences: 2})
	prompt := trinity.Prompt{Tokens: []int32{2, 3, 4}}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	var running sync.Once
	p := trinity.SamplingParams{N: 1000, Temperature: 1, IgnoreEOS: true,
		OnToken: func(int, trinity.Sampled) { running.Do(func() { cancel(cause) }) }}
	_, err := s.Sample(ctx, prompt, p)
	if !errors.Is(err, cause) || !strings.Contains(err.Error(), "request 1 (prompt of 3 tokens, 1000 completions)") {
		t.Errorf("cancelled while running: %v", err)
	}
	done, stop := context.WithTimeout(context.Background(), time.Millisecond)
	defer stop()
	p.OnToken = nil
	if _, err := s.Sample(done, prompt, p); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
	if got := sample(t, s, prompt.Tokens, trinity.SamplingParams{MaxTokens: 3, IgnoreEOS: true}); len(got[0].Tokens) != 3 {
		t.Errorf("after cancellations: %v", got)
	}
	if stats := s.Stats(); stats.Queued != 0 || stats.Running != 0 {
		t.Errorf("after cancellations: %+v", stats)
	}
	checkPages(t, s)
}

func TestCloseFailsPendingRequests(t *testing.T) {
	before := runtime.NumGoroutine()
	m := tiny(t, "llama")
	s, err := New(*m.Config, Options{MaxSequences: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sample(context.Background(), trinity.Prompt{Tokens: []int32{2}}, trinity.SamplingParams{}); err == nil || !strings.Contains(err.Error(), "Update") {
		t.Errorf("before the first update: %v", err)
	}
	if err := s.Update(1, tensors(m)); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	errs := make([]error, 20)
	started := make(chan struct{}, 100000)
	for i := range errs {
		wait.Go(func() {
			p := trinity.SamplingParams{N: 1000, Temperature: 1, IgnoreEOS: true,
				OnToken: func(int, trinity.Sampled) { started <- struct{}{} }}
			_, errs[i] = s.Sample(context.Background(), trinity.Prompt{Tokens: []int32{2, int32(i)}}, p)
		})
	}
	<-started
	s.Close()
	wait.Wait()
	for i, err := range errs {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if err := s.Update(2, tensors(m)); !errors.Is(err, ErrClosed) {
		t.Errorf("update after Close: %v", err)
	}
	if n := runtime.NumGoroutine(); n > before+1 {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}

// scaledTensors are weights that sample other tokens than m's.
func scaledTensors(m *model.Model) func(string) ([]float32, error) {
	return func(name string) ([]float32, error) {
		v, err := tensors(m)(name)
		for i := range v {
			v[i] *= 1.3
		}
		return v, err
	}
}

func TestUpdateBetweenSteps(t *testing.T) {
	m := tiny(t, "llama")
	prompt := []int32{21, 22, 23, 24}
	p := trinity.SamplingParams{Temperature: 1, MaxTokens: 30, Seed: 3, IgnoreEOS: true}
	scaled := scaledTensors(m)
	old := sample(t, start(t, m, Options{}), prompt, p)
	fresh := start(t, m, Options{})
	if err := fresh.Update(2, scaled); err != nil {
		t.Fatal(err)
	}
	changed := sample(t, fresh, prompt, p)
	if changed[0].Versions != [2]int64{2, 2} || slices.Equal(changed[0].Tokens, old[0].Tokens) {
		t.Fatalf("other weights, version %v, same tokens: the test cannot tell", changed[0].Versions)
	}

	s := start(t, m, Options{})
	updated, n := make(chan error, 1), 0
	q := p
	q.OnToken = func(int, trinity.Sampled) {
		if n++; n == 10 {
			go func() { updated <- s.Update(2, scaled) }()
		}
		if n > 10 && n < 25 {
			time.Sleep(2 * time.Millisecond) // lets the update have its turn before the completion is done
		}
	}
	mixed := sample(t, s, prompt, q)[0]
	if err := <-updated; err != nil {
		t.Fatal(err)
	}
	if mixed.Versions != [2]int64{1, 2} || !slices.Equal(mixed.Tokens[:10], old[0].Tokens[:10]) {
		t.Errorf("versions %v, tokens %v; want [1 2], beginning with %v", mixed.Versions, mixed.Tokens, old[0].Tokens[:10])
	}
	if got := sample(t, s, prompt, p); !same(got, changed) {
		t.Errorf("after the update:\n got %v\nwant %v (the prompt's old K/V must not be used)", got, changed)
	}
}

// TestUpdateRestartsAPromptInProgress replaces the weights after the first of a prompt's chunks.
func TestUpdateRestartsAPromptInProgress(t *testing.T) {
	m := tiny(t, "llama")
	question := []int32{21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32}
	p := trinity.SamplingParams{MaxTokens: 20, IgnoreEOS: true}
	fresh := start(t, m, Options{})
	if err := fresh.Update(2, scaledTensors(m)); err != nil {
		t.Fatal(err)
	}
	want := sample(t, fresh, question, p)

	s := start(t, m, Options{PrefillChunk: 5})
	r, err := s.newRequest(question, p)
	if err != nil {
		t.Fatal(err)
	}
	s.gate.Lock()
	if err := s.inbox.push(r); err != nil {
		t.Fatal(err)
	}
	s.scheduler.step()
	if done := s.scheduler.prompts[0].done; done != 5 {
		t.Fatalf("%d prompt tokens after one step, want 5", done)
	}
	err = s.replaceWeights(2, Weights{Tensor: scaledTensors(m)})
	s.gate.Unlock()
	s.inbox.wake.Signal() // the scheduler may have found the queue empty, its work being done here
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.wait(context.Background(), s.inbox)
	if err != nil || !same(got, want) || got[0].Versions != [2]int64{2, 2} {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestFailedUpdateFailsRequestsUntilTheNext(t *testing.T) {
	m := tiny(t, "llama")
	s := start(t, m, Options{})
	short := func(name string) ([]float32, error) {
		v, err := tensors(m)(name)
		return v[:len(v)-1], err
	}
	if err := s.Update(2, short); err == nil || !strings.Contains(err.Error(), "model.embed_tokens.weight has 2047 elements") {
		t.Errorf("update: %v", err)
	}
	if _, err := s.Sample(context.Background(), trinity.Prompt{Tokens: []int32{2}}, trinity.SamplingParams{}); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("sample: %v", err)
	}
	if err := s.Update(3, tensors(m)); err != nil {
		t.Fatal(err)
	}
	if got := sample(t, s, []int32{2}, trinity.SamplingParams{MaxTokens: 1}); got[0].Versions != [2]int64{3, 3} {
		t.Errorf("versions %v", got[0].Versions)
	}
}

func TestBadRequestsAreErrors(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{MaxTokens: 48})
	for _, c := range []struct {
		prompt []int32
		params trinity.SamplingParams
		want   string
	}{
		{nil, trinity.SamplingParams{}, "prompt is empty"},
		{[]int32{1, 64}, trinity.SamplingParams{}, "prompt token 1 is 64"},
		{[]int32{-1}, trinity.SamplingParams{}, "prompt token 0 is -1"},
		{make([]int32, 64), trinity.SamplingParams{}, "leaves no room"},
		{make([]int32, 30), trinity.SamplingParams{}, "K/V cache of 3"},
		{[]int32{2}, trinity.SamplingParams{Temperature: -1}, "temperature is -1"},
		{[]int32{2}, trinity.SamplingParams{TopP: 1.5}, "top_p is 1.5"},
		{[]int32{2}, trinity.SamplingParams{MinP: 2}, "min_p is 2"},
		{[]int32{2}, trinity.SamplingParams{N: -1}, "N is -1"},
		{[]int32{2}, trinity.SamplingParams{N: 1 << 58}, "N is 288230376151711744; expected 1 to 65536"},
		{[]int32{2}, trinity.SamplingParams{RepetitionPenalty: -1}, "repetition_penalty is -1"},
		{[]int32{2}, trinity.SamplingParams{Stop: []string{"x"}}, "the model has no tokenizer"},
	} {
		if _, err := s.Sample(context.Background(), trinity.Prompt{Tokens: c.prompt}, c.params); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %+v: %v; want an error with %q", c.prompt, c.params, err, c.want)
		}
	}
}

// TestStopTokensOutsideTheVocabularyAreNeverSampled forbids them as long as a reply is too short to
// end: there is no logit to take out.
func TestStopTokensOutsideTheVocabularyAreNeverSampled(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{})
	p := trinity.SamplingParams{MaxTokens: 3, MinTokens: 3, Temperature: 1}
	want := sample(t, s, []int32{2, 3}, p)
	p.StopTokens = []int32{-4, 64, 1 << 20}
	if got := sample(t, s, []int32{2, 3}, p); !same(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// begin takes three steps with a request. The caller holds the gate, and steps on: the sampler's goroutine
// does not learn of the request.
func begin(t *testing.T, s *Sampler, p trinity.SamplingParams) {
	t.Helper()
	r, err := s.newRequest([]int32{2, 3}, p)
	if err != nil {
		t.Fatal(err)
	}
	s.inbox.mu.Lock()
	s.inbox.queue.push(r)
	s.inbox.mu.Unlock()
	for range 3 {
		s.scheduler.step()
	}
}

// TestSchedulingAllocatesNothing plans and draws steps of 16 sequences by hand, without the model's
// pass between.
func TestSchedulingAllocatesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("short tests are those of the race detector, under which a sync.Pool forgets at random")
	}
	s := start(t, tiny(t, "llama"), Options{Pool: kernel.NewPool(1)})
	s.gate.Lock()
	defer s.gate.Unlock()
	begin(t, s, trinity.SamplingParams{N: 16, Temperature: 1, TopP: 0.9, RepetitionPenalty: 1.1, IgnoreEOS: true})
	if len(s.scheduler.running) != 16 || len(s.scheduler.draws) != 16 {
		t.Fatalf("%d sequences, %d draws; want 16", len(s.scheduler.running), len(s.scheduler.draws))
	}
	n := testing.AllocsPerRun(20, func() {
		s.scheduler.plan()
		s.scheduler.model.reading.Plan(s.scheduler.model.shape, s.scheduler.model.pool, s.scheduler.batch.sees)
		for i, q := range s.scheduler.running {
			s.scheduler.draws[i] = draw{sequence: q, row: i}
		}
		s.scheduler.drawTokens()
		s.scheduler.deliver()
	})
	if head := testing.AllocsPerRun(20, func() { s.scheduler.model.head(&s.scheduler.batch, 0, 16) }); n > head {
		t.Errorf("%v allocations per step, of them %v in the head", n, head)
	}
}

// A caller that gives up during a rest does not wait for its end, whether its request is sampled or queued: a run whose trainer fails
// before it publishes ends.
func TestRequestsEndDuringARest(t *testing.T) {
	m := tiny(t, "llama")
	s := start(t, m, Options{MaxSequences: 2})
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller has gone")
	failed := make(chan error)
	ask := func(p trinity.SamplingParams) {
		_, err := s.Sample(ctx, trinity.Prompt{Tokens: []int32{5, 6, 7}}, p)
		failed <- err
	}
	begun := make(chan struct{})
	once := sync.OnceFunc(func() { close(begun); s.inbox.rest(true) })
	go ask(trinity.SamplingParams{N: 2, MaxTokens: 9, IgnoreEOS: true, OnToken: func(int, trinity.Sampled) { once() }})
	<-begun
	s.Rest()
	go ask(trinity.SamplingParams{MaxTokens: 1})
	for s.Stats().Queued == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel(gone)
	for range 2 {
		select {
		case err := <-failed:
			if !errors.Is(err, gone) {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a cancelled request waits for the end of the rest")
		}
	}
	if err := s.Update(2, tensors(m)); err != nil {
		t.Fatal(err)
	}
	out := sample(t, s, []int32{5, 6, 7}, trinity.SamplingParams{MaxTokens: 2, IgnoreEOS: true})
	if out[0].Versions != [2]int64{2, 2} {
		t.Errorf("after the rest: %+v", out)
	}
	checkPages(t, s)
}
