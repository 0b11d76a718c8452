package cpu

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/internal/experience"
)

// branching returns sequences that begin with those before them, as the steps of rollouts and the
// branches of dialogues do. Any of their tokens may be trained, those in common too, each sequence
// with its own mask, weights and, at times, temperature.
func branching(seed uint64, vocabulary int) []*trinity.Experience {
	r := rand.New(rand.NewPCG(seed, 5))
	var xs []*trinity.Experience
	for i := range 8 + r.IntN(5) {
		x := &trinity.Experience{ID: trinity.ExperienceID{Run: i}, PromptLen: 1, Temperature: []float32{1, 1, 1, 0.7}[r.IntN(4)]}
		if i > 0 {
			from := xs[r.IntN(i)].Tokens
			if r.IntN(2) == 0 { // a branch; otherwise a step
				from = from[:r.IntN(len(from)+1)]
			}
			x.Tokens = slices.Clone(from)
		}
		for range 2 + r.IntN([]int{4, 30, 80}[r.IntN(3)]) {
			x.Tokens = append(x.Tokens, r.Int32N(int32(vocabulary)))
		}
		if i == 4 {
			x.Tokens = slices.Clone(xs[2].Tokens)
		}
		for t := range x.Tokens {
			x.Mask = append(x.Mask, t > 0 && r.IntN(3) > 0)
			x.Advantages = append(x.Advantages, float32(r.NormFloat64()))
			x.Returns = append(x.Returns, float32(r.NormFloat64()))
		}
		xs = append(xs, x)
	}
	return xs
}

// different counts the prefixes that sequences compute and the tokens that their losses see, each
// once.
func different(xs []*trinity.Experience) (rows, heads int) {
	prefixes, trained := map[string]bool{}, map[string]bool{}
	for _, x := range xs {
		for t := 1; t <= lastTrained(x.Mask); t++ {
			prefixes[fmt.Sprint(x.Tokens[:t])] = true
			if x.Mask[t] {
				trained[fmt.Sprint(x.Tokens[:t+1], x.Temperature)] = true
			}
		}
	}
	return len(prefixes), len(trained)
}

// branchCase is a kind of engine with a loss that it computes.
type branchCase struct {
	opts Options
	loss trinity.Loss
}

func branchCases(t *testing.T) map[string]branchCase {
	lora := &engine.LoRASpec{LoraRank: 2, LoraAlpha: 4}
	cases := map[string]branchCase{
		"value head":      {critic(), squared{}},
		"four layers":     {randomOptions(t, 4, 64), weighted{}},
		"adapter":         {Options{ModelPath: filepath.Join("testdata", "qwen2"), LoRA: lora}, weighted{}},
		"layers again":    {Options{ModelPath: filepath.Join("testdata", "qwen3"), Recompute: 1}, weighted{}},
		"from a teacher":  {tiny("llama"), imitation{trinity.Divergence{Kind: trinity.ReverseKL}, true}},
		"adapter experts": {Options{ModelPath: filepath.Join("testdata", "qwen3_moe"), LoRA: lora}, weighted{}},
	}
	for _, name := range references {
		cases[name] = branchCase{tiny(name), weighted{}}
	}
	return cases
}

// Each token that branches share is computed once, and each branch has the same numbers as alone.
func TestBranchesAreComputedOnce(t *testing.T) {
	for name, c := range branchCases(t) {
		t.Run(name, func(t *testing.T) {
			pools := []*kernel.Pool{kernel.NewPool(1), kernel.NewPool(2), kernel.NewPool(5)}
			for _, p := range pools {
				defer p.Close()
			}
			c.opts.Pool, c.opts.MaxTokens = pools[0], 100
			var e *Engine
			if c.loss.Streams().Divergence.Kind != "" {
				e = taught(t, c.opts, "teacher")
			} else {
				e = open(t, c.opts)
			}
			for seed := range uint64(4) {
				xs := branching(seed, 60)
				_, want := e.gradientOf(t, c.loss, whole(xs))
				rows, heads := different(xs)
				if p := &e.passes.packing; len(p.tokens) != rows || len(p.head) != heads {
					t.Errorf("seed %d: %d rows and %d head rows, want %d and %d", seed, len(p.tokens), len(p.head), rows, heads)
				}
				for _, pool := range pools[1:] {
					e.pool, e.passes.backbone.pool, e.passes.head.pool = pool, pool, pool
					if _, got := e.gradientOf(t, c.loss, whole(xs)); !slices.Equal(got, want) {
						t.Errorf("seed %d: %d cores give another gradient", seed, pool.Size())
					}
				}
				together := e.streamsOf(t, c.loss, xs)
				var cut []*trinity.Batch
				for i, x := range xs {
					one := xs[i : i+1]
					if !slices.Equal(e.streamsOf(t, c.loss, one), together[i:i+1]) {
						t.Errorf("seed %d: sequence %d of %d tokens has other streams than alone", seed, i, len(x.Tokens))
					}
					cut = append(cut, &trinity.Batch{Step: 1, Experiences: one, Whole: xs})
				}
				if _, got := e.gradientOf(t, c.loss, cut...); difference(got, want) > 2e-6 {
					t.Errorf("seed %d: one sequence at a time gives a gradient %.2g relative off", seed, difference(got, want))
				}
			}
		})
	}
}

