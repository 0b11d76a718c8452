package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestGroupSizeComesFromTheAlgorithm(t *testing.T) {
	for override, want := range map[string]int{
		"algorithm.repeat_times=null":   2,
		"algorithm.repeat_times=6":      6,
		"algorithm.algorithm_type=dapo": 16,
	} {
		c := mustParse(t, base, Options{Overrides: []string{override}})
		if c.settled[0].Method.GroupSize != want || c.settled[0].Batch.Train != 4*want || c.Buffer.ExplorerInput.Taskset.RepeatTimes != want {
			t.Errorf("%s: group size %d, batch %d, want %d", override, c.settled[0].Method.GroupSize, c.settled[0].Batch.Train, want)
		}
	}
}

func TestLengths(t *testing.T) {
	for _, c := range []struct {
		model               string
		all, prompt, answer int
	}{
		{"max_prompt_tokens: 5, max_response_tokens: 7", 12, 5, 7},
		{"max_model_len: 11", 11, 5, 6},
		{"max_model_len: 11, max_prompt_tokens: 4", 11, 4, 7},
		{"max_model_len: 11, max_response_tokens: 4", 11, 7, 4},
		{"max_model_len: 20, max_prompt_tokens: 5, max_response_tokens: 7", 20, 5, 7},
	} {
		m := mustParse(t, base, Options{Overrides: []string{"model={model_path: m, " + c.model + "}"}}).Model
		if *m.MaxModelLen != c.all || *m.MaxPromptTokens != c.prompt || *m.MaxResponseTokens != c.answer {
			t.Errorf("%s: %d %d %d", c.model, *m.MaxModelLen, *m.MaxPromptTokens, *m.MaxResponseTokens)
		}
	}
}

// Tasksets and the rollout engine inherit the sampling keys of the model section.
func TestSamplingIsInherited(t *testing.T) {
	c := mustParse(t, base, Options{Overrides: []string{"model.top_k=5", "model.temperature=0.5", "model.trust_remote_code=true",
		"buffer.explorer_input.eval_tasksets.0.rollout_args.temperature=0"}})
	in, r := c.Buffer.ExplorerInput, c.Explorer.RolloutModel
	if *in.Taskset.RolloutArgs.TopK != 5 || *in.EvalTasksets[0].RolloutArgs.TopK != 5 || *r.TopK != 5 {
		t.Error("top_k")
	}
	if *in.Taskset.RolloutArgs.Temperature != 0.5 || *in.EvalTasksets[0].RolloutArgs.Temperature != 0 {
		t.Error("temperature")
	}
	if !*r.TrustRemoteCode || !*c.Trainer.TrustRemoteCode || *in.Taskset.RolloutArgs.MaxTokens != 8 {
		t.Error("trust_remote_code, max_tokens")
	}
	if in.Taskset.DefaultWorkflowType != "math_workflow" || in.EvalTasksets[0].DefaultWorkflowType != "math_workflow" {
		t.Error("workflow")
	}
}

// A taskset's own keys come before the rollout model's, and these before model's.
func TestTasksetsInheritTheRolloutModelsSampling(t *testing.T) {
	const model, set = "explorer.rollout_model.", "buffer.explorer_input.eval_tasksets.0.rollout_args.temperature"
	c := mustParse(t, base, Options{Overrides: []string{
		"model.temperature=0.5", "model.top_k=5", "model.top_p=0.5", model + "temperature=0.25", model + "top_k=3", model + "top_p=0.75",
		model + "logprobs=2", model + "max_response_tokens=4", set + "=0",
	}})
	in := c.Buffer.ExplorerInput
	if a := in.Taskset.RolloutArgs; *a.Temperature != 0.25 || *a.TopK != 3 || *a.TopP != 0.75 || *a.Logprobs != 2 || *a.MaxTokens != 4 {
		t.Errorf("temperature %v, top_k %d, top_p %v, logprobs %d, max_tokens %d", *a.Temperature, *a.TopK, *a.TopP, *a.Logprobs, *a.MaxTokens)
	}
	if a := in.EvalTasksets[0].RolloutArgs; *a.Temperature != 0 || *a.TopK != 3 {
		t.Errorf("the evaluation's temperature %v, top_k %d", *a.Temperature, *a.TopK)
	}
	for name, want := range map[string]string{"temperature": set, "top_p": model + "top_p", "repetition_penalty": "model.repetition_penalty"} {
		if got := c.settled[0].Inherited(strings.TrimSuffix(set, ".temperature"), name); got != want {
			t.Errorf("%s is %s's, want %s's", name, got, want)
		}
	}
}

