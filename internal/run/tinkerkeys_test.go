package run_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
)

// TestWhatAServiceLacksIsRefused refuses at its key what a service does not compute.
func TestWhatAServiceLacksIsRefused(t *testing.T) {
	p := newProject(t, tiny, rl)
	for _, c := range []struct{ override, key, words string }{
		{"algorithm.entropy_loss_fn_args={entropy_coef: 0.01}", "algorithm.entropy_loss_fn_args.entropy_coef", "an entropy in the loss"},
		{"algorithm.algorithm_type=ppo", "algorithm.advantage_fn", "a critic"},
		{"algorithm.optimizer.optimizer_type=sgd", "algorithm.optimizer.optimizer_type", "sgd"},
		{"model.temperature=0.7", "model.temperature", "a temperature other than 1"},
		{"buffer.explorer_input.taskset.rollout_args.temperature=0.7", "buffer.explorer_input.taskset.rollout_args.temperature", "a temperature"},
		{"model.top_p=0.9", "model.top_p", "trained on"},
		{"model.repetition_penalty=1.1", "model.repetition_penalty", "a repetition penalty"},
		{"model.min_response_tokens=3", "model.min_response_tokens", "a shortest response"},
		{"model.lora_configs=[{lora_rank: 3}]", "model.lora_configs", "described by model.tinker"},
		{"model.tinker.base_url=nowhere", "model.tinker.base_url", "not the address of a service"},
		{"model.tinker.server_loss_fn=other", "model.tinker.server_loss_fn", "trinity_ppo"},
		{"algorithm.policy_loss_fn=gspo", "model.tinker.server_loss_fn", "policy_loss_fn is gspo"},
		{"algorithm.policy_loss_fn_args={clip_range_high: 0.3}", "model.tinker.server_loss_fn", "on both sides"},
		{"algorithm.kl_loss_fn=k3", "model.tinker.server_loss_fn", "kl_loss_fn is k3"},
		{"model={tinker: {train_mlp: false, train_attn: false, train_unembed: false}, model_path: DIR/model, max_model_len: 40}",
			"model.tinker.train_unembed", "nothing to train"},
		{"stages=[{stage_name: one}]", "model.tinker.enable", "one by one"},
	} {
		overrides := []string{"trainer.trainer_type=tinker", "model.tinker.server_loss_fn=trinity_ppo"}
		overrides = append(overrides, strings.ReplaceAll(c.override, "DIR", p.dir))
		if strings.HasPrefix(c.override, "stages") {
			overrides[0] = "model.tinker.enable=true"
		}
		_, err := config.Load(p.config, config.Options{Overrides: overrides})
		var errs config.Errors
		found := false
		if errors.As(err, &errs) {
			for _, e := range errs {
				found = found || strings.TrimPrefix(e.Key, "stages.0.") == c.key && strings.Contains(e.Message+e.Hint, c.words)
			}
		}
		if !found {
			t.Errorf("%s: %v; want %q at %s", c.override, err, c.words, c.key)
		}
	}
}

// TestAnyKeyTurnsTheServiceOn sets both engines and the adapter, and leaves out an entropy without weight.
func TestAnyKeyTurnsTheServiceOn(t *testing.T) {
	p := newProject(t, tiny, rl)
	t.Setenv("TINKER_BASE_URL", "http://127.0.0.1:9")
	for _, override := range []string{"model.tinker.enable=true", "trainer.trainer_type=tinker", "explorer.rollout_model.engine_type=tinker"} {
		cfg := p.load(t, override, "model.tinker.rank=3", "synchronizer.sync_method=nccl").Settled()[0]
		spec := cfg.Model.Service(cfg.Seed, &cfg.Method)
		if cfg.Engines.Train != "tinker" || cfg.Engines.Sample != "tinker" || cfg.Engines.Weights != "memory" ||
			cfg.Model.LoraConfigs[0].LoraRank != 3 ||
			spec.BaseModel != filepath.Join(p.dir, "model") || spec.Seed != 3 || !spec.Unembed || cfg.Method.Parts.Entropy != "none" {
			t.Errorf("%s: engines %+v, %+v", override, cfg.Engines, spec)
		}
		plan, err := cfg.Plan(config.Facts{})
		if err != nil || !strings.Contains(plan.String(), "http://127.0.0.1:9") ||
			!strings.Contains(plan.String(), "tokens a train step, 2 times each") {
			t.Errorf("%v\n%s", err, plan)
		}
		text, err := cfg.YAML()
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(p.dir, "again.yaml"), text)
		if _, err := config.Load(filepath.Join(p.dir, "again.yaml"), config.Options{}); err != nil {
			t.Errorf("the effective configuration: %v", err)
		}
	}
	cfg, err := config.Load(p.config, config.Options{Engine: "cpu", Overrides: []string{"model.tinker.enable=true", "model.tinker.rank=3"}})
	if err != nil {
		t.Fatal(err)
	}
	if s := cfg.Settled()[0]; s.Engines.Train != "cpu" || s.Model.Tinker.Enable || s.Model.LoraConfigs[0].LoraRank != 3 {
		t.Errorf("--engine cpu trains with %+v", s.Engines)
	}
	var unused []string
	for _, n := range cfg.Settled()[0].Unused() {
		unused = append(unused, n.Key)
	}
	if !slices.Equal(unused, []string{"model.tinker.enable"}) {
		t.Errorf("unused are %q", unused)
	}
}

// TestUpstreamsFileIsChecked checks the file of Trinity-RFT as it is.
func TestUpstreamsFileIsChecked(t *testing.T) {
	const file = "../../../shared/data/trinity_rft_configs/examples/tinker/tinker.yaml"
	if _, err := os.Stat(file); err != nil {
		t.Skip("shared/data/trinity_rft_configs is not beside the repository")
	}
	cfg, err := config.Load(file, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := cfg.Settled()[0]; s.Engines.Train != "tinker" || s.Model.Service(s.Seed, &s.Method).BaseModel != "Qwen/Qwen3-4B-Instruct-2507" {
		t.Errorf("%+v", s.Engines)
	}
}
