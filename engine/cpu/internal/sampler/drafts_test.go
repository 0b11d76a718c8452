package sampler

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// drafted are requests of every kind that ends, changes or records a draw. Those with an equal prompt are a
// group.
func drafted() []asked {
	requests := twenty()
	group, other := counted(21, 5), counted(37, 6)
	for i, temperature := range []float32{0, 0.3, 1} {
		for _, p := range []trinity.SamplingParams{
			{N: 4, MaxTokens: 30, IgnoreEOS: true, TopLogprobs: 3},
			{N: 2, MaxTokens: 1 + 8*i, TopK: 9, MinP: 0.01, MinTokens: 6},
			{MaxTokens: 27, TopP: 0.8, RepetitionPenalty: 1.3, PresencePenalty: 0.2, FrequencyPenalty: 0.4, StopTokens: []int32{7, 8}},
			{N: 2, MaxTokens: 24, LogitBias: map[int32]float32{3: 4, 4: 4.5}, Stop: []string{"S", "44"}},
			{N: 2, MaxTokens: 22, IgnoreEOS: true, Constraint: &ladder{most: 99}},
			{N: 2, MaxTokens: 22, Constraint: &ladder{most: 7, end: 1}},
		} {
			p.Temperature, p.Seed = temperature, uint64(i)
			requests = append(requests, asked{group, p}, asked{other, p})
		}
	}
	return requests
}

// letters is a text of tokens, a byte each.
func letters(tokens []int32) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte(byte('0' + t))
	}
	return b.String()
}

// alike reports whether completions are the same in all that drafts must not change.
func alike(a, b []trinity.Completion) bool {
	return same(a, b) && slices.EqualFunc(a, b, func(x, y trinity.Completion) bool {
		return x.Changed == y.Changed && x.Versions == y.Versions && slices.EqualFunc(x.TopLogprobs, y.TopLogprobs, func(u, v []trinity.TokenLogprob) bool {
			return slices.EqualFunc(u, v, func(p, q trinity.TokenLogprob) bool {
				return p.Token == q.Token && math.Float32bits(p.Logprob) == math.Float32bits(q.Logprob)
			})
		})
	})
}

// teach gives a sampler the replies to a request as texts, each with about one token in every changed
// otherwise.
func teach(t *testing.T, s *Sampler, a asked, replies []trinity.Completion, every int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(every), 3))
	r, err := s.newRequest(a.prompt, a.params)
	if err != nil {
		t.Fatal(err)
	}
	s.gate.Lock()
	defer s.gate.Unlock()
	for _, c := range replies {
		tokens := slices.Clone(c.Tokens)
		for i := range tokens {
			if rng.IntN(every) == 0 {
				tokens[i] = rng.Int32N(64)
			}
		}
		s.scheduler.drafter.learn(&sequence{request: r, tokens: append(tokens, 5, 6, 7, 8)}, len(tokens)+4) // it goes on beyond the reply's end
	}
}

