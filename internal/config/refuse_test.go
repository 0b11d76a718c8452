package config

import (
	"errors"
	"strings"
	"testing"
)

// base is a valid configuration. Tests extend or change it by overrides.
const base = `mode: both
checkpoint_root_dir: ckpt
algorithm:
  algorithm_type: grpo
model:
  model_path: m
  max_prompt_tokens: 8
  max_response_tokens: 8
buffer:
  batch_size: 4
  explorer_input:
    taskset:
      name: train
      path: train.jsonl
    eval_tasksets:
    - name: eval
      path: eval.jsonl
    default_workflow_type: math_workflow
`

const offlineBase = `mode: train
algorithm:
  algorithm_type: sft
model:
  model_path: m
  max_model_len: 16
buffer:
  train_batch_size: 4
  trainer_input:
    experience_buffer:
      path: sft.jsonl
`

// Each case is one override of a valid configuration, the key of the error, and words of its text.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, override, key, words string }{
		{"batch size below 1", "buffer.batch_size=-3", "buffer.batch_size", "is -3, must be at least 1"},
		{"batch size 0", "buffer.batch_size=0", "buffer.batch_size", "must be at least 1"},
		{"no evaluations", "explorer.eval_interval=0", "explorer.eval_interval",
			"is 0, must be at least 1; to evaluate nothing, leave out buffer.explorer_input.eval_tasksets"},
		{"no evaluations, as veRL", "explorer.eval_interval=-1", "explorer.eval_interval", "must be at least 1; to evaluate nothing"},
		{"no bound of steps", "buffer.total_steps=-1", "buffer.total_steps", "is -1, must be at least 1; leave it out for no such bound"},
		{"no nucleus", "model.top_p=0", "model.top_p", "1 switches it off"},
		{"a copy of no form", "data_processor.experience_pipeline.input_save_path=copy.db",
			"data_processor.experience_pipeline.input_save_path", "let the path end in one of .jsonl"},
		{"a copy in no database", "data_processor.experience_pipeline.output_save_path=postgresql://ann:s3cret@host",
			"data_processor.experience_pipeline.output_save_path", "ann:***@host names no host, or no database"},
		{"an output of no form", "data_processor.experience_pipeline.output_save_path=copy.csv",
			"data_processor.experience_pipeline.output_save_path", "does not name a file form of experiences"},
		{"two copies of one name", "data_processor.experience_pipeline={input_save_path: a.parquet, output_save_path: a.parquet}",
			"data_processor.experience_pipeline.output_save_path", "choose another path"},
		{"a copy that is not made", "data_processor.experience_pipeline={save_input: false, input_save_path: a.jsonl}",
			"data_processor.experience_pipeline.input_save_path", "save_input is false"},
		{"negative learning rate", "algorithm.optimizer.lr=-1", "algorithm.optimizer.lr", "is -1, must be at least 0"},
		{"infinite learning rate", "algorithm.optimizer.lr=.inf", "algorithm.optimizer.lr", "is +Inf, must be finite and at least 0"},
		{"argument of an older version", "algorithm.policy_loss_fn_args={use_token_level_loss: true}",
			"algorithm.policy_loss_fn_args.use_token_level_loss", "unknown argument; use loss_agg_mode: token-mean"},
		{"negative temperature", "model.temperature=-1", "model.temperature", "at least 0"},
		{"taskset temperature", "buffer.explorer_input.taskset.rollout_args.temperature=-0.5",
			"buffer.explorer_input.taskset.rollout_args.temperature", "at least 0"},
		{"top_p 0", "model.top_p=0", "model.top_p", "more than 0 and at most 1"},
		{"top_p above 1", "model.top_p=1.5", "model.top_p", "at most 1"},
		{"beta 1", "algorithm.optimizer.betas=[0.9, 1]", "algorithm.optimizer.betas.1", "less than 1"},
		{"a schedule's share that nothing reads", "algorithm.optimizer.lr_decay_steps_ratio=0.2", "algorithm.optimizer.lr_decay_steps_ratio",
			"wsd"},
		{"a decay over nothing", "algorithm.optimizer={lr_scheduler_type: wsd, lr_decay_steps_ratio: 0}",
			"algorithm.optimizer.lr_decay_steps_ratio", "more than 0"},
		{"an argument beside the type's own", "algorithm={algorithm_type: clipping, policy_loss_fn_args: {clip_range: 0.1}}",
			"algorithm.policy_loss_fn_args", "beside clip_range_low"},
		{"optimizer", "algorithm.optimizer.optimizer_type=muno", "algorithm.optimizer.optimizer_type", `did you mean "muon"`},
		{"momentum of AdamW", "algorithm.optimizer.momentum=0.9", "algorithm.optimizer.momentum", "has no effect"},
		{"Nesterov's momentum of AdamW", "algorithm.optimizer.nesterov=true", "algorithm.optimizer.nesterov", "has no effect"},
		{"Nesterov's momentum without momentum", "algorithm.optimizer={optimizer_type: sgd, momentum: 0, nesterov: true}",
			"algorithm.optimizer.nesterov", "momentum is 0"},
		{"momentum 1", "algorithm.optimizer={optimizer_type: muon, momentum: 1}", "algorithm.optimizer.momentum", "less than 1"},
		{"betas of SGD", "algorithm.optimizer={optimizer_type: sgd, betas: [0.9, 0.95]}", "algorithm.optimizer.betas", "has no effect"},
		{"eps of SGD", "algorithm.optimizer={optimizer_type: sgd, eps: 1e-6}", "algorithm.optimizer.eps", "has no effect"},
		{"one beta", "algorithm.optimizer.betas=[0.9]", "algorithm.optimizer.betas", "Adam has two"},
		{"a queue that would block both sides", "buffer={batch_size: 8, explorer_input: {taskset: {path: p}, default_workflow_type: math_workflow}, trainer_input: {experience_buffer: {capacity: 1}}}", "buffer.trainer_input.experience_buffer.capacity", "set it to 8 or more"},
		{"a database that is none", "buffer.trainer_input.experience_buffer={storage_type: sql, path: gsm8k.db}",
			"buffer.trainer_input.experience_buffer.path", "want sqlite:///file.db"},
		{"a store of an earlier version", "buffer.trainer_input.experience_buffer={storage_type: redis, path: 'redis://h'}",
			"buffer.trainer_input.experience_buffer.storage_type", `"redis" is not a value of this key; Redis stores are gone; use queue`},
		{"tasks of no database", "buffer.explorer_input.taskset.storage_type=sql", "buffer.explorer_input.taskset.path",
			"want sqlite:///file.db"},
		{"replay from a database", "buffer.trainer_input.experience_buffer={storage_type: sql, replay_buffer: {enable: true}}",
			"buffer.trainer_input.experience_buffer.replay_buffer.enable", "set storage_type to queue"},
		{"sync interval 0", "synchronizer.sync_interval=0", "synchronizer.sync_interval", "at least 1"},
		{"a share of too few", "explorer.share=3/2", "explorer.share", "such as 2/3"},
		{"a share of nothing", "explorer.share=0/2", "explorer.share", "such as 2/3"},
		{"a variable with a =", "explorer.env_vars={A=B: 1}", "explorer.env_vars", `"A=B" is no environment variable`},
		{"a name with a slash", "explorer.name=a/b", "explorer.name", "not a plain name"},
		{"a name with a space", "explorer.name=a b", "explorer.name", "not a plain name"},
		{"an address without a port", "trainer.listen_address=foo", "trainer.listen_address", "want host:port"},
		{"an address with no port's number", "trainer.listen_address=127.0.0.1:99999", "trainer.listen_address", "want host:port"},
		{"eval interval 0", "explorer.eval_interval=0", "explorer.eval_interval", "at least 1"},
		{"repeat_times 0", "algorithm.repeat_times=0", "algorithm.repeat_times", "at least 1"},
		{"warm-up ratio above 1", "algorithm.optimizer.lr_warmup_steps_ratio=2", "algorithm.optimizer.lr_warmup_steps_ratio", "at most 1"},
		{"mode", "mode=bothe", "mode", `did you mean "both"`},
		{"aggregation", "algorithm.loss_agg_mode=token-meen", "algorithm.loss_agg_mode", `did you mean "token-mean"`},
		{"aggregation word", "algorithm.loss_agg_mode=meen", "algorithm.loss_agg_mode", "one of token-mean"},
		{"scheduler", "algorithm.optimizer.lr_scheduler_type=cosin", "algorithm.optimizer.lr_scheduler_type", `"cosine"`},
		{"storage", "buffer.explorer_input.taskset.storage_type=fil", "buffer.explorer_input.taskset.storage_type", `"file"`},
		{"an evaluation beside the steps with fixed", "explorer.eval_parallel=true", "explorer.eval_parallel", "sync_style other than fixed"},
		{"a part of the batch with fixed", "explorer.over_rollout.ratio=0.2", "explorer.over_rollout.ratio", "sync_style other than fixed"},
		{"sync style", "synchronizer.sync_style=fixd", "synchronizer.sync_style", `"fixed"`},
		{"sync method", "synchronizer.sync_method=ncl", "synchronizer.sync_method", `"nccl"`},
		{"algorithm", "algorithm.algorithm_type=grop", "algorithm.algorithm_type", `did you mean "grpo"`},
		{"advantage", "algorithm.advantage_fn=nope_nope", "algorithm.advantage_fn", "unknown advantage function"},
		{"loss argument", "algorithm.policy_loss_fn_args.clip_rang=0.1", "algorithm.policy_loss_fn_args.clip_rang", `did you mean "clip_range"`},
		{"loss argument's type", "algorithm.policy_loss_fn_args.clip_range=x", "algorithm.policy_loss_fn_args.clip_range", ""},
		{"argument of the type's own part", "algorithm.kl_loss_fn_args.kl_coeff=0.1", "algorithm.kl_loss_fn_args.kl_coeff", "kl_coef"},
		{"workflow", "buffer.explorer_input.default_workflow_type=math_worflow", "buffer.explorer_input.default_workflow_type",
			`"math_workflow"`},
		{"workflow argument", "buffer.explorer_input.taskset.workflow_args.use_bas=true", "buffer.explorer_input.taskset.workflow_args.use_bas",
			"use_base"},
		{"reward", "buffer.explorer_input.default_reward_fn_type=math_rewrd", "buffer.explorer_input.default_reward_fn_type", `"math_reward"`},
		{"operator", "data_processor.experience_pipeline.operators=[{name: rewrd_filter}]",
			"data_processor.experience_pipeline.operators.0.name", `"reward_filter"`},
		{"operator without name", "data_processor.experience_pipeline.operators=[{}]", "data_processor.experience_pipeline.operators.0",
			"no name"},
		{"selector", "buffer.explorer_input.taskset.data_selector.selector_type=shufle",
			"buffer.explorer_input.taskset.data_selector.selector_type", `"shuffle"`},
		{"selector argument", "buffer.explorer_input.taskset.data_selector.kwargs={tua: 1}",
			"buffer.explorer_input.taskset.data_selector.kwargs.tua", "tau"},
		{"monitor", "monitor.monitor_type=[console, tensorbord]", "monitor.monitor_type.1", `"tensorboard"`},
		{"monitor argument", "monitor={monitor_type: [console, jsonl], monitor_args: {consol: {}}}", "monitor.monitor_args.consol",
			"not one of the monitors"},
		{"section of one monitor", "monitor={monitor_type: tensorboard, monitor_args: {tensorboard: {}}}",
			"monitor.monitor_args.tensorboard", "monitor_args itself takes the arguments of tensorboard"},

		{"groups of one", "algorithm.repeat_times=1", "algorithm.repeat_times", "is 1, but advantage_fn grpo compares the rollouts of a task"},
		{"a penalty on rewards of whole responses", "algorithm.kl_penalty_fn=k1", "algorithm.kl_penalty_fn", "use kl_loss_fn"},
		{"warm-up of no critic", "trainer.critic_warmup=3", "trainer.critic_warmup", "advantage_fn grpo reads no values"},

		{"workflow", "buffer.explorer_input.taskset.default_workflow_type=math_workflwo", "buffer.explorer_input.taskset.default_workflow_type",
			`unknown workflow "math_workflwo"; did you mean "math_workflow"?`},
		{"workflow in Python", "buffer.explorer_input.taskset.default_workflow_type=my_math_workflow",
			"buffer.explorer_input.taskset.default_workflow_type",
			`unknown workflow "my_math_workflow"; known: math_workflow, simple_workflow`},
		{"misspelt key", "algorithm.repeat_tims=4", "algorithm.repeat_tims", `did you mean "repeat_times"`},
		{"key of another section", "buffer.lr=1", "buffer.lr", "it belongs at algorithm.optimizer.lr"},
		{"key that upstream computes", "explorer.rollout_model.gpu_per_engine=2", "explorer.rollout_model.gpu_per_engine", "it is computed"},
		{"output that upstream computes", "data_processor.experience_pipeline.output={}", "data_processor.experience_pipeline.output",
			"it is computed"},
		{"key at the top of several sections", "total_steps=3", "total_steps", "it belongs at buffer.total_steps or trainer.total_steps"},
		{"nothing near", "explorer.rollout_model.gpu_per_node=2", "explorer.rollout_model.gpu_per_node", "it belongs at cluster.gpu_per_node"},
		{"nothing near at all", "explorer.rollout_model.warp_drive=2", "explorer.rollout_model.warp_drive", "known here: "},
		{"key of the section around", "buffer.explorer_input.taskset.total_epochs=2", "buffer.explorer_input.taskset.total_epochs",
			"it belongs at buffer.total_epochs"},
		{"key of an older version", "trainer.eval_interval=5", "trainer.eval_interval", "use explorer.eval_interval"},
		{"computed key", "checkpoint_job_dir=x", "checkpoint_job_dir", "is computed"},
		{"text for a number", "buffer.batch_size=many", "buffer.batch_size", "wants a whole number"},
		{"fraction for a whole number", "buffer.batch_size=1.5", "buffer.batch_size", "wants a whole number"},
		{"exponent for a whole number", "buffer.batch_size=1e1", "buffer.batch_size", "write 10"},
		{"not a number", "model.temperature=.nan", "model.temperature", "wants a number"},
		{"list for a number", "buffer.batch_size=[1]", "buffer.batch_size", "got a list"},
		{"value for a section", "model.init=5", "model.init", "wants keys below it"},
		{"value for a list", "algorithm.optimizer.betas=5", "algorithm.optimizer.betas", "wants a list"},
		{"removed trainer_config_path", "trainer.trainer_config_path=x.yaml", "trainer.trainer_config_path", "was removed"},

		{"no model", "model.model_path=", "model.model_path", "no model is given"},
		{"no length", "model={model_path: m}", "model", "set model.max_model_len"},
		{"lengths that do not fit", "model.max_model_len=10", "model.max_model_len", "less than max_prompt_tokens 8 + max_response_tokens 8"},
		{"response as long as all", "model={model_path: m, max_model_len: 8, max_response_tokens: 8}", "model.max_response_tokens",
			"leaves no tokens"},
		{"shortest above longest", "model.min_response_tokens=9", "model.min_response_tokens", "longest response of 8"},
		{"tokens above the model's", "buffer.explorer_input.taskset.rollout_args.max_tokens=99",
			"buffer.explorer_input.taskset.rollout_args.max_tokens", "max_model_len 16"},
		{"no taskset", "buffer.explorer_input={}", "buffer.explorer_input", "needs tasks"},
		{"two ways of tasksets", "buffer.explorer_input.tasksets=[{path: p}]", "buffer.explorer_input.tasksets", "one of the two"},
		{"weight of nothing", "buffer.explorer_input={tasksets: [{path: a, weight: 0}, {path: b}], default_workflow_type: math_workflow}",
			"buffer.explorer_input.tasksets.0.weight", "0"},
		{"tasksets of one name", "buffer.explorer_input={tasksets: [{path: a, name: x}, {path: b, name: x}], default_workflow_type: math_workflow}", "buffer.explorer_input.tasksets.1.name", "also the name"},
		{"a curriculum without rewards", "buffer.trainer_input.experience_buffer.data_selector.selector_type=diff_based",
			"buffer.trainer_input.experience_buffer.data_selector.selector_type", "learns from rewards"},
		{"no path", "buffer.explorer_input.taskset.path=", "buffer.explorer_input.taskset.path", "no path"},
		{"no workflow", "buffer.explorer_input.default_workflow_type=", "buffer.explorer_input.taskset", "no workflow"},
		{"no reward", "buffer.explorer_input.default_workflow_type=simple_workflow", "buffer.explorer_input.taskset", "needs a reward function"},
		{"name outside the root", "name=../../x", "name", "outside checkpoint_root_dir"},
		{"a NUL in a name", `name="a\0b"`, "name", `"a\x00b" has characters that cannot be printed`},
		{"an escape in a project", `project="\e[2J"`, "project", `"\x1b[2J" has characters that cannot be printed`},
		{"a newline in a group", `group="a\nb"`, "group", `"a\nb" has characters that cannot be printed`},
		{"a newline in an explorer", `explorer.name="a\nb"`, "explorer.name", `"a\nb" is not a plain name`},
		{"a newline in a taskset", `buffer.explorer_input.taskset.name="a\nb"`, "buffer.explorer_input.taskset.name",
			`"a\nb" has characters that cannot be printed`},
		{"a newline in a stage", `stages=[{stage_name: "a\nb"}]`, "stages.0.stage_name", `"a\nb" has characters that cannot be printed`},
		{"a newline in a buffer", `buffer.trainer_input.auxiliary_buffers={"a\nb": {path: x}}`,
			"buffer.trainer_input.auxiliary_buffers", "has characters that cannot be printed"},
		{"a long name", "name=" + strings.Repeat("n", 300), "name", "has 300 bytes: want at most 128"},
		{"a long project", "project=" + strings.Repeat("é", 65), "project", "has 130 bytes: want at most 128"},
		{"a long group", "group=" + strings.Repeat("n", 129), "group", "has 129 bytes"},
		{"a long name of an explorer", "explorer.name=" + strings.Repeat("n", 300), "explorer.name", "has 300 bytes"},
		{"a long name of a taskset", "buffer.explorer_input.taskset.name=" + strings.Repeat("n", 300),
			"buffer.explorer_input.taskset.name", "has 300 bytes"},
		{"a long name of a stage", "stages=[{stage_name: " + strings.Repeat("n", 300) + "}]", "stages.0.stage_name", "has 300 bytes"},
		{"a long name of a buffer", "buffer.trainer_input.experience_buffer.name=" + strings.Repeat("n", 300),
			"buffer.trainer_input.experience_buffer.name", "has 300 bytes"},
		{"empty name", "name=''", "name", "is empty"},
		{"an override of nonsense", "{}=", "{}", "unknown key"},
		{"mini-batch above the batch", "trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=9",
			actorKey + ".ppo_mini_batch_size", "more than the 8"},
		{"gradient checkpointing that is no flag", "trainer.trainer_config.actor_rollout_ref.model.enable_gradient_checkpointing=sometimes",
			gradientCheckpointingKey, "true or false"},
		{"compilation that is no flag", "trainer.trainer_config.actor_rollout_ref.actor.use_torch_compile=1", compileKey, "true or false"},
		{"mini-batch that is no number", "trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=many",
			actorKey + ".ppo_mini_batch_size", "whole number"},
		{"no passes", "trainer.trainer_config.actor_rollout_ref.actor.ppo_epochs=0", actorKey + ".ppo_epochs", "at least 1"},
		{"two adapters to train", "model.lora_configs=[{}, {}]", "model.lora_configs.1", "the adapter has no name"},
		{"a named adapter from nowhere", "model.lora_configs=[{}, {name: a}]", "model.lora_configs.1", "only the first adapter is trained"},
		{"two adapters of one name", "model.lora_configs=[{name: a}, {name: a, path: p}]", "model.lora_configs.1.name",
			"also the name of model.lora_configs.0"},
		{"an adapter called base", "model.lora_configs=[{name: base}]", "model.lora_configs.0.name", "the model without adapters"},
		{"adapter without adapters", "buffer.explorer_input.taskset.rollout_args.adapter=base",
			"buffer.explorer_input.taskset.rollout_args.adapter", "list adapters in model.lora_configs"},
		{"offline algorithm that explores", "algorithm.algorithm_type=sft", "algorithm.algorithm_type", "set mode: train"},
		{"mode train without a batch", "mode=train", "buffer.train_batch_size", "mode train needs"},
		{"schema of another algorithm", "buffer.trainer_input.experience_buffer.schema_type=dpo",
			"buffer.trainer_input.experience_buffer.schema_type", `trains on "experience"`},
	} {
		t.Run(c.name, func(t *testing.T) { expectError(t, base, c.override, c.key, c.words, false) })
	}
}

