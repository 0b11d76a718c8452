package config

import (
	"slices"
	"strings"
)

// tinkerEngine is the name of the engines that model.tinker.enable sets, and serverLossKL the KL term of trinity_ppo. external is
// the engine_type of a model behind an API of text.
const (
	external     = "external"
	tinkerEngine = "tinker"
	serverLossKL = "k2"
)

// engineAliases are deprecated names of engines.
var engineAliases = map[string]string{"vllm_async": "vllm"}

// selectorAliases are deprecated names of selectors.
var selectorAliases = map[string]string{"diff_based": "difficulty_based"}

// upstreamSyncMethods are the values of synchronizer.sync_method for which mode and engines decide
// how weights travel.
var upstreamSyncMethods = []string{"nccl", "hccl", "checkpoint", "memory"}

// upstream lists the plug-ins of Trinity-RFT (0.6.0 and newer) by kind. A name that upstream has
// and this program lacks is "not built into this version"; any other name is unknown.
var upstream = map[string][]string{
	"trainer": {"verl", "tinker"},
	"sampler": {"vllm", "vllm_async", "sglang", "tinker", "external"},
	"algorithm": {"ppo", "grpo", "grpo_verl", "dapo", "reinforceplusplus", "rloo", "opmd", "asymre", "topr", "cispo", "gspo",
		"sapo", "sppo", "rec", "m2po", "mix", "mix_chord", "raft", "multi_step_grpo", "gigpo", "on_policy_distill", "jsd", "sft",
		"cpt", "dpo"},
	"advantage_fn": {"ppo", "grpo", "grpo_verl", "step_wise_grpo", "gigpo", "reinforceplusplus", "reinforce", "rloo", "remax",
		"opmd", "opmd_verl", "asymre", "asymre_verl", "rec", "on_policy_distill", "jsd", "clipb", "clipv", "cod"},
	"policy_loss_fn": {"ppo", "gspo", "cispo", "sapo", "topr", "opmd", "sppo", "importance_sampling", "m2po", "rec", "sft",
		"sft_is", "sft_phi", "dpo", "mix", "mix_chord"},
	"kl_fn":           {"none", "k1", "k2", "k3", "low_var_kl", "abs", "corrected_k3"},
	"entropy_loss_fn": {"default", "mix", "none"},
	"sample_strategy": {"default", "staleness_control", "mix"},
	"selector":        {"sequential", "shuffle", "random", "offline_easy2hard", "difficulty_based", "diff_based"},
	"monitor":         {"tensorboard", "wandb", "mlflow", "swanlab"},
	"operator": {"reward_filter", "reward_std_filter", "dapo_dynamic_sampling", "mask_response_truncated", "invalid_reward_filter",
		"reward_shaping_mapper", "pass_rate_calculator", "data_juicer", "cod_advantage_fn", "cod_overwrite_reward_with_returns"},
	"reward_fn": {"math_reward", "math_boxed_reward", "math_dapo_reward", "format_reward", "accuracy_reward", "countdown_reward",
		"openjudge_reward", "trajectory_accuracy_grader_reward", "openjudge_trajectory_accuracy_reward",
		"openjudge_multi_grader_reward", "rm_gallery_reward", "rlcr_reward", "math_boxed_reward_naive_dapo"},
	"workflow": {"simple_workflow", "async_simple_workflow", "math_workflow", "async_math_workflow", "math_boxed_workflow",
		"async_math_boxed_workflow", "math_eval_workflow", "async_math_eval_workflow", "math_rm_workflow", "async_math_rm_workflow",
		"tool_call_workflow", "toolcall_workflow", "agentscope_workflow_adapter", "agentscope_workflow_adapter_v1",
		"agentscope_react_workflow", "as_react_workflow", "agentscope_react_math_workflow", "agentscopev0_react_math_workflow",
		"agentscope_v1_react_search_workflow", "email_search_workflow", "alfworld_workflow", "step_wise_alfworld_workflow",
		"RAFT_alfworld_workflow", "RAFT_reflect_alfworld_workflow", "frozen_lake_workflow", "sciworld_workflow", "webshop_workflow",
		"intercode_sql_workflow", "sudoku_workflow", "math_ruler_workflow", "async_math_ruler_workflow",
		"math_trainable_ruler_workflow", "rubric_judge_workflow", "rubric_judge_openai_workflow", "simple_mm_workflow",
		"async_simple_mm_workflow", "on_policy_distill_workflow", "async_on_policy_distill_workflow",
		"on_policy_distill_math_workflow", "async_on_policy_distill_math_workflow", "thinking_budget_workflow",
		"cod_frozenlake_workflow", "cod_frozenlake_obscure_workflow", "cod_random_alchemy_workflow", "cod_terminal_workflow",
		"cod_learn2ask_workflow", "cod_optimalcontrol_workflow", "cod_grid_navigation_workflow", "harbor_workflow",
		"math_openjudge_workflow", "bots_math_boxed_workflow", "bots_ref_eval_collect_math_boxed_workflow",
		"bcp_simple_react_workflow", "learn2ask_workflow", "synthetic_workflow"},
}

