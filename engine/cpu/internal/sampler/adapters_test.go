package sampler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// recordedAdapters lists PEFT's adapters: of some modules, of all modules with the rank-stabilised
// scale, of all but two modules, and of some modules and the head.
var recordedAdapters = []string{"plain", "stable", "partial", "head"}

// load gives s the recorded adapters.
func load(t testing.TB, s *Sampler, names ...string) {
	t.Helper()
	for i, name := range names {
		if err := s.LoadAdapter(context.Background(), name, filepath.Join("testdata", "adapters", name), int64(10+i)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAdaptersEqualPEFT(t *testing.T) {
	var cases map[string][]recorded
	readRecorded(t, "adapters", &cases)
	s := start(t, tiny(t, "llama"), Options{PrefillChunk: 7})
	load(t, s, recordedAdapters...)
	for name, all := range cases {
		for _, c := range all {
			out := sample(t, s, c.Prompt, trinity.SamplingParams{Adapter: name, MaxTokens: len(c.Tokens), IgnoreEOS: true})
			c.compare(t, out[0], 2e-5)
			version := map[string]int64{"base": 1, "plain": 10, "stable": 11, "partial": 12, "head": 13}[name]
			if out[0].Versions != [2]int64{version, version} {
				t.Errorf("%s: sampled by versions %v", name, out[0].Versions)
			}
		}
	}
}

// mixed is the requests of twenty, each with one of five adapters or none: the same prompt is asked
// of several.
func mixed() []asked {
	requests := twenty()
	for i := range requests {
		requests[i].params.Adapter = append([]string{"", trinity.BaseAdapter}, recordedAdapters...)[i%6]
	}
	return requests
}

func TestAdaptersHaveTheSameBitsInAnyCompany(t *testing.T) {
	requests := mixed()
	m := tiny(t, "llama")
	want := make([][]trinity.Completion, len(requests))
	for i, r := range requests { // alone, in a sampler that has nothing else
		s := start(t, m, Options{Pool: kernel.NewPool(1), MaxSequences: 2})
		if slices.Contains(recordedAdapters, r.params.Adapter) {
			load(t, s, r.params.Adapter)
		}
		want[i] = sample(t, s, r.prompt, r.params)
	}
	for _, c := range []Options{
		{MaxSequences: 32},
		{MaxSequences: 3, PrefillChunk: 5},
		{MaxSequences: 20, PrefillChunk: 64, MaxTokens: 512, Pool: kernel.NewPool(3)},
	} {
		s := start(t, m, c)
		load(t, s, recordedAdapters...)
		for round := range 3 {
			order := rand.New(rand.NewPCG(uint64(round), 2)).Perm(len(requests))
			got := answers(t, s, requests, order, []int{20, 4, 1}[round])
			for i := range requests {
				if !same(got[i], want[i]) {
					t.Errorf("%d sequences, round %d: request %d with adapter %q\n got %v\nwant %v", c.MaxSequences, round, i, requests[i].params.Adapter, got[i], want[i])
				}
			}
		}
	}
}

// Adapters stay float32 beside a base of fewer bits.
func TestAdaptersOfSmallWeights(t *testing.T) {
	requests := mixed()
	m := tiny(t, "llama")
	for _, storage := range []kernel.Storage{kernel.BF16, kernel.Int8} {
		var outs [][][]trinity.Completion
		for _, inFlight := range []int{1, 20} {
			s := start(t, m, Options{Storage: storage, PrefillChunk: 2 + inFlight})
			load(t, s, recordedAdapters...)
			outs = append(outs, answers(t, s, requests, rand.Perm(len(requests)), inFlight))
		}
		for i := range requests {
			if !same(outs[0][i], outs[1][i]) {
				t.Errorf("storage %v: request %d with adapter %q: %v alone, %v in company", storage, i, requests[i].params.Adapter, outs[0][i], outs[1][i])
			}
		}
	}
}

// Requests without a name sample from the policy's adapter. The base stays available.
func TestPolicyAdapter(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{})
	load(t, s, "stable")
	p := trinity.SamplingParams{MaxTokens: 10, IgnoreEOS: true}
	prompt := []int32{5, 6, 7, 8, 9, 10, 11, 12, 13}
	with := func(adapter string) []trinity.Completion {
		p.Adapter = adapter
		return sample(t, s, prompt, p)
	}
	if !same(with(""), with(trinity.BaseAdapter)) || same(with(""), with("stable")) {
		t.Error("without an adapter of its own the policy is the base, and no other")
	}
	file, err := model.OpenAdapter("testdata/adapters/stable", &s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := s.UpdateAdapter(7, &file.LoRA, file.Float32); err != nil {
		t.Fatal(err)
	}
	policy, base := with(""), with(trinity.BaseAdapter)
	if !same(policy, with("stable")) || same(base, policy) {
		t.Error("the policy has its adapter, the base none")
	}
	if policy[0].Versions != [2]int64{7, 7} || base[0].Versions != [2]int64{1, 1} {
		t.Errorf("policy sampled by %v, base by %v", policy[0].Versions, base[0].Versions)
	}
}

// A replaced adapter shares no prompt with its predecessor.
func TestReplacedAdapterComputesPromptsAgain(t *testing.T) {
	s := start(t, tiny(t, "llama"), Options{})
	prompt := []int32{5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24}
	p := trinity.SamplingParams{Adapter: "a", MaxTokens: 10, IgnoreEOS: true}
	load(t, s, "partial")
	sample(t, s, prompt, trinity.SamplingParams{Adapter: "partial", MaxTokens: 1})
	var outs [][]trinity.Completion
	for version, from := range []string{"plain", "stable", "plain"} {
		if err := s.LoadAdapter(context.Background(), "a", filepath.Join("testdata", "adapters", from), int64(version)); err != nil {
			t.Fatal(err)
		}
		before := s.Stats().Prefilled
		outs = append(outs, sample(t, s, prompt, p), sample(t, s, prompt, p))
		if n := s.Stats().Prefilled - before; n != int64(len(prompt)) {
			t.Errorf("version %d: %d prompt tokens were computed for two requests, want %d", version, n, len(prompt))
		}
	}
	before := s.Stats().Prefilled
	sample(t, s, prompt, trinity.SamplingParams{Adapter: "partial", MaxTokens: 1})
	if n := s.Stats().Prefilled - before; n != 0 {
		t.Errorf("%d prompt tokens of another adapter were computed again", n)
	}
	if cached := s.Stats().Cached; cached > 2*2*pageTokens*pagesFor(len(prompt)) {
		t.Errorf("%d tokens are cached: those of replaced adapters were not given up", cached)
	}
	if !same(outs[0], outs[1]) || same(outs[0], outs[2]) || !same(outs[0], outs[4]) {
		t.Errorf("completions %v", outs)
	}
}

// If an adapter is replaced, its sequences continue with the new one. If it is dropped, they end.
func TestAdaptersChangeWhileSampled(t *testing.T) {
	ctx := context.Background()
	s := start(t, tiny(t, "llama"), Options{MaxSequences: 4})
	load(t, s, recordedAdapters...)
	var wait sync.WaitGroup
	stop := make(chan struct{})
	for i := range 6 {
		wait.Go(func() {
			p := trinity.SamplingParams{Adapter: append([]string{""}, recordedAdapters...)[i%4], Temperature: 1, MaxTokens: 40, IgnoreEOS: true}
			for seed := range uint64(20) {
				p.Seed = seed
				if _, err := s.Sample(ctx, trinity.Prompt{Tokens: []int32{3, 4, int32(i)}}, p); err != nil && !errors.Is(err, trinity.ErrUnknownAdapter) {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := int64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			name := recordedAdapters[i%3]
			err := s.LoadAdapter(ctx, name, filepath.Join("testdata", "adapters", recordedAdapters[(i+1)%3]), i)
			if i%4 == 3 {
				err = errors.Join(err, s.DropAdapter(ctx, name))
			}
			if err != nil {
				t.Error(err)
			}
		}
	}()
	wait.Wait()
	close(stop)
	<-done
}

func TestDroppedAdapterEndsItsRequests(t *testing.T) {
	ctx := context.Background()
	s := start(t, tiny(t, "llama"), Options{MaxSequences: 2})
	load(t, s, "stable")
	p := trinity.SamplingParams{Adapter: "stable", N: 6, Temperature: 1, MaxTokens: 12, IgnoreEOS: true, Seed: 3}
	want := sample(t, s, []int32{7, 8, 9}, p)
	var once sync.Once
	dropping, dropped := make(chan struct{}), make(chan error)
	go func() {
		<-dropping
		dropped <- s.DropAdapter(ctx, "stable")
	}()
	p.OnToken = func(int, trinity.Sampled) { once.Do(func() { close(dropping) }) }
	if got := sample(t, s, []int32{7, 8, 9}, p); !same(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := <-dropped; err != nil {
		t.Error(err)
	}
	if len(s.Adapters()) != 0 {
		t.Errorf("adapters %v", s.Adapters())
	}
}

func TestAdapterErrors(t *testing.T) {
	ctx := context.Background()
	s := start(t, tiny(t, "llama"), Options{MaxAdapters: 2, MaxAdapterRank: 4})
	load(t, s, "plain", "stable")
	sampled := func(name string) error {
		_, err := s.Sample(ctx, trinity.Prompt{Tokens: []int32{3}}, trinity.SamplingParams{Adapter: name, MaxTokens: 1})
		return err
	}
	wide := model.LoRA{Rank: 4, Alpha: 1, TargetModules: []string{"q_proj"}}
	for want, err := range map[string]error{
		`no adapter is called "nobody"; loaded are plain, stable`:   sampled("nobody"),
		`no adapter is called "dropped"`:                            s.DropAdapter(ctx, "dropped"),
		`has rank 5; the sampler takes up to 4`:                     s.LoadAdapter(ctx, "partial", "testdata/adapters/partial", 1),
		`the sampler has 2 adapters, which is the limit`:            s.LoadAdapter(ctx, "third", "testdata/adapters/plain", 1),
		`cannot be called "base"`:                                   s.LoadAdapter(ctx, "base", "testdata/adapters/plain", 1),
		`cannot be called ""`:                                       s.LoadAdapter(ctx, "", "testdata/adapters/plain", 1),
		`adapter_config.json`:                                       s.LoadAdapter(ctx, "plain", "testdata", 1),
		`q_proj.lora_A.weight has 1 elements; the config demands 1`: s.SetAdapter("plain", 2, &wide, func(string) ([]float32, error) { return []float32{1}, nil }),
		`q_proj.lora_A.weight: no such thing`:                       s.SetAdapter("plain", 2, &wide, func(string) ([]float32, error) { return nil, errors.New("no such thing") }),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
	if err := sampled("plain"); err != nil {
		t.Errorf("after failed loads: %v", err)
	}
	if err := errors.Join(s.DropAdapter(ctx, "plain"), s.LoadAdapter(ctx, "third", "testdata/adapters/plain", 1)); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(s.Adapters()); got != "[stable third]" {
		t.Errorf("adapters %s", got)
	}
	s.Close()
	if err := s.LoadAdapter(ctx, "third", "testdata/adapters/plain", 2); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestStretches(t *testing.T) {
	none, a, b := &adapter{}, &adapter{weights: &updates{}}, &adapter{weights: &updates{}}
	long := append(slices.Repeat([]*adapter{b}, adaptedRows+2), none)
	for _, c := range []struct {
		rows []*adapter
		want []stretch
	}{
		{nil, nil},
		{[]*adapter{none, none}, nil},
		{[]*adapter{a, a, none, b, a}, []stretch{{0, 2, a.weights}, {3, 4, b.weights}, {4, 5, a.weights}}},
		{long, []stretch{{0, adaptedRows, b.weights}, {adaptedRows, adaptedRows + 2, b.weights}}},
	} {
		if got := stretches(nil, c.rows); !slices.Equal(got, c.want) {
			t.Errorf("%d rows: %v, want %v", len(c.rows), got, c.want)
		}
	}
}

// TestAStepHasTheRowsOfAnAdapterTogether: requests of several adapters arrive in turns, and a step reads each adapter once.
func TestAStepHasTheRowsOfAnAdapterTogether(t *testing.T) {
	var all []*adapter
	for root := range int64(3) {
		all = append(all, &adapter{root: -1 - root, weights: &updates{}})
	}
	var running []*sequence
	for i := range 12 {
		running = append(running, &sequence{request: &request{adapter: all[i/2%3]}, index: i})
	}
	var rows []*adapter
	for i, q := range byAdapter(nil, running) {
		rows = append(rows, q.request.adapter)
		if i%2 == 1 && rows[i-1] != rows[i] {
			t.Errorf("the sequences of one prompt are no neighbours at row %d", i)
		}
	}
	if n := len(stretches(nil, rows)); n != 3 {
		t.Errorf("%d stretches of 3 adapters", n)
	}
	if running[2].index != 2 {
		t.Error("the order of the running sequences has changed")
	}
}

// TestSequencesWithCommonPagesAreNeighbours, also if others came between them, so that a step reads the pages once.
func TestSequencesWithCommonPagesAreNeighbours(t *testing.T) {
	a, b := &adapter{root: -1}, &adapter{root: -2}
	var running []*sequence
	for i, s := range []struct {
		adapter *adapter
		pages   []int32
	}{
		{a, []int32{7, 8, 20}}, {a, []int32{3, 4, 21}}, {b, []int32{1, 22}},
		{a, []int32{7, 8, 23}}, {a, []int32{3, 5, 24}}, {a, []int32{3, 4, 25}},
	} {
		running = append(running, &sequence{request: &request{adapter: s.adapter}, chain: chain{pages: s.pages}, index: i})
	}
	var order []int
	for _, q := range byAdapter(nil, running) {
		order = append(order, q.index)
	}
	if want := []int{2, 1, 5, 4, 0, 3}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}
