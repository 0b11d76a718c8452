package cpu

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// arenaBytes returns the bytes that an engine has taken, including the shared weights.
func (e *Engine) arenaBytes() int64 {
	n := e.memory.arena.Bytes()
	for _, a := range e.passes.arenas() {
		n += a.Bytes()
	}
	if e.shared != nil {
		n += e.shared.arena.Bytes()
	}
	return n
}

func TestPlanEqualsMemoryInUse(t *testing.T) {
	lora := &engine.LoRASpec{LoraRank: 3, LoraAlpha: 3, TargetModules: []string{"q_proj", "down_proj"}}
	saved := t.TempDir()
	if err := open(t, adapterOptions("qwen2")).SaveModel(t.Context(), saved); err != nil {
		t.Fatal(err)
	}
	eightBits := codedOptions(t)
	eightBitLoRA := eightBits
	eightBitLoRA.LoRA = &engine.LoRASpec{LoraRank: 64, LoraAlpha: 3}
	for name, opts := range map[string]Options{
		"8 bits":                   eightBits,
		"8 bits, adapter":          eightBitLoRA,
		"full":                     {},
		"full with reference":      {Reference: true},
		"full, layers again":       {Recompute: 1},
		"gradient descent":         {Optimizer: engine.OptimizerSpec{Type: engine.SGD}},
		"momentum":                 {Optimizer: engine.OptimizerSpec{Type: engine.SGD, Momentum: 0.9}},
		"muon":                     {Optimizer: engine.OptimizerSpec{Type: engine.Muon, Momentum: 0.95}},
		"muon of an adapter":       {Optimizer: engine.OptimizerSpec{Type: engine.Muon, Momentum: 0.95}, LoRA: lora},
		"full, published":          {KeepPublished: true},
		"adapter":                  {LoRA: lora},
		"adapter of the head":      {LoRA: newHeadAdapter("").LoRA, MaxTokens: 600},
		"forward only, head":       {ForwardOnly: true, LoRA: newHeadAdapter("").LoRA},
		"adapter that is read":     {LoRA: &engine.LoRASpec{Path: saved}},
		"adapter with all at once": {LoRA: lora, Reference: true, KeepPublished: true, Recompute: 9, MaxTokens: 1000, MaxLength: 140},
		"with a teacher":           {TeacherWidth: 48, MaxTokens: 600},
		"critic":                   {Value: true, KeepPublished: true},
		"critic with adapter":      {Value: true, LoRA: lora},
		"forward only":             {ForwardOnly: true, DType: "bf16"},
		"forward only, adapter":    {ForwardOnly: true, LoRA: lora},
		"convolutions":             {ModelPath: "testdata/lfm2"},
		"convolutions, adapter":    {ModelPath: "testdata/lfm2", LoRA: &engine.LoRASpec{LoraRank: 2, LoraAlpha: 2}, Recompute: 2},
		"convolutions, scores":     {ModelPath: "testdata/lfm2", ForwardOnly: true},
		"experts":                  {ModelPath: "testdata/qwen3_moe"},
		"experts with adapter":     {ModelPath: "testdata/qwen3_moe", LoRA: &engine.LoRASpec{LoraRank: 2, LoraAlpha: 2}, Recompute: 1},
		"experts, critic":          {ModelPath: "testdata/qwen3_moe", Value: true},
		"more norms":               {ModelPath: "testdata/gemma3_text", Recompute: 1},
		"adapter of experts":       {ModelPath: "testdata/qwen3_moe", LoRA: newExpertAdapter("").LoRA},
		"saved one of experts":     {ModelPath: "testdata/qwen3_moe_sums", LoRA: expertAdapter("gate_up").LoRA, Recompute: 1},
		"more norms, adapter":      {ModelPath: "testdata/gemma3_text", LoRA: lora},
		"experts, forward only":    {ModelPath: "testdata/qwen3_moe_sums", ForwardOnly: true},
		"one matrix, adapter":      {ModelPath: "testdata/phi3", LoRA: &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8}},
		"factors, recomputed":      {ModelPath: "testdata/granite", Recompute: 1},
	} {
		pool := kernel.NewPool(3)
		opts.Pool, opts.ModelPath = pool, cmp.Or(opts.ModelPath, "testdata/qwen2")
		if opts.MaxTokens == 0 {
			opts.MaxTokens = 300
		}
		e := open(t, opts)
		plan, err := Plan(e.cfg, opts)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(plan, e.Memory()) {
			t.Errorf("%s: planned %+v\ntaken %+v", name, plan, e.Memory())
		}
		var sum int64
		for _, p := range plan {
			if p.Kind != "scratch" {
				sum += p.Bytes
			}
		}
		if got := e.arenaBytes(); sum > got || sum < got-64*64 { // arrays begin on whole cache lines
			t.Errorf("%s: %d bytes planned, %d taken", name, sum, got)
		}
		batch := whole(longGroups(e.cfg.VocabSize)[:3])
		before := e.arenaBytes()
		if opts.Value {
			_, err = e.ForwardBackward(t.Context(), batch, squared{})
		} else if opts.ForwardOnly {
			_, err = e.Forward(t.Context(), batch, trinity.Streams{Entropy: true})
		} else {
			_, err = e.ForwardBackward(t.Context(), batch, weighted{})
		}
		if err != nil || e.arenaBytes() != before {
			t.Errorf("%s: a batch within the plan took %d bytes more, %v", name, e.arenaBytes()-before, err)
		}
		if scratch := plan[len(plan)-1]; pool.ScratchBytes() > 2*scratch.Bytes {
			t.Errorf("%s: %d bytes of scratch, planned %d", name, pool.ScratchBytes(), scratch.Bytes)
		}
		pool.Close()
	}
}