// Load refuses each value that is valid but not in this version, by name and at its key.
func TestUnsupported(t *testing.T) {
	for _, c := range []struct{ override, key, words string }{
		{"buffer.explorer_input.taskset.workflow_args={reward_fn_type: openjudge_reward}",
			"buffer.explorer_input.taskset.default_reward_fn_type", `the reward function "openjudge_reward" is not built into this version`},
		{"buffer.explorer_input.taskset.default_reward_fn_type=math_boxed_reward_naive_dapo",
			"buffer.explorer_input.taskset.default_reward_fn_type", "is not built into this version; use math_dapo_reward"},
		{"trainer.trainer_type=tinker", "trainer.trainer_type", `the trainer "tinker" is not built into this version; run with --engine cpu`},
		{"trainer.trainer_type=tinker", "trainer.trainer_type", `the trainer "tinker" is not built`},
		{"explorer.rollout_model.engine_type=vllm", "explorer.rollout_model.engine_type", "--engine cpu"},
		{"model.tinker.enable=true", "trainer.trainer_type", `the trainer "tinker" is not built`},
		{"model.external_model={enable: true, model_name: m}", "explorer.rollout_model.engine_type", `the sampler "external" is not built`},
		{"explorer.rollout_model.external_model_config={enable: true, model_name: m}", "explorer.rollout_model.engine_type", `"external" is not`},
		{"model.rope_theta=3", "model.rope_theta", "another rope base"}, // as the engine says
		{"explorer.auxiliary_models=[{name: j, model_path: j, engine_type: vllm}]", "explorer.auxiliary_models.0.engine_type", "or external"},
		{"explorer.rollout_model.enable_multimodal=true", "explorer.rollout_model.enable_multimodal", "image"},
		{"explorer.rollout_model.max_model_len=9", "explorer.rollout_model.max_model_len", "set model.max_model_len"},
		{"buffer.explorer_input.taskset.format.image_key=i", "buffer.explorer_input.taskset.format.image_key", "image"},
		{"data_processor.experience_pipeline.operators=[{name: reward_filter}]", "data_processor.experience_pipeline.operators.0.name",
			"reward_filter"},
		{"cod.packing_strategy=ralph_full", "cod.packing_strategy", "packs that repeat one task"},
		{"cod.cod_workflow_args={enable_teacher_logprobs: true}", "cod.cod_workflow_args", "key teacher"},
		{"algorithm.algorithm_type=ppo", "algorithm.algorithm_type", `"ppo" is not built`},
		{"buffer.explorer_input.taskset.default_workflow_type=alfworld_workflow", "buffer.explorer_input.taskset.default_workflow_type",
			"alfworld_workflow"},
		{"buffer.explorer_input.taskset.default_workflow_type=agentscope_workflow_adapter_v1",
			"buffer.explorer_input.taskset.default_workflow_type",
			`is not built into this version; write python: before the name if trinity-rft is installed`},
		{"buffer.explorer_input.taskset.default_workflow_type=my.module.Flow", "buffer.explorer_input.taskset.default_workflow_type",
			`"my.module.Flow" is no workflow of this program, which has no plug-in for Python ones`},
		{"buffer.explorer_input.taskset.default_workflow_type=examples.learn_to_ask.workflow.workflow_learn2ask.Learn2AskWorkflow",
			"buffer.explorer_input.taskset.default_workflow_type", "Python ones; use learn2ask_workflow, with the same arguments"},
		{"buffer.explorer_input.taskset.default_reward_fn_type=openjudge_reward", "buffer.explorer_input.taskset.default_reward_fn_type",
			`the reward function "openjudge_reward" is not built into this version`},
		{"buffer.explorer_input.taskset.default_reward_fn_type=my.Reward", "buffer.explorer_input.taskset.default_reward_fn_type",
			`"my.Reward" is no reward function of this program`},
		{"algorithm.sample_strategy=my.MyStrategy", "algorithm.sample_strategy", "python: my.MyStrategy: sample strategies read buffers " +
			"themselves, which this version does not offer to Python; use staleness_control or mix"},
		{"monitor.monitor_type=wandb", "monitor.monitor_type", `the monitor "wandb" is not built into this version; use one or several of`},
		{"monitor.detailed_stats=true", "monitor.detailed_stats", "every single task"},
		{"trainer.trainer_config.actor_rollout_ref.actor.optim.num_cycles=1", actorKey + ".optim.num_cycles", "use algorithm.optimizer"},
	} {
		t.Run(c.override, func(t *testing.T) { expectError(t, base, c.override, c.key, c.words, true) })
	}
	_, err := parse(t, base, Options{Engine: "torch"})
	if err == nil || !strings.Contains(err.Error(), `the engine "torch" is not built`) {
		t.Error(err)
	}
}

