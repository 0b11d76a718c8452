package config

// engineAliases are deprecated names of engines.
var engineAliases = map[string]string{"vllm_async": "vllm"}

// upstreamSyncMethods are the values of synchronizer.sync_method for which mode and engines decide
// how weights travel.
var upstreamSyncMethods = []string{"nccl", "hccl", "checkpoint", "memory"}

// upstream lists the plug-ins of Trinity-RFT (0.6.0 and newer) by kind. A name that upstream has
// and this program lacks is "not built into this version"; any other name is unknown.
var upstream = map[string][]string{
	"trainer": {"verl", "tinker"},
	"sampler": {"vllm", "vllm_async", "sglang", "tinker", "external"},
	"algorithm": {"ppo", "grpo", "grpo_verl", "dapo", "reinforceplusplus", "rloo", "opmd", "asymre", "topr", "cispo", "gspo", "sapo", "sppo",
		"rec",
		"m2po", "mix", "mix_chord", "raft", "multi_step_grpo", "gigpo", "on_policy_distill", "jsd", "sft", "cpt", "dpo"},
	"advantage_fn": {"ppo", "grpo", "grpo_verl", "step_wise_grpo", "gigpo", "reinforceplusplus", "reinforce", "rloo", "remax", "opmd",
		"opmd_verl",
		"asymre", "asymre_verl", "rec", "on_policy_distill", "jsd", "clipb", "clipv", "cod"},
	"policy_loss_fn": {"ppo", "gspo", "cispo", "sapo", "topr", "opmd", "sppo", "importance_sampling", "m2po", "rec", "sft", "sft_is",
		"sft_phi", "dpo",
		"mix", "mix_chord"},
	"kl_fn":           {"none", "k1", "k2", "k3", "low_var_kl", "abs", "corrected_k3"},
	"entropy_loss_fn": {"default", "mix", "none"},
	"sample_strategy": {"default", "staleness_control", "mix"},
	"selector":        {"sequential", "shuffle", "random", "offline_easy2hard", "difficulty_based", "diff_based"},
	"monitor":         {"tensorboard", "wandb", "mlflow", "swanlab"},
	"operator": {"reward_filter", "reward_std_filter", "dapo_dynamic_sampling", "mask_response_truncated", "invalid_reward_filter",
		"reward_shaping_mapper", "pass_rate_calculator", "data_juicer", "cod_advantage_fn", "cod_overwrite_reward_with_returns"},
	"reward_fn": {"math_reward", "math_boxed_reward", "math_dapo_reward", "format_reward", "accuracy_reward", "countdown_reward",
		"openjudge_reward",
		"trajectory_accuracy_grader_reward", "openjudge_trajectory_accuracy_reward", "openjudge_multi_grader_reward", "rm_gallery_reward",
		"rlcr_reward",
		"math_boxed_reward_naive_dapo"},
	"workflow": {"simple_workflow", "async_simple_workflow", "math_workflow", "async_math_workflow", "math_boxed_workflow",
		"async_math_boxed_workflow",
		"math_eval_workflow", "async_math_eval_workflow", "math_rm_workflow", "async_math_rm_workflow", "tool_call_workflow", "toolcall_workflow",
		"agentscope_workflow_adapter", "agentscope_workflow_adapter_v1", "agentscope_react_workflow", "as_react_workflow",
		"agentscope_react_math_workflow", "agentscopev0_react_math_workflow", "agentscope_v1_react_search_workflow", "email_search_workflow",
		"alfworld_workflow", "step_wise_alfworld_workflow", "RAFT_alfworld_workflow", "RAFT_reflect_alfworld_workflow", "frozen_lake_workflow",
		"sciworld_workflow", "webshop_workflow", "intercode_sql_workflow", "sudoku_workflow", "math_ruler_workflow", "async_math_ruler_workflow",
		"math_trainable_ruler_workflow", "rubric_judge_workflow", "rubric_judge_openai_workflow", "simple_mm_workflow",
		"async_simple_mm_workflow",
		"on_policy_distill_workflow", "async_on_policy_distill_workflow", "on_policy_distill_math_workflow",
		"async_on_policy_distill_math_workflow",
		"thinking_budget_workflow", "cod_frozenlake_workflow", "cod_frozenlake_obscure_workflow", "cod_random_alchemy_workflow",
		"cod_terminal_workflow",
		"cod_learn2ask_workflow", "cod_optimalcontrol_workflow", "cod_grid_navigation_workflow", "harbor_workflow", "math_openjudge_workflow",
		"bots_math_boxed_workflow", "bots_ref_eval_collect_math_boxed_workflow", "bcp_simple_react_workflow", "learn2ask_workflow",
		"synthetic_workflow"},
}