// TestDraftsChangeNoBit samples with drafts of any number that are often right, seldom right, and right
// until the last.
func TestDraftsChangeNoBit(t *testing.T) {
	requests := drafted()
	order := rand.New(rand.NewPCG(3, 4)).Perm(len(requests))
	options := 3
	if testing.Short() {
		options = 1 // the race detector takes ten times as long
	}
	for number, c := range []struct {
		model    string
		storage  kernel.Storage
		adapters bool
	}{
		{"llama", kernel.F32, false}, {"llama", kernel.F32, true}, {"mistral", kernel.F32, false}, {"qwen3", kernel.BF16, false},
		{"qwen3_moe", kernel.F32, false}, {"llama", kernel.Int8, true}, {"qwen3_moe", kernel.Int8, false}, {"smollm3", kernel.F32, false},
		{"gemma3_text", kernel.F32, false}, {"olmo3", kernel.BF16, false},
		{"phi3", kernel.F32, false}, {"ministral3", kernel.F32, false},
		{"granite", kernel.F32, false}, {"granitemoehybrid", kernel.BF16, false}, {"lfm2", kernel.F32, false}, {"lfm2", kernel.Int8, false},
	} {
		if testing.Short() && number > 2 {
			break
		}
		m := tiny(t, c.model)
		mine := slices.Clone(requests)
		for i := range mine {
			if c.adapters {
				mine[i].params.Adapter = append([]string{"", trinity.BaseAdapter}, recordedAdapters...)[i%6]
			}
		}
		begin := func(opts Options) *Sampler {
			opts.Storage, opts.Decode, opts.MaxModelLen = c.storage, letters, 64
			s := start(t, m, opts)
			if c.adapters {
				load(t, s, recordedAdapters...)
			}
			return s
		}
		all := []Options{
			{Drafts: 1}, {Drafts: 2, MaxSequences: 3, PrefillChunk: 5}, {Drafts: 3, MaxTokens: 160}, {Drafts: 5},
			{Drafts: 8, MaxTokens: 200}, {Drafts: 16}, {Drafts: Automatic, MaxSequences: 4},
		}
		want := answers(t, begin(Options{}), mine, order, 1)
		for i := range options { // each with some models
			opts := all[(number*3+i)%len(all)]
			s := begin(opts)
			for round, every := range []int{1 << 30, 6, 2} {
				for j := range mine {
					teach(t, s, mine[j], want[j], every)
				}
				got := answers(t, s, mine, order, []int{1, 5, 20}[(round+i)%3])
				for j := range mine {
					if !alike(got[j], want[j]) {
						t.Errorf("%s %v, drafts %d, round %d, request %d:\n got %v\nwant %v", c.model, c.storage, opts.Drafts, round, j, got[j], want[j])
					}
				}
			}
			checkPages(t, s)
			stats := s.Stats()
			if opts.Drafts > 0 && (stats.Accepted == 0 || stats.Accepted == stats.Drafted) {
				t.Errorf("%s, drafts %d: %d of %d were accepted: the test needs both", c.model, opts.Drafts, stats.Accepted, stats.Drafted)
			}
			if small := opts.MaxTokens == 160; small && stats.Preempted == 0 {
				t.Errorf("%s, drafts %d: nothing was preempted", c.model, opts.Drafts)
			}
		}
	}
}

// TestDraftsOfOtherWeights replaces weights and an adapter between steps whose drafts are of the old ones.
func TestDraftsOfOtherWeights(t *testing.T) {
	m := tiny(t, "llama")
	p := trinity.SamplingParams{N: 3, Temperature: 0.3, MaxTokens: 30, Seed: 3, IgnoreEOS: true}
	prompt := counted(21, 1)
	for at := 1; at < 9; at++ {
		s := start(t, m, Options{Drafts: 4})
		before := sample(t, s, prompt, p)
		s.gate.Lock()
		r := enqueued(t, s, prompt, p)
		for range at {
			s.scheduler.step()
		}
		drawn := make([][]int32, p.N)
		for _, q := range s.scheduler.running {
			drawn[q.index] = slices.Clone(q.tokens)
		}
		if err := s.replaceWeights(2, Weights{Tensor: scaledTensors(m)}); err != nil {
			t.Fatal(err)
		}
		got := finished(t, s, r)
		s.gate.Unlock()
		for i, c := range got {
			if n := len(drawn[i]); !slices.Equal(c.Tokens[:n], before[i].Tokens[:n]) || n > 0 && n < 30 && c.Versions != [2]int64{1, 2} {
				t.Errorf("%d tokens before the update, versions %v: %v became %v", n, c.Versions, before[i].Tokens, c.Tokens)
			}
		}
		fresh := start(t, m, Options{})
		if err := fresh.Update(2, scaledTensors(m)); err != nil {
			t.Fatal(err)
		}
		if got, want := sample(t, s, prompt, p), sample(t, fresh, prompt, p); !same(got, want) {
			t.Errorf("after the update: got %v, want %v", got, want)
		}
		checkPages(t, s)
	}
}

// TestPreemptedBetweenDrafts sends all completions back to wait after each step.
func TestPreemptedBetweenDrafts(t *testing.T) {
	m := tiny(t, "llama")
	a := asked{counted(21, 3), trinity.SamplingParams{N: 3, Temperature: 1, MaxTokens: 40, Seed: 9, IgnoreEOS: true, RepetitionPenalty: 1.1}}
	want := sample(t, start(t, m, Options{}), a.prompt, a.params)
	for steps := 1; steps < 12; steps++ {
		s := start(t, m, Options{Drafts: 3})
		teach(t, s, a, want, 5)
		if got := preempted(t, s, a.prompt, a.params, steps); !same(got, want) {
			t.Errorf("after %d steps: got %v, want %v", steps, got, want)
		}
		checkPages(t, s)
	}
}