func TestRolloutCorrectionRules(t *testing.T) {
	const key = "algorithm.rollout_correction"
	for _, c := range []struct{ value, key, words string }{
		{"{rollout_is: token}", key + ".rollout_is", "bypass_mode: false"},
		{"{rollout_rs: token, rollout_rs_threshold: 2}", key + ".rollout_rs", "bypass_mode: false"},
		{"{bypass_mode: false, rollout_is: tokens}", key + ".rollout_is", `did you mean "token"`},
		{"{bypass_mode: false, rollout_is_threshold: 0}", key + ".rollout_is_threshold", "more than 0"},
		{"{bypass_mode: false, rollout_is_batch_normalize: true}", key + ".rollout_is_batch_normalize", "set rollout_is"},
		{"{bypass_mode: false, rollout_rs: geometric}", key + ".rollout_rs", "set rollout_rs_threshold"},
		{"{bypass_mode: false, rollout_rs: token, rollout_rs_threshold: 0.5}", key + ".rollout_rs_threshold", "at least 1"},
		{"{bypass_mode: false, rollout_rs_threshold: 2}", key + ".rollout_rs_threshold", "set rollout_rs"},
		{"{bypass_mode: false, rollout_rs_threshold_lower: 0.5}", key + ".rollout_rs_threshold_lower", "set rollout_rs"},
		{"{bypass_mode: false, rollout_token_veto_threshold: 0.1}", key + ".rollout_token_veto_threshold", "unknown"},
	} {
		t.Run(c.value, func(t *testing.T) { expectError(t, base, key+"="+c.value, c.key, c.words, false) })
	}
	expectError(t, offlineBase, key+"={bypass_mode: false}", key+".bypass_mode", "no policy sampled", false)
	expectError(t, offlineBase, "algorithm.bypass_old_logprobs=false", "algorithm.bypass_old_logprobs", "no policy sampled", false)
	for override, want := range map[string]bool{key + "={bypass_mode: false}": true, "algorithm.bypass_old_logprobs=false": true,
		key + "={}": false} {
		if got := mustParse(t, base, Options{Overrides: []string{override}}).settled[0].Method.Recomputes; got != want {
			t.Errorf("%s: recomputes %t", override, got)
		}
	}
	if _, err := parse(t, base, Options{Overrides: []string{"algorithm.bypass_old_logprobs=false",
		key + "={bypass_mode: true}"}}); err == nil {
		t.Error("two keys that contradict each other were accepted")
	}
	expectError(t, base, "explorer.rollout_model.quantization=int4", "explorer.rollout_model.quantization", `did you mean "int8"`, false)
}

