package finetune

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"path/filepath"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/internal/serve/openai"
	wire "github.com/trinity-go/trinity/internal/wire/finetune"
)

// Names in a job's directory. Its run is in a directory of its own beside them.
const (
	jobsDir        = "jobs"
	jobFile        = "job.json"
	configFile     = "config.yaml"
	logFile        = "run.log"
	trainingRows   = "training.jsonl"
	validationRows = "validation.jsonl"
	runName        = "run"
)

// What a job has unless its order says otherwise; docs/guide/finetuning.md has the table.
var (
	rates     = map[string]float64{wire.Supervised: 2e-4, wire.DPO: 2e-5, wire.Reinforcement: 1e-4} // with a multiplier of 1
	betaUsual = 0.1
)

const (
	loraRank  = 16
	rollouts  = 8   // of a task
	usualLen  = 512 // tokens of a reply
	keptSteps = 3   // checkpoints
	saves     = 10  // checkpoints and evaluations of a whole job
)

// settled are the numbers of a job.
type settled struct {
	epochs, batch, steps, every int
	rate, beta                  float64
	samples, reply              int
}

// whole returns a number of hyperparameters that is whole and from least to most, or what auto means.
func whole(key string, n *wire.Number, least, most, auto int) (int, error) {
	if n.Auto() {
		return auto, nil
	}
	v := float64(*n)
	if v != math.Trunc(v) || v < float64(least) || v > float64(most) {
		return 0, openai.Bad(key, `want "auto", or a whole number from %d to %d, got %g`, least, most, v)
	}
	return int(v), nil
}

// positive returns a number of hyperparameters that is above 0, or what auto means.
func positive(key string, n *wire.Number, most, auto float64) (float64, error) {
	if n.Auto() {
		return auto, nil
	}
	if v := float64(*n); !(v > 0 && v <= most) {
		return 0, openai.Bad(key, `want "auto", or a number above 0, at most %g, got %g`, most, v)
	}
	return float64(*n), nil
}

// settle chooses the numbers of a job with so many rows. Before they are known, rows is 0.
func settle(method string, h *wire.Hyperparameters, rows, maxLen int) (c settled, err error) {
	at := func(key string) string { return "method." + method + ".hyperparameters." + key }
	batch := 1 << max(0, bits.Len(uint(rows/64))-1) // a power of two: some 64 steps an epoch
	batch = min(batch, 32)
	if method == wire.Reinforcement {
		batch = min(max(rows, 1), 8)
	}
	if c.batch, err = whole(at("batch_size"), h.BatchSize, 1, 4096, batch); err != nil {
		return c, err
	}
	if rows > 0 && c.batch > rows {
		return c, openai.Bad(at("batch_size"), "want at most the rows of the training file, %d, got %d", rows, c.batch)
	}
	epochs := 3
	if method == wire.Reinforcement { // 40 steps or more, if ten passes give them
		epochs = min(max(40*c.batch/max(rows, 1), 1), 10)
	}
	multiplier, numbers := 1.0, []struct {
		to               *int
		key              string
		n                *wire.Number
		least, most, use int
	}{
		{&c.epochs, "n_epochs", h.NEpochs, 1, 1000, epochs}, {&c.samples, "eval_samples", h.EvalSamples, 1, 64, 1},
		{&c.reply, "max_completion_tokens", h.MaxCompletionTokens, 1, max(1, maxLen-1), max(1, min(usualLen, maxLen/2))},
	}
	for _, n := range numbers {
		if *n.to, err = whole(at(n.key), n.n, n.least, n.most, n.use); err != nil {
			return c, err
		}
	}
	c.steps = max(1, rows*c.epochs/c.batch)
	if c.every, err = whole(at("eval_interval"), h.EvalInterval, 1, 1<<20, max(1, c.steps/saves)); err != nil {
		return c, err
	}
	if multiplier, err = positive(at("learning_rate_multiplier"), h.LearningRateMultiplier, 1000, 1); err != nil {
		return c, err
	}
	c.rate = rates[method] * multiplier
	c.beta, err = positive(at("beta"), h.Beta, 100, betaUsual)
	return c, err
}

// hyperparameters returns the numbers as clients see them.
func (c *settled) hyperparameters(method string) *wire.Hyperparameters {
	number := func(v float64) *wire.Number { n := wire.Number(v); return &n }
	h := &wire.Hyperparameters{
		BatchSize: number(float64(c.batch)), NEpochs: number(float64(c.epochs)), LearningRateMultiplier: number(c.rate / rates[method]),
	}
	switch method {
	case wire.DPO:
		h.Beta = number(c.beta)
	case wire.Reinforcement:
		h.EvalInterval, h.EvalSamples, h.MaxCompletionTokens = number(float64(c.every)), number(float64(c.samples)), number(float64(c.reply))
	}
	return h
}

type section = map[string]any