// TestTokensAreToldInOrder: OnToken gets each token once, in order, also if a step draws several.
func TestTokensAreToldInOrder(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{Drafts: 6, MaxTokens: 128, MaxModelLen: 96})
	var mu sync.Mutex
	told := map[int][]int32{}
	p := trinity.SamplingParams{N: 6, MaxTokens: 60, IgnoreEOS: true, OnToken: func(i int, s trinity.Sampled) {
		mu.Lock()
		defer mu.Unlock()
		told[i] = append(told[i], s.Token)
	}}
	for range 2 {
		clear(told)
		for i, c := range sample(t, s, counted(21, 1), p) {
			if !slices.Equal(told[i], c.Tokens) {
				t.Errorf("completion %d: told %v, returned %v", i, told[i], c.Tokens)
			}
		}
	}
	if stats := s.Stats(); stats.Accepted == 0 || stats.Sampled != 2*6*60 {
		t.Errorf("%+v", stats)
	}
}

// TestPagesOfDraftsAreGivenBack looks at the pages of all sequences after each step.
func TestPagesOfDraftsAreGivenBack(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{Drafts: 16, MaxSequences: 3})
	a := asked{counted(13, 3), trinity.SamplingParams{N: 4, Temperature: 1, MaxTokens: 50, IgnoreEOS: true}}
	replies := sample(t, s, a.prompt, a.params)
	teach(t, s, a, replies[1:], 1<<30)
	teach(t, s, a, replies[:1], 4)
	s.gate.Lock()
	defer s.gate.Unlock()
	r := enqueued(t, s, a.prompt, a.params)
	most := 0
	for s.inbox.first() != nil || len(s.scheduler.running) > 0 {
		s.scheduler.step()
		for _, q := range s.scheduler.running {
			if most = max(most, q.verified); q.prompt == nil && len(q.chain.pages) != pagesFor(q.position()) {
				t.Errorf("%d pages for %d tokens", len(q.chain.pages), q.position())
			}
		}
		checkAccounts(t, &s.scheduler.pages)
	}
	if <-r.done; most < pageTokens {
		t.Errorf("at most %d drafts at once: no page was more than the next", most)
	}
}

// TestNoRoomForDrafts samples with a cache that the prompt and its completion fill.
func TestNoRoomForDrafts(t *testing.T) {
	m := tiny(t, "llama")
	p := trinity.SamplingParams{MaxTokens: 27, IgnoreEOS: true}
	want := sample(t, start(t, m, Options{}), counted(5, 1), p)
	s := start(t, m, Options{Drafts: 16, MaxTokens: 48, MaxModelLen: 32, MaxSequences: 2})
	for range 3 {
		if got := sample(t, s, counted(5, 1), p); !same(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	checkPages(t, s)
}

// TestRepeatedRepliesAreAccepted: a reply that the sampler has given before is drawn in a few steps, and
// one of which no part came before takes a step a token.
func TestRepeatedRepliesAreAccepted(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{Drafts: 7})
	p := trinity.SamplingParams{Temperature: 1, MaxTokens: 56, Seed: 3, IgnoreEOS: true}
	sample(t, s, counted(5, 2), p)
	first := s.Stats()
	sample(t, s, counted(5, 2), p)
	second := s.Stats()
	if rate := float64(first.Accepted) / float64(max(1, first.Drafted)); rate > 0.3 {
		t.Errorf("random tokens: %d of %d drafts were accepted", first.Accepted, first.Drafted)
	}
	// The prompt's step draws the first token, and steps without a match begin behind it.
	if steps := second.Steps - first.Steps; steps > 1+2+56/8 || second.Accepted-first.Accepted < 44 {
		t.Errorf("%d steps, %d drafts accepted for a reply that came before", steps, second.Accepted-first.Accepted)
	}
	other := p
	other.Adapter = trinity.BaseAdapter
	third := s.Stats()
	sample(t, s, counted(5, 2), other)
	if got := s.Stats().Accepted - third.Accepted; got > 20 {
		t.Errorf("another adapter's reply gave %d accepted drafts", got)
	}
}

// TestDraftingAllocatesNothing plans and draws steps by hand, without the model's pass between.
func TestDraftingAllocatesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("short tests are those of the race detector, under which a sync.Pool forgets at random")
	}
	s := start(t, tiny(t, "llama"), Options{Drafts: 3, Pool: kernel.NewPool(1), MaxModelLen: 64})
	s.gate.Lock()
	defer s.gate.Unlock()
	begin(t, s, trinity.SamplingParams{N: 4, IgnoreEOS: true})
	rows := 0
	step := func() {
		for _, q := range s.scheduler.running {
			q.tokens, q.logprobs = q.tokens[:3], q.logprobs[:3]
		}
		b := &s.scheduler.batch
		s.scheduler.plan()
		s.scheduler.model.reading.Plan(s.scheduler.model.shape, s.scheduler.model.pool, b.sees)
		for _, row := range b.heads {
			b.headAdapters = append(b.headAdapters, b.adapters[row])
		}
		rows = max(rows, len(b.heads))
		s.scheduler.drawTokens()
		s.scheduler.drafter.measure(len(s.scheduler.grouped), b, s.scheduler.draws, 1)
		s.scheduler.deliver()
	}
	for range 100 { // buffers grow with the drafts
		step()
	}
	n := testing.AllocsPerRun(8, step)
	if head := testing.AllocsPerRun(8, func() { s.scheduler.model.head(&s.scheduler.batch, 0, rows) }); n > head || rows < 5 {
		t.Errorf("%v allocations per step of up to %d rows, of them %v in the head", n, rows, head)
	}
}

