package trinitytest

import (
	"slices"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// Base checks the contract of engine.BaseSharer. spec names a model that is trained with a vocabulary of 8 or more tokens;
// sequences may have 48.
func Base(t *testing.T, sharer engine.BaseSharer, spec engine.TrainerSpec) {
	for name, check := range map[string]func(*testing.T, engine.BaseSharer, engine.TrainerSpec){
		"tenants are engines":                     baseEngines,
		"tenants have the bits of a lone trainer": baseBits,
		"tenants compute at once":                 baseTogether,
		"a base closes after its tenants":         baseCloses,
	} {
		t.Run(name, func(t *testing.T) { check(t, sharer, spec) })
	}
}

// adapters are those of the tenants, of several ranks. The largest comes last, so that what is shared must grow.
func adapters() []*engine.LoRASpec {
	return []*engine.LoRASpec{
		{LoraRank: 2, LoraAlpha: 8, TargetModules: engine.Names{"all-linear"}},
		{LoraRank: 1, LoraAlpha: 4, TargetModules: engine.Names{"q_proj"}},
		{LoraRank: 5, LoraAlpha: 8, TargetModules: engine.Names{"all-linear"}},
	}
}

func openedBase(t *testing.T, sharer engine.BaseSharer, spec engine.TrainerSpec) engine.Base {
	t.Helper()
	base, err := sharer.OpenBase(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := base.Close(); err != nil {
			t.Error(err)
		}
	})
	return base
}

func tenant(t *testing.T, base engine.Base, lora *engine.LoRASpec, seed uint64) Trained {
	t.Helper()
	e, err := base.Tenant(t.Context(), lora, seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() }) // a test may have closed it
	return Trained{Engine: e}
}

func baseEngines(t *testing.T, sharer engine.BaseSharer, spec engine.TrainerSpec) {
	base := openedBase(t, sharer, spec)
	targets := computesTargets(t, tenant(t, base, adapters()[0], 1))
	Engine(t, func(t *testing.T) Trained {
		e := tenant(t, base, adapters()[0], 1)
		e.Targets = targets
		return e
	})
}

// computesTargets reports whether an engine computes Experience.Targets.
func computesTargets(t *testing.T, e Trained) bool {
	xs := []*trinity.Experience{{Tokens: []int32{1, 2}, Mask: []bool{false, true}, PromptLen: 1,
		StepStreams: trinity.StepStreams{Targets: []int32{0, 3}}}}
	_, err := e.Engine.Forward(t.Context(), &trinity.Batch{Step: 1, Experiences: xs, Whole: xs}, trinity.Streams{})
	return err == nil
}

// lone returns the streams of trainers that share nothing, after two steps.
func lone(t *testing.T, sharer engine.BaseSharer, spec engine.TrainerSpec) (all [][]float32) {
	t.Helper()
	for i, lora := range adapters() {
		spec.LoRA, spec.Seed = lora, uint64(i)
		e, err := sharer.OpenTrainer(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			optimStep(t, Trained{Engine: e}, 1+i, 1)
		}
		all = append(all, streamed(t, Trained{Engine: e}))
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	return all
}

// baseBits takes the calls of all tenants in turn, and closes one between them.
func baseBits(t *testing.T, sharer engine.BaseSharer, spec engine.TrainerSpec) {
	want, base := lone(t, sharer, spec), openedBase(t, sharer, spec)
	var tenants []Trained
	for i, lora := range adapters() {
		tenants = append(tenants, tenant(t, base, lora, uint64(i)))
	}
	guest := tenant(t, base, adapters()[0], 9)
	for round := range 2 {
		for i, e := range tenants {
			for part := range slices.Chunk(wholeBatch().Experiences, 1+i) {
				add(t, guest, part[:1])
				add(t, e, part)
			}
		}
		for _, e := range tenants {
			if _, err := e.Engine.OptimStep(t.Context(), smooth); err != nil {
				t.Fatal(err)
			}
		}
		if round == 0 {
			if err := guest.Engine.Close(); err != nil {
				t.Error(err)
			}
			guest = tenant(t, base, adapters()[2], 10)
		}
	}
	for i, e := range tenants {
		if got := streamed(t, e); !slices.Equal(got, want[i]) {
			t.Errorf("tenant %d is %.2g nats from a trainer alone, want the same bits", i, farthest(got, want[i]))
		}
	}
}

// add adds the gradient of some sequences of the whole batch.
func add(t *testing.T, e Trained, xs []*trinity.Experience) {
	t.Helper()
	b := &trinity.Batch{Step: 1, Experiences: xs, Whole: wholeBatch().Experiences}
	if _, err := e.Engine.ForwardBackward(t.Context(), b, e.loss(1)); err != nil {
		t.Fatal(err)
	}
}

func baseTogether(t *testing.T, sharer engine.BaseSharer, spec engine.TrainerSpec) {
	want, base := lone(t, sharer, spec), openedBase(t, sharer, spec)
	got := make([][]float32, len(want))
	var all sync.WaitGroup
	for i, lora := range adapters() {
		e := tenant(t, base, lora, uint64(i))
		all.Go(func() {
			for range 2 {
				for part := range slices.Chunk(wholeBatch().Experiences, 1+i) {
					b := &trinity.Batch{Step: 1, Experiences: part, Whole: wholeBatch().Experiences}
					if _, err := e.Engine.ForwardBackward(t.Context(), b, e.loss(1)); err != nil {
						t.Error(err)
					}
				}
				if _, err := e.Engine.OptimStep(t.Context(), smooth); err != nil {
					t.Error(err)
				}
			}
			stats, err := e.Engine.Forward(t.Context(), wholeBatch(), e.streams())
			if err != nil {
				t.Error(err)
			}
			for _, s := range stats {
				got[i] = append(got[i], s.Logprob...)
			}
		})
	}
	all.Wait()
	for i := range got {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("tenant %d has other bits beside others than alone", i)
		}
	}
}

func baseCloses(t *testing.T, sharer engine.BaseSharer, spec engine.TrainerSpec) {
	base, err := sharer.OpenBase(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	e := tenant(t, base, adapters()[0], 1)
	if _, err := base.Tenant(t.Context(), nil, 1); err == nil {
		t.Error("a tenant without an adapter was opened")
	}
	if _, err := base.PlanTenant(&engine.LoRASpec{Path: t.TempDir()}); err == nil {
		t.Error("an adapter that is not there was planned")
	}
	if base.Close() == nil {
		t.Error("a base with an open tenant was closed")
	}
	streamed(t, e) // which still computes
	if err := e.Engine.Close(); err != nil {
		t.Error(err)
	}
	if err := base.Close(); err != nil {
		t.Error(err)
	}
	if _, err := base.Tenant(t.Context(), adapters()[0], 1); err == nil {
		t.Error("a closed base opened a tenant")
	}
}