func TestRefusedOffline(t *testing.T) {
	for _, c := range []struct{ override, key, words string }{
		{"buffer.train_batch_size=0", "buffer.train_batch_size", "mode train needs"},
		{"buffer.trainer_input.experience_buffer.path=", "buffer.trainer_input.experience_buffer.path", "needs a dataset"},
		{"buffer.trainer_input.experience_buffer.storage_type=queue", "buffer.trainer_input.experience_buffer.storage_type", "not a queue"},
		{"buffer.trainer_input.experience_buffer.data_selector.kwargs={tua: 1}",
			"buffer.trainer_input.experience_buffer.data_selector.kwargs.tua", "tau"},
		{"algorithm.advantage_fn_args={a: 1}", "algorithm.advantage_fn_args", "has no advantage_fn"},
		{"algorithm.advantage_fn=grpo", "algorithm.advantage_fn", "has no rewards"},
	} {
		t.Run(c.override, func(t *testing.T) { expectError(t, offlineBase, c.override, c.key, c.words, false) })
	}
	mustParse(t, offlineBase)
}

func expectError(t *testing.T, text, override, key, words string, unsupported bool) {
	t.Helper()
	_, err := parse(t, text, Options{Overrides: []string{override}})
	var errs Errors
	if !errors.As(err, &errs) {
		t.Fatalf("%s: want an error, got %v", override, err)
	}
	for _, e := range errs {
		if e.Key == key && strings.Contains(e.Error(), words) && e.Unsupported == unsupported {
			return
		}
	}
	t.Errorf("%s: no error at %s with %q (unsupported %v):\n%v", override, key, words, unsupported, err)
}

