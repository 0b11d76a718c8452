package torch

import (
	"cmp"
	"fmt"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
)

const (
	chosen   = "PyTorch chooses the fastest form"
	noCode   = "no Python code of a model is run"
	byTokens = "micro-batches are always cut by tokens; the gradient does not depend on it"
	tree     = "veRL's engine reads it; this engine has trainer.trainer_args"
)

// Reads implements config.SharedKeys.
func (*plugin) Reads(*config.Settled) map[string]string {
	return map[string]string{
		"trainer.trainer_config.actor_rollout_ref.model.enable_gradient_checkpointing": "",
		"cluster":                                                                          "",
		"ignore_validator_suggestions":                                                     "there is no check of GPU memory",
		"algorithm.optimizer.fused":                                                        chosen,
		"algorithm.optimizer.foreach":                                                      chosen,
		"model.trust_remote_code":                                                          noCode,
		"model.lora_configs.*.lora_dtype":                                                  "adapters are float32",
		"trainer.trainer_strategy":                                                         "",
		"trainer.max_restarts":                                                             "",
		"trainer.use_dynamic_bsz":                                                          byTokens,
		"trainer.use_remove_padding":                                                       "this engine never computes padding",
		"trainer.balance_batch":                                                            "this engine always balances tokens over ranks",
		"trainer.ulysses_sequence_parallel_size":                                           "",
		"trainer.fix_actor_microbatch_loss_scale":                                          byTokens,
		"trainer.param_offload":                                                            "",
		"trainer.optimizer_offload":                                                        "",
		"trainer.grad_offload":                                                             "gradients follow the weights",
		"trainer.offload_policy":                                                           "use trainer.param_offload and optimizer_offload",
		"trainer.save_strategy":                                                            "the ranks save together",
		"trainer.trust_remote_code":                                                        noCode,
		"trainer.megatron.tensor_model_parallel_size":                                      "",
		"trainer.megatron.context_parallel_size":                                           "",
		"trainer.megatron":                                                                 tree,
		"trainer.deepspeed":                                                                "",
		"trainer.trainer_config.critic.strategy":                                           tree,
		"trainer.trainer_config.critic.model":                                              tree,
		"trainer.trainer_config.critic.use_dynamic_bsz":                                    tree,
		"trainer.trainer_config.critic.ppo_micro_batch_size":                               tree,
		"trainer.trainer_config.critic.ppo_micro_batch_size_per_gpu":                       tree,
		"trainer.trainer_config.critic.ppo_max_token_len_per_gpu":                          tree,
		"trainer.trainer_config.critic.forward_micro_batch_size":                           tree,
		"trainer.trainer_config.critic.forward_micro_batch_size_per_gpu":                   tree,
		"trainer.trainer_config.critic.forward_max_token_len_per_gpu":                      tree,
		"trainer.trainer_config.critic.ulysses_sequence_parallel_size":                     tree,
		"trainer.trainer_config.critic.fsdp_config":                                        tree,
		"trainer.trainer_config.critic.checkpoint":                                         tree,
		"trainer.trainer_config.critic.megatron":                                           tree,
		"trainer.trainer_config.actor_rollout_ref.hybrid_engine":                           tree,
		"trainer.trainer_config.actor_rollout_ref.rollout":                                 "upstream does not use it either",
		"trainer.trainer_config.actor_rollout_ref.ref":                                     tree,
		"trainer.trainer_config.actor_rollout_ref.model.use_remove_padding":                tree,
		"trainer.trainer_config.actor_rollout_ref.model.enable_activation_offload":         tree,
		"trainer.trainer_config.actor_rollout_ref.model.use_fused_kernels":                 tree,
		"trainer.trainer_config.actor_rollout_ref.model.fused_kernel_options":              tree,
		"trainer.trainer_config.actor_rollout_ref.actor.strategy":                          tree,
		"trainer.trainer_config.actor_rollout_ref.actor.use_dynamic_bsz":                   tree,
		"trainer.trainer_config.actor_rollout_ref.actor.ppo_micro_batch_size":              tree,
		"trainer.trainer_config.actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu":      tree,
		"trainer.trainer_config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu":         tree,
		"trainer.trainer_config.actor_rollout_ref.actor.ulysses_sequence_parallel_size":    tree,
		"trainer.trainer_config.actor_rollout_ref.actor.use_torch_compile":                 "",
		"trainer.trainer_config.actor_rollout_ref.actor.entropy_checkpointing":             tree,
		"trainer.trainer_config.actor_rollout_ref.actor.entropy_from_logits_with_chunking": tree,
		"trainer.trainer_config.actor_rollout_ref.actor.fsdp_config":                       tree,
		"trainer.trainer_config.actor_rollout_ref.actor.checkpoint":                        tree,
		"trainer.trainer_config.actor_rollout_ref.actor.megatron":                          tree,
		"trainer.trainer_config.trainer.balance_batch":                                     tree,
		"trainer.trainer_config.actor_rollout_ref.actor.fsdp_config.param_offload":         "",
		"trainer.trainer_config.actor_rollout_ref.actor.fsdp_config.optimizer_offload":     "",
		"trainer.trainer_config.actor_rollout_ref.ref.fsdp_config.param_offload":           "",
	}
}

// Refuses implements config.SharedKeys.
func (*plugin) Refuses(c *config.Settled) (refusals []config.Refusal) {
	refuse := func(wanted bool, key, what, hint string) {
		if wanted {
			refusals = append(refusals, config.Refusal{Key: key, What: what, Hint: hint})
		}
	}
	const inModel = "write it into the model's config.json"
	refusals = c.Trainer.RefusedStrategies()
	refuse(c.Model.RopeScaling != nil, "model.rope_scaling", "another rope scaling than the model's own", inModel)
	refuse(c.Model.RopeTheta != nil, "model.rope_theta", "another rope base than the model's own", inModel)
	name := optimizerOf(c.Algorithm.Optimizer.Spec())
	refuse(!trains(name), "algorithm.optimizer.optimizer_type", fmt.Sprintf("the optimizer %s", name),
		"use adamw or sgd, or trainer.trainer_type: cpu")
	return refusals
}

// trains reports whether this engine has an optimizer.
func trains(optimizer string) bool { return optimizer == engine.AdamW || optimizer == engine.SGD }

// optimizerOf returns the optimizer's name.
func optimizerOf(o engine.OptimizerSpec) string { return cmp.Or(o.Type, engine.AdamW) }