// TestMemoryOfDrafts: Plan counts what drafts take, and texts take no more than that.
func TestMemoryOfDrafts(t *testing.T) {
	m, err := model.ReadConfig(filepath.Join("..", "..", "testdata", "llama"))
	if err != nil {
		t.Fatal(err)
	}
	sum := func(drafts int) (bytes int64) {
		parts, err := Plan(*m, Options{MaxSequences: 4, Drafts: drafts})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			bytes += p.Bytes
		}
		return bytes
	}
	more := int64(60 * 4 * (m.VocabSize + m.HiddenSize*4)) // logits and activations, at least
	if with, without := sum(2), sum(0); with < without+textBytes+more || with > without+textBytes+20*more {
		t.Errorf("%d bytes with drafts, %d without; want %d more at least", with, without, textBytes+more)
	}
	x := newTexts(textParts)
	held := 4*(cap(x.tokens)+2*(cap(x.indexes[0].heads)+cap(x.indexes[0].links))) + 48*cap(x.parts) + 16*len(x.prompts)
	if held > textBytes {
		t.Errorf("texts hold %d bytes; planned are %d", held, textBytes)
	}
	tokens, group := counted(500, 1), uint64(1)
	if n := testing.AllocsPerRun(3, func() {
		for range textParts / 8 {
			group += 2
			reply := x.begin(group, tokens[:40])
			for _, token := range tokens {
				x.add(&reply, token, true)
			}
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRandomRequestsWithDrafts(t *testing.T) {
	for _, keep := range []bool{false, true} {
		randomRequests(t, Options{MaxTokens: 160, MaxModelLen: 64, MaxSequences: 9, PrefillChunk: 24, KeepAcrossVersions: keep, Drafts: 5})
	}
}

func TestWrongDrafts(t *testing.T) {
	for _, drafts := range []int{-2, MostDrafts + 1} {
		_, err := New(*tiny(t, "llama").Config, Options{Drafts: drafts})
		if want := fmt.Sprintf("Drafts is %d; expected 0 to 16", drafts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want an error with %q", err, want)
		}
	}
}

// A step that also scores a prompt tells nothing of the time of rows that decode: it has more rows than any step without one.
func TestDraftsBesideAScoredPrompt(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{Drafts: Automatic, MaxSequences: 4, MaxModelLen: 256})
	begun, scored := make(chan struct{}), make(chan error)
	go func() {
		<-begun
		p := trinity.SamplingParams{MaxTokens: 2, ScorePrompt: true, IgnoreEOS: true}
		_, err := s.Sample(t.Context(), trinity.Prompt{Tokens: counted(100, 1)}, p)
		scored <- err
	}()
	once := sync.OnceFunc(func() {
		close(begun)
		for s.Stats().Queued == 0 {
			time.Sleep(time.Millisecond)
		}
	})
	p := trinity.SamplingParams{MaxTokens: 20, IgnoreEOS: true, OnToken: func(int, trinity.Sampled) { once() }}
	sample(t, s, []int32{5, 6, 7}, p)
	if err := <-scored; err != nil {
		t.Fatal(err)
	}
	s.gate.Lock()
	defer s.gate.Unlock()
	if of := s.scheduler.drafter.pace.rows; of[len(of)-1].n > 0 {
		t.Errorf("a step of %d rows was measured", len(of)-1)
	}
}