func TestDeprecatedSpellings(t *testing.T) {
	c := mustParse(t, base, Options{Overrides: []string{"synchronizer.sync_method=online", "algorithm.optimizer.warmup_style=cosine",
		"buffer.explorer_input.taskset.task_selector={selector_type: diff_based, seed: 7}", "explorer.runner_num=5",
		"explorer.rollout_model.engine_num=2"}})
	if c.Synchronizer.SyncMethod != "nccl" || c.Algorithm.Optimizer.LRSchedulerType != "cosine" || c.Explorer.RunnerPerModel != 3 {
		t.Error(c.Synchronizer.SyncMethod, c.Algorithm.Optimizer.LRSchedulerType, c.Explorer.RunnerPerModel)
	}
	if s := c.Buffer.ExplorerInput.Taskset.DataSelector; s.SelectorType != "difficulty_based" || s.Seed != 7 {
		t.Error(s)
	}
	if len(c.Warnings) != 5 {
		t.Error(strings.Join(c.Warnings, "\n"))
	}
	for _, both := range [][]string{
		{"algorithm.optimizer.warmup_style=cosine", "algorithm.optimizer.lr_scheduler_type=linear"},
		{"explorer.runner_num=5", "explorer.runner_per_model=5"},
		{"trainer.grad_clip=1", "algorithm.optimizer.clip_grad=2"},
		{"buffer.explorer_input.taskset.task_selector={}", "buffer.explorer_input.taskset.data_selector={}"},
	} {
		if _, err := parse(t, base, Options{Overrides: both}); err == nil {
			t.Error("no error for", both)
		}
	}
}

func TestDerivedValues(t *testing.T) {
	c := mustParse(t, base, Options{Overrides: []string{"group=g", "algorithm.optimizer.clip_grad=0.5",
		"trainer.trainer_config.actor_rollout_ref.actor={ppo_mini_batch_size: 2, ppo_epochs: 3}", "model.init={style: fan_in, seed: 9}"}})
	if want := filepath.Join("ckpt", "Trinity-RFT", "g", "rft"); c.CheckpointJobDir != want ||
		c.Monitor.CacheDir != filepath.Join(want, "monitor") {
		t.Error(c.CheckpointJobDir, c.Monitor.CacheDir)
	}
	if c.settled[0].Trainer.GradClip != 0.5 || c.settled[0].Batch.Mini != 2 || c.settled[0].Batch.Epochs != 3 || c.settled[0].InitSeed != 9 {
		t.Error(c.settled[0].Trainer.GradClip, c.settled[0].Batch.Mini, c.settled[0].Batch.Epochs, c.settled[0].InitSeed)
	}
	d := mustParse(t, base)
	if d.settled[0].Trainer.GradClip != 1 || d.settled[0].Batch.Mini != 8 || d.settled[0].Batch.Epochs != 1 || d.settled[0].InitSeed != 42 ||
		d.settled[0].Engines.Train != "cpu" || d.settled[0].Engines.Sample != "cpu" {
		t.Error(d.settled[0].Trainer.GradClip, d.settled[0].Batch.Mini, d.settled[0].Batch.Epochs, d.settled[0].InitSeed)
	}
	if !slices.Equal(d.Monitor.MonitorType, []string{"console", "jsonl", "tensorboard"}) || d.settled[0].Engines.Weights != "memory" {
		t.Error(d.Monitor.MonitorType, d.settled[0].Engines.Weights)
	}
	if lr := mustParse(t, base, Options{Overrides: []string{"algorithm.optimizer.lr=0"}}).Algorithm.Optimizer.LR; lr != 0 {
		t.Error("learning rate 0 is for control runs, got", lr)
	}
}

// Arguments for the type's own part merge over the type's arguments; another part starts from its
// own defaults.
func TestPartsMerge(t *testing.T) {
	c := mustParse(t, base, Options{Overrides: []string{"algorithm.kl_loss_fn=low_var_kl",
		"algorithm.policy_loss_fn_args.clip_range_low=0.1"}})
	p := c.settled[0].Method.Parts
	if p.KLLoss != "low_var_kl" || p.PolicyLossArgs["clip_range_low"] != 0.1 || p.Advantage != "grpo" {
		t.Error(p)
	}
}

