package tinker

import (
	"fmt"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
)

const (
	elsewhere = "the service decides it"
	noPython  = "no Python code is run"
	byBytes   = "requests are cut by model.tinker.forward_backward_chunk_bytes; the gradient does not depend on it"
	tree      = "a setting of GPU training engines"
)

// Reads implements config.SharedKeys.
func (*trainerPlugin) Reads(*config.Settled) map[string]string {
	return map[string]string{
		"trainer.trainer_config.actor_rollout_ref.model":                                   tree,
		"trainer.trainer_config.actor_rollout_ref.hybrid_engine":                           tree,
		"trainer.trainer_config.actor_rollout_ref.rollout":                                 "upstream does not use it either",
		"trainer.trainer_config.actor_rollout_ref.ref":                                     tree,
		"trainer.trainer_config.actor_rollout_ref.actor.strategy":                          tree,
		"trainer.trainer_config.actor_rollout_ref.actor.use_dynamic_bsz":                   tree,
		"trainer.trainer_config.actor_rollout_ref.actor.ppo_micro_batch_size":              tree,
		"trainer.trainer_config.actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu":      tree,
		"trainer.trainer_config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu":         tree,
		"trainer.trainer_config.actor_rollout_ref.actor.ulysses_sequence_parallel_size":    tree,
		"trainer.trainer_config.actor_rollout_ref.actor.use_torch_compile":                 tree,
		"trainer.trainer_config.actor_rollout_ref.actor.entropy_checkpointing":             tree,
		"trainer.trainer_config.actor_rollout_ref.actor.entropy_from_logits_with_chunking": tree,
		"trainer.trainer_config.actor_rollout_ref.actor.fsdp_config":                       tree,
		"trainer.trainer_config.actor_rollout_ref.actor.checkpoint":                        tree,
		"trainer.trainer_config.actor_rollout_ref.actor.megatron":                          tree,
		"trainer.trainer_config.trainer.balance_batch":                                     tree,
		"cluster":                                 elsewhere,
		"ignore_validator_suggestions":            "there is no check of GPU memory",
		"algorithm.optimizer.fused":               tree,
		"algorithm.optimizer.foreach":             tree,
		"model.trust_remote_code":                 noPython,
		"model.lora_configs.*.lora_dtype":         elsewhere,
		"trainer.trainer_strategy":                elsewhere,
		"trainer.max_restarts":                    "",
		"trainer.use_dynamic_bsz":                 byBytes,
		"trainer.use_remove_padding":              elsewhere,
		"trainer.balance_batch":                   elsewhere,
		"trainer.ulysses_sequence_parallel_size":  elsewhere,
		"trainer.fix_actor_microbatch_loss_scale": byBytes,
		"trainer.param_offload":                   elsewhere,
		"trainer.optimizer_offload":               elsewhere,
		"trainer.grad_offload":                    elsewhere,
		"trainer.offload_policy":                  elsewhere,
		"trainer.save_strategy":                   "the service saves",
		"trainer.trust_remote_code":               noPython,
		"trainer.megatron":                        elsewhere,
		"trainer.deepspeed":                       elsewhere,
	}
}

// Reads implements config.SharedKeys.
func (*samplerPlugin) Reads(*config.Settled) map[string]string {
	keys := map[string]string{
		"cluster":                                  elsewhere,
		"ignore_validator_suggestions":             "there is no check of GPU memory",
		"model.trust_remote_code":                  noPython,
		"model.fully_sharded_loras":                elsewhere,
		"model.max_cpu_loras":                      elsewhere,
		"model.lora_configs.*.lora_dtype":          elsewhere,
		"explorer.rollout_model.seed":              "each request has a seed of its own, which follows from the run's seed",
		"explorer.rollout_model.trust_remote_code": noPython,
	}
	for _, key := range []string{
		"base_urls", "api_key", "base_port", "kv_across_versions", "speculate", "tensor_parallel_size", "data_parallel_size",
		"pipeline_parallel_size", "enable_expert_parallel", "gpu_memory_utilization", "weight_sync_buffer_size", "extra_engine_args", "use_v1",
		"enforce_eager", "enable_prefix_caching", "enable_chunked_prefill", "enable_runtime_lora_updating", "dtype", "enable_log_requests",
	} {
		keys["explorer.rollout_model."+key] = elsewhere
	}
	for _, key := range []string{"synchronizer.verify", "synchronizer.verify_interval"} {
		keys[key] = "new weights stay at the service"
	}
	return keys
}