// removed maps keys of older Trinity-RFT versions, and keys that upstream computes, to a hint.
var removed = map[string]string{
	"data":                        "removed in 0.2: use buffer.explorer_input and buffer.trainer_input",
	"algorithm.add_strategy":      "removed in 0.3: use operators under data_processor.experience_pipeline, or algorithm.advantage_fn",
	"algorithm.add_strategy_args": "removed in 0.3: use operators under data_processor.experience_pipeline, or algorithm.advantage_fn_args",
	"algorithm.mu":                "use algorithm.policy_loss_fn_args.mu",
	"buffer.max_retry_times":      "set max_retry_times of the taskset or experience buffer",
	"buffer.max_retry_interval":   "set max_retry_interval of the taskset or experience buffer",
	"buffer.read_batch_size":      "use buffer.train_batch_size, which counts experiences",
	"buffer.train_dataset":        "use buffer.trainer_input.experience_buffer",
	"buffer.expert_data_ratio":    "use algorithm.sample_strategy_args.expert_data_ratio",
	"buffer.explorer_output":      "it is computed: the experience buffer of trainer_input",
	"buffer.tokenizer_path":       "it is computed: model.model_path",

	"buffer.trainer_input.sft_warmup_dataset": "make the warm-up a stage of its own under stages",

	"data_processor.data_processor_url": "use service.data_juicer.server_url",

	"data_processor.experience_pipeline.output": "it is computed: the experience buffer of trainer_input",

	"data_processor.task_pipeline.dynamic":          "removed in 0.3",
	"data_processor.task_pipeline.input_buffers":    "use inputs, a list of files",
	"data_processor.task_pipeline.output_buffer":    "use output",
	"data_processor.task_pipeline.format":           "set format of output",
	"data_processor.task_pipeline.dj_process_desc":  "write operators",
	"data_processor.task_pipeline.agent_model_name": "write operators",
	"data_processor.task_pipeline.clean_strategy":   "write operators",

	"data_processor.task_pipeline.output.default_workflow_type":  ofTaskset,
	"data_processor.task_pipeline.output.default_reward_fn_type": ofTaskset,
	"data_processor.task_pipeline.output.repeat_times":           ofTaskset,
	"data_processor.task_pipeline.output.rollout_args":           ofTaskset,
	"data_processor.task_pipeline.output.workflow_args":          ofTaskset,
	"data_processor.task_pipeline.output.reward_fn_args":         ofTaskset,

	"explorer.engine_type":            "moved to explorer.rollout_model.engine_type",
	"explorer.engine_num":             "moved to explorer.rollout_model.engine_num",
	"explorer.tensor_parallel_size":   "moved to explorer.rollout_model.tensor_parallel_size",
	"explorer.enable_prefix_caching":  "moved to explorer.rollout_model.enable_prefix_caching",
	"explorer.enforce_eager":          "moved to explorer.rollout_model.enforce_eager",
	"explorer.dtype":                  "moved to explorer.rollout_model.dtype",
	"explorer.seed":                   "moved to explorer.rollout_model.seed",
	"explorer.gpu_memory_utilization": "moved to explorer.rollout_model.gpu_memory_utilization",
	"explorer.enable_chunked_prefill": "moved to explorer.rollout_model.enable_chunked_prefill",
	"explorer.use_v1":                 "moved to explorer.rollout_model.use_v1",
	"explorer.temperature":            "set model.temperature or rollout_args of the taskset",
	"explorer.top_p":                  "set model.top_p or rollout_args of the taskset",
	"explorer.top_k":                  "set model.top_k or rollout_args of the taskset",
	"explorer.repeat_times":           "use algorithm.repeat_times",
	"explorer.logprobs":               "set model.logprobs or rollout_args of the taskset",

	"monitor.project":        "use project at the top level",
	"monitor.name":           "use name at the top level",
	"monitor.cache_root_dir": "it is computed: checkpoint_job_dir/monitor",

	"synchronizer.sync_iteration_interval": "use synchronizer.sync_interval",
	"synchronizer.explorer_world_size":     "it is computed from the rollout GPUs",
	"synchronizer.ray_namespace":           "it is computed: ray_namespace at the top level",

	"trainer.algorithm_type":       "use algorithm.algorithm_type",
	"trainer.eval_interval":        "use explorer.eval_interval",
	"trainer.sft_warmup_iteration": "make the warm-up a stage of its own under stages",
	"trainer.sft_warmup_steps":     "make the warm-up a stage of its own under stages",
	"trainer.actor_grad_clip":      "use trainer.grad_clip",
	"trainer.dtype":                "an engine trains in the number type that it has",
	"trainer.enable_prefetch":      "only a development branch of upstream had it",
	"trainer.resume_mode":          "use continue_from_checkpoint",

	"trainer.max_actor_ckpt_to_keep":  "use trainer.max_checkpoints_to_keep",
	"trainer.max_critic_ckpt_to_keep": "use trainer.max_checkpoints_to_keep",

	"cluster.total_gpu_num":            "it is computed from node_num and gpu_per_node",
	"cluster.rollout_gpu_num":          "it is computed from the rollout engines",
	"cluster.auxiliary_model_gpu_num":  "it is computed from the auxiliary engines",
	"cluster.explorer_gpu_num":         "it is computed from the engines",
	"cluster.trainer_gpu_num":          "it is computed: all GPUs that the explorer leaves",
	"cluster.trainer_node_num":         "it is computed: all GPUs that the explorer leaves",
	"cluster.trainer_gpu_num_per_node": "it is computed: all GPUs that the explorer leaves",

	"model.model_name":    "use model.model_path",
	"model.tinker_config": "use model.tinker",
}

