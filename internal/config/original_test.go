package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// originalKeys returns the keys of Trinity-RFT's schema, without keys of stages. The keys of section
// rollout_correction are free there.
func originalKeys(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "trinity-rft.keys"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// Every key of Trinity-RFT is a key here, or its error says where its value belongs.
func TestEveryKeyOfTrinityRFTIsKnown(t *testing.T) {
	known := map[string]bool{}
	for _, k := range Keys() {
		for key := k.Path; key != ""; key = parent(key) {
			known[key] = true
		}
	}
	for _, key := range originalKeys(t) {
		if known[key] || strings.HasPrefix(key, "stages.") {
			continue
		}
		for !known[parent(key)] && parent(key) != "" {
			key = parent(key) // the section is unknown, and the decoder stops there
		}
		hint := unknownKeyHint(reflect.TypeFor[Config](), key)
		if strings.HasPrefix(hint, "known here") || strings.HasPrefix(hint, "did you mean") {
			t.Errorf("%s: %s", key, hint)
		}
	}
}

// The page of the configuration lists every key that Trinity-RFT lacks.
func TestOwnKeysInDocs(t *testing.T) {
	theirs := map[string]bool{} // keys and sections
	leaves := originalKeys(t)
	for _, key := range leaves {
		for ; key != ""; key = parent(key) {
			theirs[key] = true
		}
	}
	own := map[string][]string{} // by the first path of a section
	first := map[reflect.Type]string{}
	shared := map[string]bool{} // fields that Trinity-RFT has in one of the sections of a type
	for _, k := range Keys() {
		shared[k.owner.Name()+"."+k.field.Name] = shared[k.owner.Name()+"."+k.field.Name] || theirs[k.Path]
	}
	var sections []string
	for _, k := range Keys() {
		section := parent(k.Path)
		if theirs[k.Path] || section != "" && (!theirs[section] || slices.Contains(leaves, section)) || shared[k.owner.Name()+"."+k.field.Name] {
			continue
		}
		if first[k.owner] == "" {
			first[k.owner] = section
			sections = append(sections, section)
		}
		if section == first[k.owner] && !slices.Contains(own[section], lastKey(k.Path)) {
			own[section] = append(own[section], lastKey(k.Path))
		}
	}
	var b strings.Builder
	b.WriteString("| section, and sections of the same keys | own keys |\n|---|---|\n")
	for _, section := range sections {
		name := "`" + section + "`"
		if section == "" {
			name = "top level"
		}
		fmt.Fprintf(&b, "| %s | `%s` |\n", name, strings.Join(own[section], "`, `"))
	}
	path := filepath.Join("..", "..", "docs", "reference", "configuration.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const from, to = "<!-- own keys: written by go test ./internal/config -update -->\n", "<!-- end -->\n"
	head, rest, ok := strings.Cut(string(page), from)
	_, tail, ends := strings.Cut(rest, to)
	if !ok || !ends {
		t.Fatalf("%s has no lines %s and %s", path, from, to)
	}
	golden(t, path, head+from+b.String()+to+tail)
}

// Values that files of Trinity-RFT have, and what they mean here.
func TestValuesOfTrinityRFT(t *testing.T) {
	const verl = "trainer.trainer_config."
	const in = "buffer.explorer_input."
	kept := func(c *Config) any { return c.Trainer.MaxCheckpointsToKeep }
	scored := func(c *Config) any {
		t := c.settled[0].Data.Tasksets[0]
		return fmt.Sprint(t.DefaultRewardFnType, " ", t.RewardFnArgs, " ", t.WorkflowArgs)
	}
	for _, c := range []struct {
		overrides string
		meaning   func(c *Config) any
		want      any
	}{
		{verl + "trainer.max_actor_ckpt_to_keep=2", kept, 2},
		{verl + "trainer.max_critic_ckpt_to_keep=3", kept, 3},
		{verl + "trainer={max_actor_ckpt_to_keep: 2, max_critic_ckpt_to_keep: 2}", kept, 2},
		{verl + "trainer={max_actor_ckpt_to_keep: null, max_critic_ckpt_to_keep: null}",
			kept, 0},
		{verl + "trainer.max_actor_ckpt_to_keep=2 and trainer.max_checkpoints_to_keep=2", kept, 2},
		{verl + "algorithm.rollout_correction.bypass_mode=false", func(c *Config) any { return c.settled[0].Method.Recomputes }, true},
		{verl + "algorithm.rollout_correction={bypass_mode: false, rollout_is: token, rollout_is_threshold: 3}",
			func(c *Config) any { return fmt.Sprint(c.Algorithm.RolloutCorrection.RolloutIsThreshold) }, "3"},
		{"trainer.trainer_config=null", func(c *Config) any { return len(c.Trainer.TrainerConfig) }, 0},
		{"trainer.trainer_config={}", func(c *Config) any { return len(c.Trainer.TrainerConfig) }, 0},
		{verl + "actor_rollout_ref={actor: {}, ref: null}", func(c *Config) any { return c.settled[0].Batch.Mini }, 8},
		{"explorer.rollout_model.external_model_config={enable: false}",
			func(c *Config) any { return c.Explorer.RolloutModel.ExternalModelConfig.Enable }, false},
		{"explorer.rollout_model.nnodes=1", func(c *Config) any { return unusedKeys(c) }, "[explorer.rollout_model.nnodes]"},
		{"model.logprobs=5", func(c *Config) any { return unusedKeys(c) }, "[model.logprobs]"},
		{"buffer.explorer_input.taskset.rollout_args.logprobs=20", func(c *Config) any { return unusedKeys(c) },
			"[buffer.explorer_input.taskset.rollout_args.logprobs]"},
		{"explorer.rollout_model.logprobs=1", func(c *Config) any { return unusedKeys(c) }, "[explorer.rollout_model.logprobs]"},
		{"algorithm.kl_loss_fn=none and algorithm.kl_loss_fn_args={kl_coef: 0.1}", func(c *Config) any { return unusedKeys(c) },
			"[algorithm.kl_loss_fn_args.kl_coef]"},
		{"algorithm.entropy_loss_fn=none and algorithm.entropy_loss_fn_args={entropy_coef: 0.1}", func(c *Config) any { return unusedKeys(c) },
			"[algorithm.entropy_loss_fn_args.entropy_coef]"},
		{"algorithm.kl_penalty_fn=none and algorithm.kl_penalty_fn_args={kl_coef: 0}", func(c *Config) any { return unusedKeys(c) },
			"[algorithm.kl_penalty_fn_args.kl_coef]"},
		{in + "taskset.workflow_args={use_base: true, reward_fn_type: math_reward, reward_fn_args: {}}", scored,
			"math_reward map[] map[use_base:true]"},
		{in + "taskset.workflow_args={reward_fn_type: math_reward} and " + in + "taskset.default_reward_fn_type=math_reward", scored,
			"math_reward map[] map[]"},
		{in + "eval_tasksets.0.workflow_args={reward_fn_type: math_reward}", func(c *Config) any {
			return c.settled[0].Data.Tasksets[1].DefaultRewardFnType
		}, "math_reward"},
	} {
		cfg, err := parse(t, base, Options{Engine: "cpu", Overrides: strings.Split(c.overrides, " and ")})
		if err != nil {
			t.Errorf("%s: %v", c.overrides, err)
			continue
		}
		if got := c.meaning(cfg); got != c.want {
			t.Errorf("%s: %v, want %v", c.overrides, got, c.want)
		}
	}
}

func unusedKeys(c *Config) string {
	keys := []string{}
	for _, n := range c.settled[0].Unused() {
		keys = append(keys, n.Key)
	}
	slices.Sort(keys)
	return fmt.Sprint(keys)
}

// A key of veRL's tree keeps its line, in the file and in a stage.
func TestKeysOfVerlAreFoundAtTheirLine(t *testing.T) {
	const tree = "trainer:\n  trainer_config:\n    trainer:\n      max_actor_ckpt_to_keep: -1\n"
	for text, want := range map[string]string{
		base + tree: "c.yaml:22:7: trainer.max_checkpoints_to_keep: is -1",
		strings.Replace(base+tree, "-1", "1\n      max_critic_ckpt_to_keep: 2", 1): "c.yaml:23:7: trainer.trainer_config.trainer." +
			"max_critic_ckpt_to_keep: differs from trainer.max_checkpoints_to_keep",
		base + "stages:\n- stage_name: a\n  trainer: {trainer_config: {trainer: {max_actor_ckpt_to_keep: -1}}}\n": "c.yaml:21:40: " +
			"stages.0.trainer.max_checkpoints_to_keep: is -1",
		strings.Replace(base, "      path: train.jsonl\n", "      path: t\n      default_reward_fn_type: math_reward\n      workflow_args:\n"+
			"        reward_fn_type: format_reward\n", 1): "c.yaml:17:9: buffer.explorer_input.taskset.workflow_args.reward_fn_type: differs from " +
			"buffer.explorer_input.taskset.default_reward_fn_type; keep one of them",
	} {
		if _, err := parse(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