func TestPositions(t *testing.T) {
	c := mustParse(t, base, Options{Overrides: []string{"trainer.save_interval=3"}})
	for key, want := range map[string]string{
		"model.model_path":                           "c.yaml:6:3",
		"model.temperature":                          "c.yaml:5:1",
		"buffer.explorer_input.eval_tasksets.0.path": "c.yaml:17:7",
		"trainer.save_interval":                      "command line",
		"cluster":                                    "c.yaml:1:1",
	} {
		if got := c.source.Pos(key).String(); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	if !c.IsSet("model.model_path") || c.IsSet("model.temperature") {
		t.Error("IsSet")
	}
}

const staged = base + `trainer:
  save_hf_checkpoint: never
  grad_clip: 0.3
stages:
- stage_name: warmup
  mode: train
  algorithm:
    algorithm_type: sft
  buffer:
    train_batch_size: 16
    trainer_input:
      experience_buffer:
        path: sft.jsonl
- stage_name: rl
`

func TestStages(t *testing.T) {
	c := mustParse(t, staged)
	stages := c.Settled()
	if len(stages) != 2 {
		t.Fatalf("%d stages, want 2", len(stages))
	}
	sft, rl := stages[0], stages[1]
	if sft.Name != "rft/warmup" || rl.Name != "rft/rl" || sft.CheckpointJobDir != filepath.Join("ckpt", "Trinity-RFT", "rft", "warmup") {
		t.Error(sft.Name, rl.Name, sft.CheckpointJobDir)
	}
	if sft.Mode != "train" || sft.Buffer.TrainBatchSize != 16 || sft.Buffer.BatchSize != 4 {
		t.Error("the keys of a stage lie over the file's", sft.Buffer)
	}
	if rl.Mode != "both" || rl.Buffer.BatchSize != 4 || rl.Trainer.SaveHfCheckpoint != "last" || rl.Trainer.GradClip != 0.3 ||
		len(rl.Stages) != 0 {
		t.Error("a section that a stage leaves out is the file's", rl.Trainer)
	}
	if p := sft.source.Pos("buffer.train_batch_size"); p.Line != 28 {
		t.Error(p)
	}
}

func TestStageErrors(t *testing.T) {
	for _, c := range []struct{ change, to, want string }{
		{"train_batch_size: 16", "train_batch_siz: 16", `c.yaml:28:5: stages.0.buffer.train_batch_siz: unknown key; did you mean "train_batch_size"?`},
		{"train_batch_size: 16", "train_batch_size: -1", "c.yaml:28:5: stages.0.buffer.train_batch_size: is -1, must be at least 0"},
		{"        path: sft.jsonl", "        name: sft", "c.yaml:30:7: buffer.trainer_input.experience_buffer.path: sft needs a dataset"},
		{"stage_name: rl", "stage_name: warmup", "is the name of an earlier stage"},
		{"stage_name: rl", "mode: both", "has no stage_name"},
		{"stage_name: rl", "stage_name: a/b", "cannot contain /"},
	} {
		_, err := parse(t, strings.Replace(staged, c.change, c.to, 1))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.to, err, c.want)
		}
		if err != nil && strings.Count(err.Error(), "\n") > 1 {
			t.Errorf("%s: said more than once:\n%v", c.to, err)
		}
	}
}

func TestUnused(t *testing.T) {
	c := mustParse(t, base, Options{Engine: "cpu", Overrides: []string{"cluster.node_num=2", "explorer.rollout_model.tensor_parallel_size=2",
		"explorer.rollout_model.api_key=s3cret",
		"trainer.megatron.expert_model_parallel_size=2", "trainer.trainer_type=verl", "trainer.trainer_config.actor_rollout_ref.ref.x=1",
		"trainer.grad_clip=2"}})
	var keys []string
	for _, n := range c.settled[0].Unused() {
		keys = append(keys, n.Key+" = "+n.Value)
	}
	want := []string{"cluster.node_num = 2", "explorer.rollout_model.api_key = ***", "explorer.rollout_model.tensor_parallel_size = 2",
		"trainer.megatron.expert_model_parallel_size = 2", "trainer.trainer_config.actor_rollout_ref.ref.x = 1"}
	if !slices.Equal(keys, want) {
		t.Errorf("got %v", keys)
	}
}