const ofTaskset = "set it at the taskset that reads the output"

// computed are the names of keys in several sections that upstream computes and overwrites.
var computed = []string{"bundle_indices", "cuda_visible_devices", "enable_lora", "engine_id", "gpu_per_engine", "index", "is_dummy",
	"is_eval", "lora_kwargs", "lora_modules", "node_rank", "ray_actor_name", "tokenizer_path"}

// removedNames maps plug-ins of older Trinity-RFT versions to a hint, by kind.
var removedNames = map[string]map[string]string{
	"sample_strategy": {
		"warmup": "make the warm-up a stage of its own under stages, and leave the key out",
		"dpo":    "algorithm_type dpo reads its pairs in order: leave the key out",
	},
}

// removedValues maps key=value, for enum values of older versions, to a hint.
var removedValues = map[string]string{
	"storage_type=redis": "Redis stores are gone; use queue, which keeps a log on disk, or sql for a table that people can query",
}

// switchedOff says what to do in place of a number that would switch something off, by the name of its key.
var switchedOff = map[string]string{
	"eval_interval": "to evaluate nothing, leave out buffer.explorer_input.eval_tasksets and buffer.trainer_input.eval_buffers; to evaluate " +
		"only before the first step and after the last, set more steps than the run has",
	"total_steps": "leave it out for no such bound", "top_p": "1 switches it off", "repetition_penalty": "1 switches it off",
}

// removedArgs maps arguments of plug-ins of older Trinity-RFT versions to a hint, by kind.
var removedArgs = map[string]map[string]string{
	"policy_loss_fn": {
		"use_token_level_loss":        "use loss_agg_mode: token-mean in place of true, seq-mean-token-mean in place of false",
		"use_token_level_loss_in_sft": "use sft_loss_agg_mode: token-mean in place of true, seq-mean-token-mean in place of false",
	},
}

const ofAgents = "write python: before the name if trinity-rft is installed, or use the workflow exec with a program that calls your " +
	"function: docs/guide/from-trinity-rft.md, \"An agent in Python\""

// substitutes says what to use in place of plug-ins that upstream or others have and this program lacks, by kind.
var substitutes = map[string]map[string]string{
	"reward_fn": {"math_boxed_reward_naive_dapo": "use math_dapo_reward, whose accuracy is 1 or −1"},
	"sampler": {"tgi": "it takes text alone, no new weights, and its repository is archived since March 2026; as judge or for bench " +
		"use " + external},
	"workflow": {
		"agentscope_workflow_adapter":                                         ofAgents,
		"agentscope_workflow_adapter_v1":                                      ofAgents,
		"examples.learn_to_ask.workflow.workflow_learn2ask.Learn2AskWorkflow": "use learn2ask_workflow, with the same arguments",
	},
}

// removedKey returns the hint for a key of an older version or one that upstream computes, "" for
// any other key. It ignores the prefix of a stage.
func removedKey(path string) string {
	if rest, ok := strings.CutPrefix(path, "stages."); ok {
		_, path, _ = strings.Cut(rest, ".")
	}
	switch hint := removed[path]; {
	case hint != "":
		return hint
	case slices.Contains(computed, lastKey(path)):
		return "it is computed: leave it out"
	case strings.HasSuffix(path, ".rollout_args.n"):
		return "use algorithm.repeat_times, or repeat_times of an evaluation taskset"
	}
	return ""
}
