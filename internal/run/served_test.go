package run_test

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest/server"
)

// inServer returns the sampler of a server for the project's model, with random weights from a seed.
// Runs of rl begin with those of seed 3.
func (p project) inServer(t *testing.T, seed uint64) trinity.Sampler {
	t.Helper()
	opener, err := registry.Samplers.Build("cpu", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := opener.OpenSampler(t.Context(), engine.SamplerSpec{
		ModelPath: filepath.Join(p.dir, "model"), Init: engine.InitSpec{Seed: seed, Style: "fan_in"}, MaxSequences: 8,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.(interface{ Close() error }).Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// scoring returns a function that opens an engine for a directory that a server has loaded: a model or,
// if the seed of the project's model is not 0, an adapter of that.
func (p project) scoring(seed uint64, loaded func()) func(ctx context.Context, dir string) (engine.Trainer, error) {
	return func(ctx context.Context, dir string) (engine.Trainer, error) {
		defer loaded()
		opener, err := registry.Trainers.Build("cpu", nil)
		if err != nil {
			return nil, err
		}
		spec := engine.TrainerSpec{ModelPath: dir, MicroTokens: 64, MaxModelLen: 64}
		if seed != 0 {
			spec.ModelPath, spec.LoRA = filepath.Join(p.dir, "model"), &engine.LoRASpec{Path: dir}
			spec.Init = engine.InitSpec{Seed: seed, Style: "fan_in"}
		}
		return opener.OpenTrainer(ctx, spec)
	}
}

const (
	servedVocab = 272
	servedLen   = 64
)

// A run trains on what a server samples: its log-probabilities are those of the trained model in every
// step, from the first, although the server began with other weights. The run's own weights are
// version 0.
func TestTrainsOnWhatServersSample(t *testing.T) {
	for _, c := range []struct {
		name, engine string
		start        func(t *testing.T, s trinity.Sampler) *server.Fake
		seed         uint64
		override     string
	}{
		{"vllm", "vllm", func(t *testing.T, s trinity.Sampler) *server.Fake {
			return server.VLLM(t, s, server.Options{Vocab: servedVocab, MaxLen: servedLen, Develops: true})
		}, 99, "trainer.save_interval=1"},
		{"vllm by tokens", "vllm", func(t *testing.T, s trinity.Sampler) *server.Fake {
			return server.VLLM(t, s, server.Options{Vocab: servedVocab, MaxLen: servedLen, Develops: true, Tokens: true})
		}, 99, "trainer.save_interval=1"},
		{"sglang", "sglang", func(t *testing.T, s trinity.Sampler) *server.Fake {
			return server.SGLang(t, s, server.Options{Vocab: servedVocab, MaxLen: servedLen})
		}, 99, "trainer.save_interval=1"},
		{"adapters in vllm", "vllm", func(t *testing.T, s trinity.Sampler) *server.Fake {
			return server.VLLM(t, s, server.Options{Vocab: servedVocab, MaxLen: servedLen, LoRA: true})
		}, 3, "model.lora_configs=[{lora_rank: 4}]"},
		{"adapters in vllm by tokens", "vllm", func(t *testing.T, s trinity.Sampler) *server.Fake {
			return server.VLLM(t, s, server.Options{Vocab: servedVocab, MaxLen: servedLen, LoRA: true, Tokens: true})
		}, 3, "model.lora_configs=[{lora_rank: 4}]"},
		{"adapters in sglang", "sglang", func(t *testing.T, s trinity.Sampler) *server.Fake {
			return server.SGLang(t, s, server.Options{Vocab: servedVocab, MaxLen: servedLen, LoRA: true, MaxRank: 4})
		}, 3, "model.lora_configs=[{lora_rank: 4}]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProject(t, tiny, rl)
			fake := c.start(t, p.inServer(t, c.seed))
			seed := uint64(0)
			if strings.HasPrefix(c.name, "adapters") {
				seed = c.seed
			}
			fake.Open = p.scoring(seed, func() {})
			_, err := p.run(t, "explorer.rollout_model.engine_type="+c.engine, "explorer.rollout_model.base_urls=["+fake.URL+"]",
				"algorithm.rollout_correction={bypass_mode: false, rollout_is: token}", "buffer.total_steps=3", c.override)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"kl", "rollout_is_max", "rollout_is_min"} {
				want := 1.0
				if name == "kl" {
					want = 0
				}
				got := curve(t, p.job(), "trainer", "rollout_corr/"+name)
				if len(got) != 3 || slices.ContainsFunc(got, func(v float64) bool { return math.Abs(v-want) > 1e-5 }) {
					t.Errorf("%s: %v, want %v in 3 steps", name, got, want)
				}
			}
			if left := fake.Adapters(); len(left) > 0 {
				t.Errorf("the run has left the adapters %q", left)
			}
			if n := len(fake.Loads()); n != 4 { // versions 0 to 3
				t.Errorf("the server has loaded %q", fake.Loads())
			}
			if got := curve(t, p.job(), "synchronizer", "sync/probe_mean"); len(got) != 4 || slices.Max(got) > 1e-5 {
				t.Errorf("the probe found differences of %v nats in 4 versions", got)
			}
		})
	}
}

// An explorer beside its servers follows a trainer in another process, whose scores prove each version.
func TestServersFollowATrainerElsewhere(t *testing.T) {
	t.Parallel()
	p := newProject(t, tiny, rl)
	fake := server.VLLM(t, p.inServer(t, 99), server.Options{Vocab: servedVocab, MaxLen: servedLen, Develops: true})
	fake.Open = p.scoring(0, func() {})
	trainer, explorer := p.apart(t, fake)
	explorer.finish(t)
	trainer.finish(t)
	got := curve(t, p.job(), "trainer", "rollout_corr/kl")
	if len(got) != 8 || slices.ContainsFunc(got, func(v float64) bool { return math.Abs(v) > 1e-5 }) {
		t.Errorf("kl %v, want 0 in 8 steps", got)
	}
	if got := curve(t, p.job(), "synchronizer", "sync/probe_mean"); len(got) < 8 || slices.Max(got) > 1e-5 {
		t.Errorf("the probe found differences of %v nats in the versions", got)
	}
}

// apart starts a trainer and an explorer that samples on a server.
func (p project) apart(t *testing.T, fake *server.Fake) (trainer, explorer *process) {
	t.Helper()
	both := []string{"algorithm.rollout_correction={bypass_mode: false, rollout_is: token}", noEvaluation}
	trainer = p.start(t, nil, append(fields(training), both...)...)
	return trainer, p.start(t, nil, append(append(fields(exploring), both...), "explorer.rollout_model.engine_type=vllm",
		"explorer.rollout_model.base_urls=["+fake.URL+"]")...)
}

// An adapter says nothing on another base: a server with one is refused before the first step.
func TestServersWithAnotherModel(t *testing.T) {
	p := newProject(t, tiny, rl)
	fake := server.VLLM(t, p.inServer(t, 99), server.Options{Vocab: servedVocab, MaxLen: servedLen, LoRA: true})
	fake.Open = p.scoring(99, func() {})
	_, err := p.run(t, "explorer.rollout_model.engine_type=vllm", "explorer.rollout_model.base_urls=["+fake.URL+"]",
		"model.lora_configs=[{lora_rank: 4}]")
	if err == nil || !strings.Contains(err.Error(), "nats from the trainer's in the mean: it has another model") {
		t.Errorf("got %v", err)
	}
}

// A server that keeps its old weights under the name of new ones ends the run before anything is
// sampled with them. verify: off believes it.
func TestServerThatKeepsItsWeights(t *testing.T) {
	for verify, want := range map[string]string{"probe": "version 2, delivered 3 times: probe: it still has version 1", "off": ""} {
		p := newProject(t, tiny, rl)
		fake := server.VLLM(t, p.inServer(t, 99), server.Options{Vocab: servedVocab, MaxLen: servedLen, Develops: true})
		loads := 0
		fake.Open = p.scoring(0, func() {
			if loads++; loads == 2 {
				fake.Tell(server.OldWeights)
			}
		})
		_, err := p.run(t, "explorer.rollout_model.engine_type=vllm", "explorer.rollout_model.base_urls=["+fake.URL+"]",
			"buffer.total_steps=3", "synchronizer.verify="+verify)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("verify %s: %v, want %q", verify, err, want)
		}
	}
}

// It ends an explorer whose trainer is in another process, too.
func TestServerThatKeepsItsWeightsElsewhere(t *testing.T) {
	t.Parallel()
	p := newProject(t, tiny, rl)
	fake := server.VLLM(t, p.inServer(t, 99), server.Options{Vocab: servedVocab, MaxLen: servedLen, Develops: true})
	loads := 0
	fake.Open = p.scoring(0, func() {
		if loads++; loads == 2 {
			fake.Tell(server.OldWeights)
		}
	})
	_, explorer := p.apart(t, fake)
	explorer.fails(t, "loading version 2: vLLM 0.33.0 at", "probe: it still has version 1")
}

func init() {
	registry.Workflows.Register("test_nucleus", "Samples from a nucleus.", func() trinity.Workflow { return &nucleus{} })
}

// nucleus rewards every reply.
type nucleus struct{}

func (*nucleus) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	r.Model.Params.TopP = 0.8
	e, err := r.Model.Complete(ctx, "1")
	if err != nil {
		return nil, err
	}
	e.Reward = trinity.NewReward(map[string]float64{"accuracy": 1})
	return []*trinity.Experience{e}, nil
}

