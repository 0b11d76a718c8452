package cpu

import (
	"context"
	"runtime"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/engine/cpu/internal/sampler"
)

// usage is the memory of a process that trains and samples.
type usage struct {
	arenas, scratch, heap int64
	goroutines            int
}

func TestMemoryDoesNotGrowOverAThousandSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand optimizer steps")
	}
	ctx := context.Background()
	pool := kernel.NewPool(2)
	defer pool.Close()
	opts := tiny("llama")
	opts.Pool, opts.MaxTokens, opts.KeepPublished = pool, 100, true
	e := open(t, opts)
	s, err := sampler.New(*e.cfg, sampler.Options{Pool: pool, MaxSequences: 4, MaxModelLen: 32})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e.attach(s)
	prompts := sequences(t, false)
	step := func(n int) {
		if n%5 == 0 {
			if err := publish(ctx, e, int64(n)); err != nil {
				t.Fatal(err)
			}
		}
		prompt := prompts[n%4].Tokens[:1+n%7]
		out, err := s.Sample(ctx, trinity.Prompt{Tokens: prompt}, trinity.SamplingParams{N: 3, Temperature: 1, MaxTokens: 4 + n%9, Seed: uint64(n)})
		if err != nil {
			t.Fatal(err)
		}
		var batch []*trinity.Experience
		for i, c := range out {
			x := &trinity.Experience{ID: trinity.ExperienceID{Run: i}, Tokens: append(append([]int32(nil), prompt...), c.Tokens...), PromptLen: len(prompt)}
			for k := range x.Tokens {
				x.Mask = append(x.Mask, k >= len(prompt))
			}
			batch = append(batch, x)
		}
		if _, err := e.ForwardBackward(ctx, whole(batch), nll{}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.OptimStep(ctx, trinity.OptimParams{LR: 1e-4, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8}); err != nil {
			t.Fatal(err)
		}
	}
	measure := func() usage {
		runtime.GC()
		runtime.GC() // what pools keep goes with the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return usage{e.arenaBytes(), pool.ScratchBytes(), int64(m.HeapInuse), runtime.NumGoroutine()}
	}
	for n := range 200 {
		step(n)
	}
	before := measure()
	for n := range 1000 {
		step(n)
	}
	after := measure()
	t.Logf("%+v, then %+v", before, after)
	if after.arenas != before.arenas || after.goroutines > before.goroutines {
		t.Errorf("arenas and goroutines grew: %+v, then %+v", before, after)
	}
	if grown := after.heap - before.heap; grown > 1<<20 {
		t.Errorf("the heap in use grew by %d bytes", grown)
	}
	if after.scratch > 2*before.scratch {
		t.Errorf("scratch grew from %d to %d bytes", before.scratch, after.scratch)
	}
}
