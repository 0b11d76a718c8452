package cpu

import (
	"context"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

func TestSharingPromptsChangesNothing(t *testing.T) {
	for _, name := range references {
		t.Run(name, func(t *testing.T) {
			e := open(t, tiny(name))
			batch := whole(sequences(t, true))
			shared, want := e.gradientOf(t, weighted{}, batch)
			rows := len(e.passes.packing.tokens)
			e.passes.shareNothing = true
			alone, got := e.gradientOf(t, weighted{}, batch)
			if rows >= len(e.passes.packing.tokens) {
				t.Fatalf("%d rows with sharing, %d without: nothing was shared", rows, len(e.passes.packing.tokens))
			}
			if shared != alone {
				t.Errorf("loss is %.9f with sharing, %.9f without", shared, alone)
			}
			if d := difference(got, want); d > 1e-6 {
				t.Errorf("gradients differ by %.2g relative", d)
			}
		})
	}
}

// longGroups are groups of sequences long enough for several blocks of every kernel.
func longGroups(vocabulary int) []*trinity.Experience {
	var out []*trinity.Experience
	random := uint64(1)
	next := func() int32 { random = mix(random); return int32(random % uint64(vocabulary)) }
	for g := range 2 {
		var prompt []int32
		for range 30 + 50*g {
			prompt = append(prompt, next())
		}
		for r := range 3 {
			x := &trinity.Experience{ID: trinity.ExperienceID{Run: len(out)}, PromptLen: len(prompt), Tokens: slices.Clone(prompt), Temperature: 0.9}
			for range 10 + 45*r {
				x.Tokens = append(x.Tokens, next())
			}
			for i := range x.Tokens {
				x.Mask = append(x.Mask, i >= len(prompt) && i%9 != 0)
				x.Advantages = append(x.Advantages, float32(next()%7)-3)
				x.Returns = append(x.Returns, float32(next()%5)/10)
			}
			out = append(out, x)
		}
	}
	return out
}

func TestGradientDoesNotDependOnMicroBatches(t *testing.T) {
	for _, name := range slices.Concat([]string{"llama", "qwen3", "qwen3_moe", "qwen3_moe_sums"}, newer) {
		e := open(t, tiny(name))
		all := longGroups(e.cfg.VocabSize)
		lossWant, want := e.gradientOf(t, weighted{}, whole(all))
		for _, size := range []int{1, 2, 4} {
			var cut []*trinity.Batch
			for part := range slices.Chunk(all, size) {
				cut = append(cut, &trinity.Batch{Step: 1, Experiences: part, Whole: all})
			}
			loss, got := e.gradientOf(t, weighted{}, cut...)
			if d := difference(got, want); d > 1e-6 {
				t.Errorf("%s: %d micro-batches: gradient differs by %.2g relative", name, len(cut), d)
			}
			if d := loss - lossWant; d > 1e-6 || d < -1e-6 {
				t.Errorf("%s: %d micro-batches: loss %.9f, want %.9f", name, len(cut), loss, lossWant)
			}
		}
	}
}

func TestRecomputedLogitsGiveTheSameBits(t *testing.T) {
	e := open(t, tiny("llama"))
	var x []*trinity.Experience
	for i := range int32(40) {
		x = append(x, apart(sequences(t, true), i)...)
	}
	var odd []int
	for i := 1; i < len(x); i += 2 {
		odd = append(odd, i)
	}
	for _, loss := range []trinity.Loss{weighted{}, idle{odd}} {
		e.passes.head.budget = logitsBudget
		_, want := e.gradientOf(t, loss, whole(x))
		if n := len(e.passes.packing.head); n <= headChunk || e.passes.head.recompute {
			t.Fatalf("%d head rows, logits computed again: %t", n, e.passes.head.recompute)
		}
		e.passes.head.budget = 0
		_, got := e.gradientOf(t, loss, whole(x))
		if !e.passes.head.recompute {
			t.Fatal("logits were kept")
		}
		if !slices.Equal(got, want) {
			t.Errorf("%T: gradients differ", loss)
		}
	}
}

func TestSameBitsForAnyNumberOfCores(t *testing.T) {
	muon, momentum := tiny("qwen3"), tiny("qwen3_moe")
	muon.Optimizer = engine.OptimizerSpec{Type: engine.Muon, Momentum: 0.95, Nesterov: true}
	momentum.Optimizer = engine.OptimizerSpec{Type: engine.SGD, Momentum: 0.9, Nesterov: true}
	for name, opts := range map[string]Options{
		"biases": tiny("llama3_bias_tied"), "q/k norm": tiny("qwen3"), "experts": tiny("qwen3_moe"), "no rope": tiny("smollm3"),
		"more norms": tiny("gemma3_text"), "wide norms": tiny("olmo3"), "one matrix": tiny("phi3"), "growing queries": tiny("ministral3"),
		"factors": tiny("granite"), "convolutions": tiny("lfm2"), "muon": muon, "momentum": momentum,
	} {
		var want []float32
		for _, cores := range []int{1, 2, 5} {
			pool := kernel.NewPool(cores)
			defer pool.Close()
			opts.Pool = pool
			e := open(t, opts)
			train(t, e, longGroups(e.cfg.VocabSize), 3)
			if want == nil {
				want = slices.Clone(e.trained)
			} else if !slices.Equal(e.trained, want) {
				t.Errorf("%s: %d cores give other weights than 1", name, cores)
			}
		}
	}
}

var adam = trinity.OptimParams{LR: 1e-2, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1, ClipNorm: 1}

// train does so many steps on one batch.
func train(t testing.TB, e *Engine, xs []*trinity.Experience, steps int) {
	t.Helper()
	var loss trinity.Loss = weighted{}
	if e.passes.head.hasScore() {
		loss = squared{}
	}
	for range steps {
		if _, err := e.ForwardBackward(context.Background(), whole(xs), loss); err != nil {
			t.Fatal(err)
		}
		if _, err := e.OptimStep(context.Background(), adam); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLossWithoutGradientSkipsBackward(t *testing.T) {
	e := open(t, tiny("llama"))
	zero := broken{grads: func(n int) []trinity.TokenGrads { return make([]trinity.TokenGrads, n) }}
	if _, err := e.ForwardBackward(context.Background(), whole(sequences(t, true)), zero); err != nil {
		t.Fatal(err)
	}
	if norm(e.gradient) != 0 || e.accumulating {
		t.Error("a loss without derivatives left a gradient")
	}
}

// idle is a loss that sees some of the sequences only, and only every second token of one of them.
type idle struct{ seen []int }

func (idle) Streams() trinity.Streams { return trinity.Streams{Entropy: true} }

func (l idle) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	grads, metrics, err := weighted{}.Loss(b, now)
	for i := range grads {
		if !slices.Contains(l.seen, i) {
			grads[i] = trinity.TokenGrads{}
		}
	}
	for t := range grads[l.seen[0]].Logprob {
		if t%2 == 0 {
			grads[l.seen[0]].Logprob[t], grads[l.seen[0]].Entropy[t] = 0, 0
		}
	}
	return grads, metrics, err
}

func TestBackwardSkipsIdleSequences(t *testing.T) {
	for _, name := range slices.Concat([]string{"qwen3", "llama3_bias_tied", "qwen3_moe", "qwen3_moe_sums"}, newer) {
		for _, seen := range [][]int{{5}, {1, 2, 4}, {3, 0}} {
			for _, budget := range []int{0, logitsBudget} {
				e := open(t, tiny(name))
				e.passes.head.budget = budget
				all := longGroups(e.cfg.VocabSize)
				_, got := e.gradientOf(t, idle{seen}, whole(all))
				rows := len(e.passes.packing.tokens)
				var few []*trinity.Experience
				for _, i := range seen {
					few = append(few, all[i])
				}
				reduced := idle{[]int{0, 1, 2}[:len(seen)]}
				_, want := e.gradientOf(t, reduced, &trinity.Batch{Step: 1, Experiences: few, Whole: all})
				if rows != len(e.passes.packing.tokens) {
					t.Errorf("%s %v: backward over %d rows, want %d", name, seen, rows, len(e.passes.packing.tokens))
				}
				if d := difference(got, want); d > 1e-6 {
					t.Errorf("%s %v: gradient differs by %.2g relative", name, seen, d)
				}
			}
		}
	}
}