// configure returns the configuration of a job's run. Its paths are below the job's directory.
func (s *Server) configure(j *job, c *settled) ([]byte, error) {
	base, adapter, err := s.modelOf(j.Owner, j.Model)
	if err != nil {
		return nil, err
	}
	lora := section{"lora_rank": loraRank, "lora_alpha": s.opts.Alpha}
	if adapter != "" {
		if adapter, err = filepath.Rel(j.dir, adapter); err != nil {
			return nil, err
		}
		lora = section{"path": adapter}
	}
	model := section{"model_path": base.Path, "max_model_len": base.MaxLen, "lora_configs": []any{lora}}
	algorithm := section{"optimizer": section{
		"lr": c.rate, "lr_warmup_steps": min(10, c.steps/10), "lr_scheduler_type": "linear", "min_lr_ratio": 0.1, "weight_decay": 0,
	}}
	buffer := section{"total_epochs": c.epochs}
	config := section{
		"project": j.ID, "name": runName, "checkpoint_root_dir": "..", "seed": j.Seed, "mode": "train",
		"model": model, "algorithm": algorithm, "buffer": buffer, "explorer": section{"eval_interval": c.every, "rollout_model": section{"engine_type": s.opts.Sampler}},
		"trainer": section{
			"trainer_type": s.opts.Trainer, "save_interval": max(1, c.steps/saves), "save_hf_checkpoint": "always",
			"max_checkpoints_to_keep": keptSteps,
		},
	}
	rows := func(name, path string, format, more section) section {
		data := section{"path": path, "format": format}
		if name != "" {
			data["name"] = name
		}
		for key, value := range more {
			data[key] = value
		}
		return data
	}
	order := section{"data_selector": section{"selector_type": "shuffle", "seed": j.Seed}}
	switch j.Method.Type {
	case wire.Reinforcement:
		config["mode"], model["max_response_tokens"] = "both", c.reply
		algorithm["algorithm_type"], algorithm["repeat_times"], algorithm["kl_loss_fn"] = "grpo", rollouts, "none"
		buffer["batch_size"] = c.batch
		var object any
		if err := json.Unmarshal(j.Method.Reinforcement.Grader, &object); err != nil {
			return nil, err
		}
		format := section{"prompt_key": "messages", "tools_key": "tools"}
		input := section{
			"taskset":               rows("train", trainingRows, format, order),
			"default_workflow_type": "simple_workflow", "default_reward_fn_type": "grader_reward",
		}
		graded := section{"grader": escaped(object)}
		input["taskset"].(section)["reward_fn_args"] = graded
		if j.ValidationFile != nil {
			input["eval_tasksets"] = []any{rows("valid", validationRows, format, section{"repeat_times": c.samples, "reward_fn_args": graded})}
		}
		buffer["explorer_input"] = input
		if asked := s.judges(object); len(asked) > 0 {
			config["explorer"].(section)["auxiliary_models"] = asked
		}
	default:
		format := section{"messages_key": "messages", "tools_key": "tools", "enable_concatenated_multi_turn": true}
		algorithm["algorithm_type"] = "sft"
		if j.Method.Type == wire.DPO {
			format = section{
				"messages_key": "input.messages", "tools_key": "input.tools", "chosen_key": "preferred_output", "rejected_key": "non_preferred_output",
			}
			algorithm["algorithm_type"], algorithm["kl_loss_fn"] = "dpo", "none"
			algorithm["policy_loss_fn_args"] = section{"beta": c.beta}
		}
		buffer["train_batch_size"] = c.batch
		input := section{"experience_buffer": rows("train", trainingRows, format, order)}
		if j.ValidationFile != nil {
			input["eval_buffers"] = section{"valid": rows("", validationRows, format, nil)}
		}
		buffer["trainer_input"] = input
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("the configuration: %w", err)
	}
	return text, nil
}

var interpolation = regexp.MustCompile(`(\\*)\$\{`)

// escaped returns a value of a client in which ${…} is text: a configuration would replace it, by a variable of the
// environment, say.
func escaped(value any) any {
	switch v := value.(type) {
	case string:
		return interpolation.ReplaceAllString(v, `$1$1\$${`)
	case section:
		out := section{}
		for key, part := range v {
			out[key] = escaped(part)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, part := range v {
			out[i] = escaped(part)
		}
		return out
	}
	return value
}

// judges returns the models of this service that a grader asks.
func (s *Server) judges(object any) (all []any) {
	for _, name := range modelsOf(object) {
		if i := slices.IndexFunc(s.opts.Bases, func(b Base) bool { return b.Name == name }); i >= 0 {
			all = append(all, section{"name": name, "model_path": s.opts.Bases[i].Path, "max_model_len": s.opts.Bases[i].MaxLen})
		}
	}
	return all
}

// modelsOf returns the names of models in a grader object, sorted, each once.
func modelsOf(object any) (names []string) {
	switch v := object.(type) {
	case section:
		if kind, _ := v["type"].(string); kind == "score_model" || kind == "label_model" {
			if name, _ := v["model"].(string); name != "" {
				names = append(names, name)
			}
		}
		for _, part := range v {
			names = append(names, modelsOf(part)...)
		}
	case []any:
		for _, part := range v {
			names = append(names, modelsOf(part)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
