package torch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/trainer"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/trinitytest"
)

// divided is a model whose matrices two ranks divide.
func divided(name string) engine.TrainerSpec {
	spec := trained(name)
	spec.Tensor, spec.Optimizer.Type = 2, engine.SGD
	return spec
}

// Divided matrices give the numbers of the embedded engine: on two ranks, and on four, where FSDP2
// shards the parts.
func TestTensorParallelAgreesWithTheEmbeddedEngine(t *testing.T) {
	critic := divided("qwen2")
	critic.Head, critic.Seed, critic.Reference = engine.ValueHead, 3, false
	again := divided("qwen3")
	again.Recompute = 1
	for _, ranks := range []int{2, 4} {
		for name, spec := range map[string]engine.TrainerSpec{
			"llama": divided("llama"), "llama3_bias_tied": divided("llama3_bias_tied"), "qwen2": divided("qwen2"), "qwen3": divided("qwen3"),
			"mistral": divided("mistral"), "critic": critic, "recomputed": again,
		} {
			if ranks == 4 && name != "llama" && name != "recomputed" {
				continue
			}
			t.Run(fmt.Sprintf("%s, ranks: %d", name, ranks), func(t *testing.T) {
				alone := spec
				alone.Recompute = 0
				ours, theirs := opened(t, onRanks(t, ranks), spec), embedded(t, alone)
				computeAlike(t, ours, theirs, spec)
			})
		}
	}
}

// Divergences over a divided vocabulary equal the embedded engine's. One teacher is divided
// itself, the other is not.
func TestDivergencesOfADividedVocabulary(t *testing.T) {
	for _, d := range []trinity.Divergence{{Kind: trinity.ForwardKL}, {Kind: trinity.ReverseKL}, {Kind: trinity.JSD, Beta: 0.3}} {
		student, teacher := divided("qwen2"), tiny("llama")
		student.Teachers = []string{tiny("teacher").ModelPath}
		teacher.Tensor = 2
		with := func(open func(engine.TrainerSpec) engine.Trainer) engine.Trainer {
			e := open(student)
			teachers := map[string]engine.Trainer{"": open(teacher), "other": open(tiny("teacher"))}
			if err := e.(trainer.Distiller).SetTeachers(teachers); err != nil {
				t.Fatal(err)
			}
			return e
		}
		ours := with(func(s engine.TrainerSpec) engine.Trainer { return opened(t, onRanks(t, 2), s) })
		theirs := with(func(s engine.TrainerSpec) engine.Trainer { return embedded(t, s) })
		b, want := randomBatch(64), trinity.Streams{Divergence: d, Entropy: true}
		b.Experiences[1].Teacher, b.Experiences[2].Teacher = "other", "other"
		agree(t, ours, theirs, b, want)
		got, _ := gradientOf(t, ours, b, mixed{want}, false)
		ref, _ := gradientOf(t, theirs, b, mixed{want}, false)
		compareGradients(t, got, ref, 1e-5, 2e-5)
	}
}

func TestDividedModelIsAnEngine(t *testing.T) {
	spec := divided("qwen3")
	spec.Optimizer.Type = engine.AdamW
	spec.ParamOffload, spec.OptimizerOffload = true, true
	p := onRanks(t, 2)
	trinitytest.Engine(t, func(t *testing.T) trinitytest.Trained {
		return trinitytest.Trained{Engine: opened(t, p, spec), Targets: true, Remote: true}
	})
}

// A state moves between layouts: matrices of two ranks, of four, whole shards, one rank.
func TestStateOfAnotherLayout(t *testing.T) {
	whole, parts, b := trained("qwen3"), trained("qwen3"), randomBatch(64)
	parts.Tensor = 2
	straight := embedded(t, whole)
	engines := []engine.Trainer{
		opened(t, onRanks(t, 2), parts), opened(t, onRanks(t, 4), parts), opened(t, onRanks(t, 1), whole), opened(t, onRanks(t, 2), parts),
		opened(t, onRanks(t, 2), whole),
	}
	for i, e := range engines {
		if i > 0 {
			dir := t.TempDir()
			if err := engines[i-1].SaveState(t.Context(), dir); err != nil {
				t.Fatal(err)
			}
			if err := e.LoadState(t.Context(), dir); err != nil {
				t.Fatal(err)
			}
			agree(t, e, engines[i-1], b, trinity.Streams{})
		}
		step(t, e)
		step(t, straight)
		x, err := e.Forward(t.Context(), b, trinity.Streams{})
		if err != nil {
			t.Fatal(err)
		}
		if y, err := straight.Forward(t.Context(), b, trinity.Streams{}); err != nil || apart(x, y) > 1e-3 {
			t.Errorf("after %d AdamW steps: %v, %.2g nats from the embedded engine", i+1, err, apart(x, y))
		}
	}
}

func TestMatricesThatCannotBeDivided(t *testing.T) {
	cfg, err := model.ReadConfig(tiny("qwen2").ModelPath)
	if err != nil {
		t.Fatal(err)
	}
	experts, err := model.ReadConfig(tiny("qwen3_moe").ModelPath)
	if err != nil {
		t.Fatal(err)
	}
	spec := func(n, ranks int) engine.TrainerSpec {
		return engine.TrainerSpec{ModelPath: "m", Layout: engine.Layout{Tensor: n}, Place: engine.Place{Nodes: 1, Ranks: ranks}}
	}
	parts := func(tensor, sequence, ranks int) engine.TrainerSpec {
		s := spec(tensor, ranks)
		s.Sequence = sequence
		return s
	}
	adapter, copies := spec(2, 2), spec(2, 2)
	adapter.LoRA, copies.Strategy = &engine.LoRASpec{}, "ddp"
	for _, c := range []struct {
		cfg  *model.Config
		spec engine.TrainerSpec
		want string // "" if it is fine
	}{
		{cfg, spec(1, 3), ""}, {cfg, spec(2, 4), ""}, {cfg, spec(2, 3), "groups of 2 ranks do not fit into the trainer's 3; use a smaller"},
		{cfg, spec(32, 32), "attention heads; use a divisor"}, {cfg, adapter, "use fsdp2 alone"}, {cfg, copies, "fsdp2 only"},
		{experts, spec(2, 2), "has experts"}, {cfg, parts(1, 2, 2), ""}, {cfg, parts(2, 2, 4), ""}, {experts, parts(1, 2, 4), ""},
		{cfg, parts(2, 2, 2), "(2 for a row × 2 for a matrix) do not fit into the trainer's 2; use a smaller number, or a multiple of 4"},
		{cfg, parts(1, 32, 32), "attention heads on a rank"},
	} {
		err := checkLayout(c.cfg, c.spec)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want %q", c.spec, err, c.want)
		}
	}
}