// Refuses implements config.SharedKeys: a service gives log-probabilities, and takes derivatives by them, alone.
func (*trainerPlugin) Refuses(c *config.Settled) (all []config.Refusal) {
	refuse := func(wanted bool, key, what, hint string) {
		if wanted {
			all = append(all, config.Refusal{Key: key, What: what, Hint: hint})
		}
	}
	const other = "choose another one, or trainer.trainer_type: cpu"
	refuse(c.Method.WeighsEntropy(), "algorithm.entropy_loss_fn_args.entropy_coef", "an entropy in the loss through a service",
		"leave it out: a service gives no entropies")
	refuse(c.Critic != nil, "algorithm.advantage_fn", "a critic through a service, which has no value head",
		"choose one without values, such as grpo")
	refuse(c.Method.Compares, "algorithm.policy_loss_fn", "a divergence over the whole vocabulary through a service", other)
	refuse(c.Method.Scores, "algorithm.policy_loss_fn", "a reward model trained through a service", other)
	refuse(c.Method.Needs.Entropies || c.Method.Needs.Discriminators, "algorithm.advantage_fn", "an advantage of entropies through a service",
		other)
	name := c.Algorithm.Optimizer.Spec().Type
	refuse(name != "" && name != engine.AdamW, "algorithm.optimizer.optimizer_type", fmt.Sprintf("the optimizer %s of a service", name),
		"use adamw")
	refuse(c.Model.RopeScaling != nil, "model.rope_scaling", "another rope scaling than the model's own", "")
	refuse(c.Model.RopeTheta != nil, "model.rope_theta", "another rope base than the model's own", "")
	refuse(c.Algorithm.EnableRouterReplay, "algorithm.enable_router_replay", "router replay of mixture-of-experts models", "")
	const why = "a temperature other than 1 for tokens that are trained on: a service gives log-probabilities at temperature 1"
	const hint = "leave it out; rollout_args of eval_tasksets may set it"
	for _, t := range c.Data.Tasksets {
		given := config.Value(config.Value(1, c.Explorer.RolloutModel.Temperature), t.RolloutArgs.Temperature)
		if !t.Eval && c.Explores {
			refuse(given != 1, c.Inherited(t.Key+".rollout_args", "temperature"), why, hint)
		}
	}
	return all
}

// Refuses implements config.SharedKeys.
func (*samplerPlugin) Refuses(c *config.Settled) (all []config.Refusal) {
	const model = "explorer.rollout_model"
	m := &c.Explorer.RolloutModel
	refuse := func(wanted bool, key, what string) {
		if wanted {
			what += " through a service, which has temperature, top_p and top_k"
			all = append(all, config.Refusal{Key: key, What: what, Hint: "leave it out"})
		}
	}
	refuse(config.Value(1, m.RepetitionPenalty) != 1, c.Inherited(model, "repetition_penalty"), "a repetition penalty")
	refuse(config.Value(0, m.MinResponseTokens) > 1, c.Inherited(model, "min_response_tokens"), "a shortest response")
	refuse(m.Quantization != "", model+".quantization", "another quantization")
	refuse(m.EnableReturnRoutedExperts, model+".enable_return_routed_experts", "routed experts")
	for i := range c.Explorer.AuxiliaryModels {
		key := fmt.Sprintf("explorer.auxiliary_models.%d.engine_type", i)
		refuse(c.Explorer.AuxiliaryModels[i].EngineType == "tinker", key, "an auxiliary model")
	}
	return append(all, config.ChangedSampling(c, "their log-probabilities are those of the whole distribution, not of the one that is sampled",
		"; rollout_args of eval_tasksets may set top_p and top_k")...)
}

// ScoresWhole says that log-probabilities are those of the whole distribution, whatever part of it is sampled.
func (*samplerPlugin) ScoresWhole() {}