// A workflow that samples as no training may is refused where the run trains on it, and only there.
func TestWorkflowThatTruncates(t *testing.T) {
	const workflow = "buffer.explorer_input.default_eval_workflow_type="
	for _, c := range []struct{ override, want string }{
		{workflow + "test_nucleus", ""},
		{"buffer.explorer_input.eval_tasksets.0.rollout_args={top_p: 0.5, top_k: 2}", ""},
		{"buffer.explorer_input.default_workflow_type=test_nucleus", "top_p 0.8 for tokens that are trained on"},
	} {
		p := newProject(t, tiny, rl)
		fake := server.VLLM(t, p.inServer(t, 99), server.Options{Vocab: servedVocab, MaxLen: servedLen, Develops: true})
		fake.Open = p.scoring(0, func() {})
		_, err := p.run(t, "explorer.rollout_model.engine_type=vllm", "explorer.rollout_model.base_urls=["+fake.URL+"]",
			workflow+"simple_workflow", "buffer.total_steps=1", "explorer.eval_interval=1", c.override)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", c.override, err, c.want)
		}
	}
}

// The embedded engine's log-probabilities do not correct for a truncation, also where the trainer computes those of
// the policy itself.
func TestTruncationIsNotCorrected(t *testing.T) {
	const recomputed = "algorithm.rollout_correction.bypass_mode=false"
	for workflow, want := range map[string]string{"test_nucleus": "top_p 0.8 for tokens that are trained on", "simple_workflow": ""} {
		p := newProject(t, tiny, rl)
		_, err := p.run(t, recomputed, "buffer.total_steps=1", "buffer.explorer_input.default_workflow_type="+workflow)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", workflow, err, want)
		}
	}
}

