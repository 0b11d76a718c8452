package cpu

import "github.com/trinity-go/trinity/internal/config"

const (
	placement = "placement on GPUs: the embedded engine uses the cores of this machine"
	gpuEngine = "a setting of GPU rollout engines"
	training  = "a setting of GPU training engines"
	noHTTP    = "the embedded engine serves no HTTP"
	noPython  = "no Python code is run"
	// No correction of training can tell the two distributions apart.
	unchanged = "their log-probabilities are those of the whole distribution, not of the one that is sampled"
)

// Reads implements config.SharedKeys.
func (trainerPlugin) Reads(*config.Settled) map[string]string {
	return map[string]string{
		"trainer.trainer_config.actor_rollout_ref.model.enable_gradient_checkpointing": "",
		"cluster":                                                                          placement,
		"ignore_validator_suggestions":                                                     "there is no GPU memory check",
		"algorithm.optimizer.fused":                                                        training,
		"algorithm.optimizer.foreach":                                                      training,
		"model.trust_remote_code":                                                          noPython,
		"model.lora_configs.*.lora_dtype":                                                  "adapters are float32",
		"trainer.trainer_strategy":                                                         placement,
		"trainer.max_restarts":                                                             "the embedded engine has no workers",
		"trainer.use_dynamic_bsz":                                                          "the embedded engine always cuts micro-batches by tokens; the gradient does not depend on it",
		"trainer.use_remove_padding":                                                       "the embedded engine never computes padding",
		"trainer.balance_batch":                                                            placement,
		"trainer.ulysses_sequence_parallel_size":                                           placement,
		"trainer.fix_actor_microbatch_loss_scale":                                          "the gradient of the embedded engine does not depend on the micro-batches",
		"trainer.param_offload":                                                            placement,
		"trainer.optimizer_offload":                                                        placement,
		"trainer.grad_offload":                                                             placement,
		"trainer.offload_policy":                                                           placement,
		"trainer.save_strategy":                                                            "one process saves",
		"trainer.trust_remote_code":                                                        noPython,
		"trainer.megatron":                                                                 placement,
		"trainer.deepspeed":                                                                placement,
		"trainer.trainer_config.critic.strategy":                                           placement,
		"trainer.trainer_config.critic.model":                                              training,
		"trainer.trainer_config.critic.use_dynamic_bsz":                                    training,
		"trainer.trainer_config.critic.ppo_micro_batch_size":                               training,
		"trainer.trainer_config.critic.ppo_micro_batch_size_per_gpu":                       training,
		"trainer.trainer_config.critic.ppo_max_token_len_per_gpu":                          training,
		"trainer.trainer_config.critic.forward_micro_batch_size":                           training,
		"trainer.trainer_config.critic.forward_micro_batch_size_per_gpu":                   training,
		"trainer.trainer_config.critic.forward_max_token_len_per_gpu":                      training,
		"trainer.trainer_config.critic.ulysses_sequence_parallel_size":                     placement,
		"trainer.trainer_config.critic.fsdp_config":                                        placement,
		"trainer.trainer_config.critic.checkpoint":                                         training,
		"trainer.trainer_config.critic.megatron":                                           placement,
		"trainer.trainer_config.actor_rollout_ref.hybrid_engine":                           placement,
		"trainer.trainer_config.actor_rollout_ref.rollout":                                 "upstream does not use it either",
		"trainer.trainer_config.actor_rollout_ref.ref":                                     training,
		"trainer.trainer_config.actor_rollout_ref.model.use_remove_padding":                training,
		"trainer.trainer_config.actor_rollout_ref.model.enable_activation_offload":         training,
		"trainer.trainer_config.actor_rollout_ref.model.use_fused_kernels":                 training,
		"trainer.trainer_config.actor_rollout_ref.model.fused_kernel_options":              training,
		"trainer.trainer_config.actor_rollout_ref.actor.strategy":                          placement,
		"trainer.trainer_config.actor_rollout_ref.actor.use_dynamic_bsz":                   training,
		"trainer.trainer_config.actor_rollout_ref.actor.ppo_micro_batch_size":              training,
		"trainer.trainer_config.actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu":      training,
		"trainer.trainer_config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu":         training,
		"trainer.trainer_config.actor_rollout_ref.actor.ulysses_sequence_parallel_size":    placement,
		"trainer.trainer_config.actor_rollout_ref.actor.use_torch_compile":                 training,
		"trainer.trainer_config.actor_rollout_ref.actor.entropy_checkpointing":             training,
		"trainer.trainer_config.actor_rollout_ref.actor.entropy_from_logits_with_chunking": training,
		"trainer.trainer_config.actor_rollout_ref.actor.fsdp_config":                       placement,
		"trainer.trainer_config.actor_rollout_ref.actor.checkpoint":                        training,
		"trainer.trainer_config.actor_rollout_ref.actor.megatron":                          placement,
		"trainer.trainer_config.trainer.balance_batch":                                     placement,
	}
}

