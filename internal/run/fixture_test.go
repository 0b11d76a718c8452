package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("test_even", "The share of even token ids in the reply: an untrained model already gets some.",
		func() trinity.RewardFunc { return even{} })
	registry.Rewards.Register("test_even_start", "test_even, but for replies that begin with an odd token id it is invalid.",
		func() trinity.RewardFunc { return evenStart{} })
	registry.Rewards.Register("test_unable", "No reward.", func() trinity.RewardFunc { return unable{} })
}

type unable struct{}

func (unable) Score(context.Context, trinity.RewardInput) (trinity.Reward, error) {
	return trinity.InvalidReward("nothing to score by"), nil
}

type evenStart struct{ even }

func (s evenStart) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	if first := in.Experience.Tokens[in.Experience.PromptLen]; first%2 != 0 {
		return trinity.InvalidReward(fmt.Sprintf("it begins with %d", first)), nil
	}
	return s.even.Score(ctx, in)
}

type even struct{}

func (even) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	reply := in.Experience.Tokens[in.Experience.PromptLen:]
	n := 0
	for _, t := range reply {
		if t%2 == 0 {
			n++
		}
	}
	return trinity.NewReward(map[string]float64{"accuracy": float64(n) / float64(len(reply))}), nil
}

// project is a directory with a configuration, the model and the data that it names.
type project struct {
	dir    string
	config string // path
}

// tiny is a model of one layer: 54,464 weights.
const tiny = 1

// newProject writes the quickstart's model, cut down to hidden 64 and the given layers, MaxDigit
// data, and a configuration.
func newProject(t *testing.T, layers int, yaml string) project {
	t.Helper()
	p := project{dir: t.TempDir()}
	p.config = filepath.Join(p.dir, "config.yaml")
	model := filepath.Join(p.dir, "model")
	write(t, p.config, strings.ReplaceAll(yaml, "DIR", p.dir))
	const quickstart = "../../examples/quickstart/model/"
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		write(t, filepath.Join(model, name), read(t, quickstart+name))
	}
	var shape map[string]any
	if err := json.Unmarshal([]byte(read(t, quickstart+"config.json")), &shape); err != nil {
		t.Fatal(err)
	}
	shape["hidden_size"], shape["intermediate_size"], shape["num_hidden_layers"] = 64, 128, layers
	shape["num_attention_heads"], shape["num_key_value_heads"] = 2, 1
	write(t, filepath.Join(model, "config.json"), encode(t, shape))
	p.maxDigit(t)
	p.preferences(t)
	return p
}

// maxDigit writes demonstrations, which answer with one of the two digits at random, and questions
// with the larger one.
func (p project) maxDigit(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 0))
	var demonstrations, questions strings.Builder
	for range 1000 {
		a, b := rng.IntN(10), rng.IntN(10)
		question := fmt.Sprintf("max %d %d", a, b)
		shown := a
		if rng.IntN(2) == 1 {
			shown = b
		}
		demonstrations.WriteString(encode(t, map[string]any{"question": question, "response": fmt.Sprintf("<answer>%d</answer>", shown)}))
		questions.WriteString(encode(t, map[string]any{"question": question, "answer": fmt.Sprint(max(a, b)), "weak": float64(a) / 20,
			"strong": float64(b+10) / 20}))
	}
	write(t, filepath.Join(p.dir, "sft.jsonl"), demonstrations.String())
	write(t, filepath.Join(p.dir, "train.jsonl"), questions.String())
	first := strings.SplitAfter(questions.String(), "\n")[:4]
	write(t, filepath.Join(p.dir, "eval.jsonl"), strings.Join(first, ""))
}

// preferences writes, of all questions with two different digits, which of the two is the better
// answer: pairs, single answers, and the answered questions as text. A fifth of the questions is
// held out.
func (p project) preferences(t *testing.T) {
	files := map[string]*strings.Builder{"dpo": {}, "heldout": {}, "kto": {}, "cpt": {}}
	add := func(file string, row map[string]any) { files[file].WriteString(encode(t, row)) }
	answer := func(digit int) string { return fmt.Sprintf("<answer>%d</answer>", digit) }
	for i := range 100 {
		a, b := (7*i+3)%100/10, (7*i+3)%10
		if a == b {
			continue
		}
		question, good, bad := fmt.Sprintf("max %d %d", a, b), answer(max(a, b)), answer(min(a, b))
		pair := map[string]any{"question": question, "chosen": good, "rejected": bad}
		if (3*a+b)%5 == 0 {
			add("heldout", pair)
			continue
		}
		add("dpo", pair)
		add("kto", map[string]any{"question": question, "response": good, "label": true})
		add("kto", map[string]any{"question": question, "response": bad, "label": false})
		add("cpt", map[string]any{"question": question + " is " + good})
	}
	for name, rows := range files {
		write(t, filepath.Join(p.dir, name+".jsonl"), rows.String())
	}
}