// Evaluations choose among the adapters that servers hold. An adapter of an earlier run scores what it
// scored in that run.
func TestServersHoldSeveralAdapters(t *testing.T) {
	p := newProject(t, tiny, rl)
	const lora = "lora_rank: 4, lora_alpha: 4"
	evaluation := func(adapter string) string {
		return "{name: by_" + adapter + ", path: " + p.dir + "/eval.jsonl, format: {prompt_key: question, response_key: answer}, " +
			"rollout_args: {temperature: 0, adapter: '" + strings.TrimSuffix(adapter, "policy") + "'}}"
	}
	evaluated := "buffer.explorer_input.eval_tasksets=["
	if _, err := p.run(t, "model.lora_configs=[{"+lora+"}]", "explorer.eval_on_startup=true", evaluated+evaluation("policy")+"]"); err != nil {
		t.Fatal(err)
	}
	first := curve(t, p.job(), "explorer", "eval/by_policy/accuracy/mean@1")
	adapter := filepath.Join(p.job(), "global_step_8/actor/lora_adapter")
	fake := server.VLLM(t, p.inServer(t, 3), server.Options{Vocab: servedVocab, MaxLen: servedLen, LoRA: true})
	fake.Open = p.scoring(3, func() {})
	_, err := p.run(t, "name=second", "model.lora_configs=[{name: new, "+lora+"}, {name: old, path: "+adapter+"}]", "buffer.total_steps=4",
		"explorer.eval_on_startup=true", evaluated+evaluation("policy")+", "+evaluation("old")+", "+evaluation("base")+"]",
		"explorer.rollout_model.engine_type=vllm", "explorer.rollout_model.base_urls=["+fake.URL+"]")
	if err != nil {
		t.Fatal(err)
	}
	job := filepath.Join(filepath.Dir(p.job()), "second")
	for by, want := range map[string]float64{"policy": first[0], "old": first[2], "base": first[0]} {
		got := curve(t, job, "explorer", "eval/by_"+by+"/accuracy/mean@1")
		if len(got) != 2 || got[0] != want || by != "policy" && got[1] != want {
			t.Errorf("%s scores %v at steps 0 and 4, want %v", by, got, want)
		}
	}
	if first[0] == first[2] {
		t.Errorf("the first run learned nothing: %v", first)
	}
	if left := fake.Adapters(); len(left) > 0 {
		t.Errorf("the run has left the adapters %q", left)
	}
}

// A server that cannot take weights ends a run that trains before its first step, in one line.
func TestServersThatTakeNoWeights(t *testing.T) {
	p := newProject(t, tiny, rl)
	fake := server.VLLM(t, p.inServer(t, 99), server.Options{Vocab: servedVocab, MaxLen: servedLen})
	_, err := p.run(t, "explorer.rollout_model.engine_type=vllm", "explorer.rollout_model.base_urls=["+fake.URL+"]")
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "start it with VLLM_SERVER_DEV_MODE=1") {
		t.Errorf("got %v", err)
	}
	if got := curve(t, p.job(), "explorer", "rollout/reward/mean"); len(got) > 0 {
		t.Errorf("%d explore steps", len(got))
	}
	_, err = p.run(t, "mode=bench", "explorer.rollout_model.engine_type=vllm", "explorer.rollout_model.base_urls=["+fake.URL+"]", "name=b")
	if err != nil {
		t.Error("an evaluation:", err)
	}
}