// Load returns all errors at once, each with its line, in file order.
func TestAllErrorsAtOnce(t *testing.T) {
	text := strings.Replace(base, "batch_size: 4", "batch_size: -3\n  batchsize: 3", 1)
	text = strings.Replace(text, "model_path: m", "model_path: m\n  temperature: hot", 1)
	text += "algoritm: {}\nsynchronizer:\n  sync_interval: 0\n"
	_, err := parse(t, text)
	want := `c.yaml:7:3: model.temperature: wants a number, got "hot"
c.yaml:11:3: buffer.batch_size: is -3, must be at least 1
c.yaml:12:3: buffer.batchsize: unknown key; did you mean "batch_size"?
c.yaml:21:1: algoritm: unknown key; did you mean "algorithm"?
c.yaml:23:3: synchronizer.sync_interval: is 0, must be at least 1`
	// the position of a wrong type is that of its value
	want = strings.Replace(want, "7:3", "7:16", 1)
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestNotYAML(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a: [1, 2", "c.yaml:"},
		{"- 1", "a configuration is a mapping"},
		{"model: {model_path: a}\nmodel: {}", "c.yaml:2:1: model: is written twice, first at line 1"},
		{"a: &x [*x]", "contains itself"},
		{"? [1]\n: 2", "a key must be plain text"},
	} {
		_, err := parse(t, c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
}

// What Trinity-RFT's keys of its API ask for is there without them, or another key asks for it.
func TestKeysOfTheAPI(t *testing.T) {
	c := mustParse(t, base, Options{Overrides: []string{"explorer.rollout_model={enable_history: true, enable_openai_api: true}"}})
	plan, err := c.Plan(Facts{Model: tiny})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"enable_history = true (command line): what a rollout samples is always recorded",
		"enable_openai_api = true (command line): a workflow whose rollouts a program makes opens the API for it"} {
		if got := plan.String(); !strings.Contains(got, want) {
			t.Errorf("the plan lacks %q:\n%s", want, got)
		}
	}
	_, err = Parse("c.yaml", []byte(base), Options{Overrides: []string{"mode=serve", "explorer.db_url=sqlite:///a.db"}})
	if err == nil || !strings.Contains(err.Error(), "explorer.db_url") || !strings.Contains(err.Error(), "set explorer.pending_expiry") {
		t.Errorf("error %v", err)
	}
}