// load reads the configuration, with overrides.
func (p project) load(t *testing.T, overrides ...string) *config.Config {
	t.Helper()
	cfg, err := config.Load(p.config, config.Options{Overrides: overrides})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// run runs the configuration in this process.
func (p project) run(t *testing.T, overrides ...string) (*run.Summary, error) {
	t.Helper()
	return runConfig(t, p.load(t, overrides...))
}

func runConfig(t *testing.T, cfg *config.Config) (*run.Summary, error) {
	t.Helper()
	return run.Run(t.Context(), t.Context(), cfg, run.Options{Say: func(s string) { t.Log(s) }})
}

// job is the run's directory.
func (p project) job() string { return filepath.Join(p.dir, "checkpoints", "p", "r") }

// rl is a synchronous GRPO run of eight steps.
const rl = `
project: p
name: r
checkpoint_root_dir: DIR/checkpoints
seed: 3
mode: both
model: {model_path: DIR/model, init: {style: fan_in}, max_prompt_tokens: 40, max_response_tokens: 6}
algorithm: {algorithm_type: grpo, repeat_times: 4, kl_loss_fn: none, optimizer: {lr: 5e-3, lr_warmup_steps: 2, lr_scheduler_type: linear}}
buffer:
  batch_size: 3
  total_steps: 8
  explorer_input:
    taskset:
      name: digits
      path: DIR/train.jsonl
      format: {prompt_key: question, response_key: answer}
      data_selector: {selector_type: shuffle, seed: 5}
    eval_tasksets:
      - {name: few, path: DIR/eval.jsonl, repeat_times: 2, format: {prompt_key: question, response_key: answer}}
    default_workflow_type: simple_workflow
    default_reward_fn_type: test_even
explorer: {eval_interval: 4}
trainer: {save_interval: 2, trainer_config: {actor_rollout_ref: {actor: {ppo_mini_batch_size: 6}}}}
monitor: {monitor_type: jsonl}
`

// blended is rl with tasks of two tasksets, one of which a curriculum chooses.
var blended = strings.Replace(rl, `    taskset:
      name: digits
      path: DIR/train.jsonl
      format: {prompt_key: question, response_key: answer}
      data_selector: {selector_type: shuffle, seed: 5}
`, `    tasksets:
      - name: digits
        path: DIR/train.jsonl
        weight: 2
        format: {prompt_key: question, response_key: answer}
        data_selector: {selector_type: difficulty_based, feature_keys: [weak, strong],
            kwargs: {m: 4, target_reward: 0.5, tau: 0.1, do_sample: true, adaptive_rho: true}}
      - name: few
        path: DIR/eval.jsonl
        weight: 1
        format: {prompt_key: question, response_key: answer}
        rollout_args: {temperature: 0.5}
        data_selector: {selector_type: shuffle, seed: 6}
`, 1)

// sft trains on demonstrations.
const sft = `
project: p
name: r
checkpoint_root_dir: DIR/checkpoints
seed: 3
mode: train
model: {model_path: DIR/model, init: {style: fan_in}, max_prompt_tokens: 40, max_response_tokens: 12}
algorithm: {algorithm_type: sft, optimizer: {lr: 5e-3, lr_warmup_steps: 2, lr_scheduler_type: cosine}}
buffer:
  train_batch_size: 8
  total_steps: 12
  trainer_input:
    experience_buffer:
      {storage_type: file, path: DIR/sft.jsonl, format: {prompt_type: plaintext, prompt_key: question, response_key: response},
          data_selector: {selector_type: shuffle, seed: 1}}
trainer: {save_interval: 2}
monitor: {monitor_type: jsonl}
`

// onDataset trains with ALGORITHM on the file of its name.
const onDataset = `
project: p
name: r
checkpoint_root_dir: DIR/checkpoints
seed: 3
mode: train
model: {model_path: DIR/model, init: {style: fan_in}, max_prompt_tokens: 40, max_response_tokens: 12}
algorithm: {algorithm_type: ALGORITHM, optimizer: {lr: 5e-3, lr_warmup_steps: 2, lr_scheduler_type: cosine}}
buffer:
  train_batch_size: 8
  total_steps: 16
  trainer_input:
    experience_buffer: {path: DIR/ALGORITHM.jsonl, format: {prompt_type: plaintext, prompt_key: question},
        data_selector: {selector_type: shuffle, seed: 1}}
trainer: {save_interval: 2}
monitor: {monitor_type: jsonl}
`

// staged warms up and then learns from rewards.
const staged = `
project: p
name: r
checkpoint_root_dir: DIR/checkpoints
seed: 3
model: {model_path: DIR/model, init: {style: fan_in}, max_prompt_tokens: 40, max_response_tokens: 8}
monitor: {monitor_type: jsonl}
stages:
  - stage_name: warmup
    mode: train
    algorithm: {algorithm_type: sft, optimizer: {lr: 5e-3, lr_warmup_steps: 20, lr_scheduler_type: cosine, min_lr_ratio: 0.1,
        betas: [0.9, 0.95], weight_decay: 0.01}}
    buffer:
      train_batch_size: WARMBATCH
      total_steps: WARMSTEPS
      trainer_input:
        experience_buffer:
          storage_type: file
          path: DIR/sft.jsonl
          format: {prompt_type: plaintext, prompt_key: question, response_key: response}
          data_selector: {selector_type: shuffle, seed: 1}
    trainer: {save_interval: WARMSAVE}
  - stage_name: rl
    mode: both
    algorithm: {algorithm_type: grpo, repeat_times: 8, kl_loss_fn: none,
        optimizer: {lr: RLLR, lr_warmup_steps: 5, lr_scheduler_type: linear, min_lr_ratio: 0.1, betas: [0.9, 0.95], weight_decay: 0}}
    buffer:
      batch_size: RLBATCH
      total_steps: RLSTEPS
      explorer_input:
        taskset:
          name: digits
          path: DIR/train.jsonl
          format: {prompt_key: question, response_key: answer}
          reward_fn_args: REWARDARGS
          data_selector: {selector_type: shuffle, seed: 5}
        default_workflow_type: WORKFLOW
        default_reward_fn_type: REWARD
    trainer: {save_interval: RLSAVE, trainer_config: {actor_rollout_ref: {actor: {ppo_mini_batch_size: RLMINI}}}}
`

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func encode(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data) + "\n"
}