// Reads implements config.SharedKeys.
func (samplerPlugin) Reads(*config.Settled) map[string]string {
	return map[string]string{
		"explorer.rollout_model.quantization":                 "",
		"explorer.rollout_model.kv_across_versions":           "",
		"explorer.rollout_model.speculate":                    "",
		"synchronizer.verify":                                 "new weights do not leave this process",
		"synchronizer.verify_interval":                        "new weights do not leave this process",
		"cluster":                                             placement,
		"ignore_validator_suggestions":                        "there is no GPU memory check",
		"model.trust_remote_code":                             noPython,
		"model.fully_sharded_loras":                           gpuEngine,
		"model.max_cpu_loras":                                 gpuEngine,
		"model.lora_configs.*.lora_dtype":                     "adapters are float32",
		"explorer.rollout_model.tensor_parallel_size":         placement,
		"explorer.rollout_model.data_parallel_size":           placement,
		"explorer.rollout_model.pipeline_parallel_size":       placement,
		"explorer.rollout_model.enable_expert_parallel":       placement,
		"explorer.rollout_model.gpu_memory_utilization":       placement,
		"explorer.rollout_model.weight_sync_buffer_size":      placement,
		"explorer.rollout_model.extra_engine_args":            gpuEngine,
		"explorer.rollout_model.use_v1":                       gpuEngine,
		"explorer.rollout_model.enforce_eager":                gpuEngine,
		"explorer.rollout_model.enable_prefix_caching":        "the embedded engine always shares the prompt of a group",
		"explorer.rollout_model.enable_chunked_prefill":       gpuEngine,
		"explorer.rollout_model.enable_runtime_lora_updating": gpuEngine,
		"explorer.rollout_model.dtype":                        "the embedded engine samples with the weights that it trains, or as explorer.rollout_model.quantization says",
		"explorer.rollout_model.seed":                         "sampling draws from the run's seed",
		"explorer.rollout_model.trust_remote_code":            noPython,
		"explorer.rollout_model.enable_log_requests":          noHTTP,
		"explorer.rollout_model.base_port":                    noHTTP,
	}
}

// Refuses implements config.SharedKeys.
func (trainerPlugin) Refuses(c *config.Settled) []config.Refusal {
	return rope(c)
}

// ScoresWhole says that log-probabilities are those of the whole distribution, whatever part of it is sampled.
func (samplerPlugin) ScoresWhole() {}

// Refuses implements config.SharedKeys.
func (samplerPlugin) Refuses(c *config.Settled) []config.Refusal {
	return append(rope(c), config.ChangedSampling(c, unchanged, "; rollout_args of eval_tasksets may set top_p and top_k")...)
}

// rope refuses positions other than the model's own.
func rope(c *config.Settled) (refusals []config.Refusal) {
	const hint = "write it into the model's config.json"
	if c.Model.RopeScaling != nil {
		refusals = append(refusals, config.Refusal{Key: "model.rope_scaling", What: "another rope scaling than the model's own", Hint: hint})
	}
	if c.Model.RopeTheta != nil {
		refusals = append(refusals, config.Refusal{Key: "model.rope_theta", What: "another rope base than the model's own", Hint: hint})
	}
	return refusals
}