func TestSpeculate(t *testing.T) {
	const key = "explorer.rollout_model.speculate"
	for _, value := range []string{"auto", "off", "1", "16"} {
		if cfg := mustParse(t, base, Options{Overrides: []string{key + "=" + value}}); cfg.Explorer.RolloutModel.Speculate != value {
			t.Errorf("%s was read as %q", value, cfg.Explorer.RolloutModel.Speculate)
		}
	}
	for _, value := range []string{"0", "17", "-1", "many", "1.5"} {
		_, err := parse(t, base, Options{Overrides: []string{key + "=" + value}})
		if err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "use auto, off or a number from 1 to 16") {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// An engine that declares nothing keeps no KV cache across versions.
func TestOnlyEnginesThatKeepAKVCacheMayKeepIt(t *testing.T) {
	const key = "explorer.rollout_model.kv_across_versions"
	keep := key + "=keep"
	if cfg := mustParse(t, base, Options{Overrides: []string{keep}}); cfg.Explorer.RolloutModel.KvAcrossVersions != "keep" {
		t.Error("keep was not read")
	}
	_, err := parse(t, base, Options{Overrides: []string{keep, "explorer.rollout_model.engine_type=silent"}})
	if want := `the sampler "silent" does not declare that it reads it`; err == nil || !strings.Contains(err.Error(), want) ||
		strings.Count(err.Error(), key) != 1 {
		t.Errorf("got %v, want one line with %q", err, want)
	}
	mustParse(t, base, Options{Overrides: []string{"explorer.rollout_model.engine_type=silent", key + "=recompute"}})
}

// A shared key is unused unless one of the engines that the mode opens declares that it reads it.
func TestUnusedByEngines(t *testing.T) {
	const quantization, megatron = "explorer.rollout_model.quantization", "trainer.megatron.tensor_model_parallel_size"
	for _, c := range []struct{ override, key, want string }{
		{quantization + "=int8", quantization, ""},
		{megatron + "=2", megatron, "no GPUs"},
		{megatron + "=2 trainer.trainer_type=silent", megatron, `the trainer "silent" does not declare that it reads it`},
		{megatron + "=2 mode=explore trainer.trainer_type=verl", megatron, "mode explore opens no trainer"},
		{"trainer.trainer_config.actor_rollout_ref.ref.read=1", "trainer.trainer_config.actor_rollout_ref.ref.read", ""},
	} {
		got := ""
		for _, n := range mustParse(t, base, Options{Overrides: strings.Fields(c.override)}).settled[0].Unused() {
			if n.Key == c.key {
				got = n.Reason
			}
		}
		if got != c.want {
			t.Errorf("%s: unused because %q, want %q", c.override, got, c.want)
		}
	}
}

func TestStepsInFlight(t *testing.T) {
	for _, c := range []struct {
		overrides string
		want      int
		unused    bool
	}{
		{"mode=both", 1, true},
		{"synchronizer.sync_style=trainer_driven", 1, true},
		{"synchronizer.sync_style=fully_async", 3, false},
	} {
		cfg := mustParse(t, base, Options{Overrides: []string{"explorer.max_inflight_batches=3", c.overrides}})
		unused := slices.ContainsFunc(cfg.settled[0].Unused(), func(n Note) bool { return n.Key == "explorer.max_inflight_batches" })
		if got := cfg.settled[0].Batch.StepsInFlight; got != c.want || unused != c.unused {
			t.Errorf("%s: %d steps at once, the key is unused: %v; want %d, %v", c.overrides, got, unused, c.want, c.unused)
		}
	}
}

// Every key in the table of unused keys exists, so the table cannot become outdated.
func TestUnusedKeysExist(t *testing.T) {
	known := map[string]bool{}
	for _, k := range Keys() {
		known[k.Path] = true
	}
	for _, u := range unused {
		if strings.HasPrefix(u.key, trainerConfigKey+".") || strings.HasPrefix(u.key, lossArgsKey+".") || strings.Contains(u.key, "*") {
			continue
		}
		if !known[u.key] {
			t.Error(u.key)
		}
	}
	for _, r := range refusals {
		if !known[r.key] {
			t.Error(r.key)
		}
	}
}

// An override of a section that every stage sets would have no effect.
func TestOverrideWithoutAStageThatReadsIt(t *testing.T) {
	both := "stages: [{stage_name: a, mode: both, algorithm: {algorithm_type: grpo}}, {stage_name: b, mode: both, buffer: null}]"
	for override, want := range map[string]string{
		"mode=train":                             "command line: mode: is read by no stage, because each stage sets its own value; set stages.0.mode or stages.1.mode",
		"algorithm.repeat_times=3":               "", // stage b reads it
		"buffer.batch_size=3":                    "",
		"name=x":                                 "",
		"stages.0.algorithm.repeat_times=3":      "",
		"stages.0.algorithm.optimizer.lr=1.0e-5": "",
	} {
		_, err := parse(t, base+both, Options{Overrides: []string{override}})
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: got %v, want %q", override, err, want)
		}
	}
}

// The run reads the output of the task pipeline, or warns that it reads another path.
func TestOutputThatNobodyReads(t *testing.T) {
	const pipeline = "data_processor.task_pipeline={inputs: [in.jsonl], operators: [{name: document_deduplicator}], output: {path: made/output.jsonl}}"
	for path, warnings := range map[string]int{"made/output.jsonl": 0, "./made/output.jsonl": 0, "made": 0, "other.jsonl": 1} {
		c := mustParse(t, base, Options{Overrides: []string{pipeline, "service.data_juicer.server_url=http://127.0.0.1:1",
			"buffer.explorer_input.taskset.path=" + path}})
		if len(c.Warnings) != warnings {
			t.Errorf("taskset %s: %q", path, c.Warnings)
		}
		for _, w := range c.Warnings {
			if !strings.Contains(w, "data_processor.task_pipeline.output.path: this run does not read made/output.jsonl, but other.jsonl") {
				t.Error(w)
			}
		}
	}
}