// Branches that the loss does not see are left out of the backward pass, but for what others begin
// with.
func TestBackwardSkipsIdleBranches(t *testing.T) {
	for _, name := range slices.Concat([]string{"qwen3", "qwen3_moe", "qwen3_moe_sums"}, newer) {
		e := open(t, tiny(name))
		for seed := range uint64(4) {
			xs := branching(seed, 60)
			for _, seen := range [][]int{{7}, {6, 3}} {
				_, got := e.gradientOf(t, idle{seen}, whole(xs))
				rows := len(e.passes.packing.tokens)
				few := []*trinity.Experience{xs[seen[0]], xs[seen[len(seen)-1]]}[:len(seen)]
				_, want := e.gradientOf(t, idle{[]int{0, 1}[:len(seen)]}, &trinity.Batch{Step: 1, Experiences: few, Whole: xs})
				if few := len(e.passes.packing.tokens); rows < few {
					t.Errorf("%s, seed %d: backward over %d rows, want at least %d", name, seed, rows, few)
				}
				if d := difference(got, want); d > 2e-6 {
					t.Errorf("%s, seed %d: gradient differs by %.2g relative", name, seed, d)
				}
			}
		}
	}
}

// The load of the experts counts a token once for every branch that has it.
func TestLoadOfExpertsCountsEveryBranch(t *testing.T) {
	e := open(t, tiny("qwen3_moe"))
	load := func(batches ...*trinity.Batch) string {
		e.balance.clear()
		e.gradientOf(t, weighted{}, batches...)
		return fmt.Sprint(e.balance.counts)
	}
	for seed := range uint64(4) {
		xs := branching(seed, 60)
		var cut []*trinity.Batch
		for i := range xs {
			cut = append(cut, &trinity.Batch{Step: 1, Experiences: xs[i : i+1], Whole: xs})
		}
		if got, want := load(whole(xs)), load(cut...); got != want {
			t.Errorf("seed %d: tokens sent to experts are %s, want those of one branch at a time, %s", seed, got, want)
		}
	}
}

// streamsOf returns all streams of each sequence as text that names each bit.
func (e *Engine) streamsOf(t *testing.T, loss trinity.Loss, xs []*trinity.Experience) (out []string) {
	t.Helper()
	stats, err := e.Forward(t.Context(), whole(xs), loss.Streams())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stats {
		out = append(out, fmt.Sprintf("%b %b %b %b", s.Logprob, s.Entropy, s.Value, s.Divergence))
	}
	return out
}

// The plan has room for branches with so many different tokens, trained ones in common included.
func TestBranchesFitThePlan(t *testing.T) {
	for seed := range uint64(8) {
		xs := branching(seed, 60)
		var count experience.Prefixes
		for _, x := range xs {
			x.Temperature = 1
			for i := range x.Mask {
				x.Mask[i] = i > 0
			}
			count.Add(x.Tokens)
		}
		pool := kernel.NewPool(2)
		defer pool.Close()
		opts := tiny("qwen3_moe")
		opts.Pool, opts.MaxTokens = pool, count.Tokens()
		e := open(t, opts)
		before, plan := e.arenaBytes(), e.Memory()
		e.gradientOf(t, weighted{}, whole(xs))
		if more := e.arenaBytes() - before; more != 0 {
			t.Errorf("seed %d: %d tokens took %d bytes more than planned", seed, count.Tokens(), more)
		}
		if scratch := plan[len(plan)-1]; pool.ScratchBytes() > 2*scratch.Bytes {
			t.Errorf("seed %d: %d bytes of scratch, planned %d", seed, pool.ScratchBytes(), scratch.Bytes)
		}
	}
}