// While a model is read its file is mapped: the plan has that behind the weights and before all
// that is taken later.
func TestPlanPlacesLoadingAfterTheWeights(t *testing.T) {
	for _, opts := range []engine.TrainerSpec{{Train: true}, {Train: true, LoRA: &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8, TargetModules: []string{"all-linear"}}}, {}} {
		opts.ModelPath, opts.MicroTokens = "testdata/llama", 64
		parts, err := trainerPlugin{}.PlanMemory(opts)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(parts, func(p engine.MemoryPart) bool { return p.Passing })
		if at < 1 || parts[at].Bytes != fileBytes(opts.ModelPath) || parts[at].Bytes == 0 {
			t.Fatalf("no file is read, or of no bytes: %+v", parts)
		}
		for i, p := range parts {
			if weights := p.Kind == frozenWeights || p.Kind == trainedWeights; i != at && weights != (i < at) && p.Kind != "adapter" {
				t.Errorf("%s is part %d, and the file is read as part %d", p.Kind, i, at)
			}
		}
	}
}

func TestSampledAdaptersAreInThePlan(t *testing.T) {
	saved := t.TempDir()
	e := open(t, adapterOptions("qwen2"))
	if err := e.SaveModel(t.Context(), saved); err != nil {
		t.Fatal(err)
	}
	spec := engine.SamplerSpec{ModelPath: e.opts.ModelPath, MaxSequences: 2, MaxModelLen: 64, Adapters: []string{saved, saved}}
	parts, err := samplerPlugin{}.PlanMemory(spec)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range parts {
		if p.Kind == "sampled adapter" && p.Bytes >= 4*int64(len(e.trained)) {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%+v: want two adapters", parts)
	}
	spec.Adapters = []string{t.TempDir()}
	if _, err := (samplerPlugin{}).PlanMemory(spec); err == nil || !strings.Contains(err.Error(), spec.Adapters[0]) {
		t.Errorf("an empty directory as an adapter: %v", err)
	}
}

func TestPlanRefusesWhatOpenRefuses(t *testing.T) {
	cfg, err := model.ReadConfig("testdata/llama")
	if err != nil {
		t.Fatal(err)
	}
	for _, opts := range []Options{{}, {ModelPath: "m", Recompute: -1}, {ModelPath: "m", Optimizer: engine.OptimizerSpec{Type: "adagrad"}}, {ModelPath: "m", LoRA: &engine.LoRASpec{LoraRank: 1, TargetModules: []string{"nothing"}}}} {
		if _, err := Plan(cfg, opts); err == nil {
			t.Errorf("%+v was planned", opts)
		}
	}
}

func TestEnginesShareFrozenWeights(t *testing.T) {
	batch := whole(sequences(t, true))
	opts := tiny("llama")
	alone, err := open(t, opts).Forward(t.Context(), batch, trinity.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	trains, frozen := opts, opts
	trains.Reference, frozen.ForwardOnly = true, true
	adapter := opts
	adapter.LoRA = &engine.LoRASpec{LoraRank: 2, LoraAlpha: 2}
	engines := []*Engine{open(t, trains), open(t, frozen), open(t, adapter), open(t, frozen)}
	if len(inUse) != 1 {
		t.Fatalf("%d copies of the base weights", len(inUse))
	}
	for _, e := range engines {
		if &e.baseFlat[0] != &engines[0].baseFlat[0] {
			t.Error("an engine has base weights of its own")
		}
	}
	if &engines[0].trained[0] == &engines[0].baseFlat[0] {
		t.Fatal("frozen weights are trained")
	}
	train(t, engines[0], batch.Experiences, 2)
	if err := engines[1].Close(); err != nil {
		t.Fatal(err)
	}
	for i, e := range []*Engine{engines[0], engines[2], engines[3]} {
		got, err := e.Reference(t.Context(), batch)
		if e.opts.ForwardOnly {
			got, err = e.Forward(t.Context(), batch, trinity.Streams{})
		}
		if err != nil {
			t.Fatal(err)
		}
		for k := range alone {
			if !slices.Equal(got[k].Logprob, alone[k].Logprob) {
				t.Errorf("engine %d, sequence %d: other logprobs than an engine alone", i, k)
			}
		}
	}
	rounded := frozen
	rounded.DType = "bf16"
	if e := open(t, rounded); &e.baseFlat[0] == &engines[0].baseFlat[0] {
		t.Error("rounded weights are those that were not rounded")
	}
	for _, e := range engines {
		e.Close()
	}
	if len(inUse) != 1 { // the rounded ones
		t.Errorf("%d copies after all engines were closed", len(inUse))
	}
}
