package config

// Algorithm says what is optimized and how. Parts and arguments that are left out come from the algorithm type; arguments that are given
// merge over the part's defaults key by key.
type Algorithm struct {
	// Name of the algorithm type.
	AlgorithmType string `yaml:"algorithm_type" default:"ppo" plugin:"algorithm"`
	// Rollouts per task (group size); left out is the algorithm type's own.
	RepeatTimes *int      `yaml:"repeat_times" range:"[1,)"`
	Optimizer   Optimizer `yaml:"optimizer"`
	// How the trainer chooses what it reads.
	SampleStrategy string `yaml:"sample_strategy" plugin:"sample_strategy"`
	// Arguments of the sample strategy, merged over its defaults.
	SampleStrategyArgs map[string]any `yaml:"sample_strategy_args"`
	// How rewards become advantages.
	AdvantageFn string `yaml:"advantage_fn" plugin:"advantage_fn"`
	// Arguments of the advantage function, merged over its defaults.
	AdvantageFnArgs map[string]any `yaml:"advantage_fn_args"`
	// The policy loss.
	PolicyLossFn string `yaml:"policy_loss_fn" plugin:"policy_loss_fn"`
	// Arguments of the policy loss, merged over its defaults.
	PolicyLossFnArgs map[string]any `yaml:"policy_loss_fn_args"`
	// KL divergence from the reference model, taken off the reward of each token, by an advantage_fn that has such.
	KLPenaltyFn string `yaml:"kl_penalty_fn" plugin:"kl_fn"`
	// Arguments of the KL penalty, merged over its defaults.
	KLPenaltyFnArgs map[string]any `yaml:"kl_penalty_fn_args"`
	// KL divergence from the reference model, added to the loss.
	KLLossFn string `yaml:"kl_loss_fn" plugin:"kl_fn"`
	// Arguments of the KL loss, merged over its defaults.
	KLLossFnArgs map[string]any `yaml:"kl_loss_fn_args"`
	// Entropy term of the loss.
	EntropyLossFn string `yaml:"entropy_loss_fn" plugin:"entropy_loss_fn"`
	// Arguments of the entropy term, merged over its defaults.
	EntropyLossFnArgs map[string]any `yaml:"entropy_loss_fn_args"`
	// How the loss of tokens becomes the loss of a step; left out is the policy loss's own, else token-mean.
	LossAggMode string `yaml:"loss_agg_mode" enum:"|token-mean|seq-mean-token-sum|seq-mean-token-mean|seq-mean-token-sum-norm"`
	// Replay the experts that the rollout routed to (mixture-of-experts models).
	EnableRouterReplay bool `yaml:"enable_router_replay"`
	// Take the rollout's logprobs as the old logprobs; false computes them again with the training engine before the first update.
	BypassOldLogprobs bool `yaml:"bypass_old_logprobs" default:"true"`
	// Weights and rejection against the mismatch of rollout and training logprobs.
	RolloutCorrection RolloutCorrection `yaml:"rollout_correction"`
}

// RolloutCorrection weighs tokens by trainer's probability / sampler's probability of what was sampled, both before the update, and leaves
// out what is too far off.
type RolloutCorrection struct {
	// Take the rollout's logprobs as the old logprobs, so that the loss's own ratio is against the sampler; false computes the old logprobs
	// with the trainer and corrects. Not set is algorithm.bypass_old_logprobs.
	BypassMode *bool `yaml:"bypass_mode"`
	// Importance weights, factors of the policy loss: of each token, or of each sequence (the product of its tokens').
	RolloutIs string `yaml:"rollout_is" enum:"|token|sequence"`
	// Weights are cut to this from above.
	RolloutIsThreshold float64 `yaml:"rollout_is_threshold" default:"2.0" range:"(0,)"`
	// Divide the weights by their mean over the batch.
	RolloutIsBatchNormalize bool `yaml:"rollout_is_batch_normalize"`
	// Leave out what has a ratio outside the band: tokens, sequences by their product, or sequences by their geometric mean.
	RolloutRs string `yaml:"rollout_rs" enum:"|token|sequence|geometric"`
	// Upper end of the band.
	RolloutRsThreshold *float64 `yaml:"rollout_rs_threshold" range:"[1,)"`
	// Lower end of the band; not set is 1 / rollout_rs_threshold.
	RolloutRsThresholdLower *float64 `yaml:"rollout_rs_threshold_lower" range:"(0,1]"`
}

// Optimizer is how weights follow their gradient, and the learning rate over the steps of a run.
type Optimizer struct {
	// Peak learning rate; 0 trains nothing (a control run).
	LR float64 `yaml:"lr" default:"1e-6" range:"[0,)"`
	// Train steps of linear warm-up, from min_lr_ratio of lr; negative is lr_warmup_steps_ratio of all steps.
	LRWarmupSteps int `yaml:"lr_warmup_steps" default:"-1"`
	// Share of all steps that is warm-up, when lr_warmup_steps is negative.
	LRWarmupStepsRatio float64 `yaml:"lr_warmup_steps_ratio" default:"0.0" range:"[0,1]"`
	// Learning rate at the end of a cosine, linear or wsd schedule, and before warm-up, as a share of lr.
	MinLRRatio float64 `yaml:"min_lr_ratio" default:"0.01" range:"[0,1]"`
	// Deprecated name of lr_scheduler_type.
	WarmupStyle string `yaml:"warmup_style" enum:"|constant|cosine|linear"`
	// Schedule after the warm-up: it stays, falls as a cosine or in a line to the end, or (wsd: warm-up, stable, decay) stays and falls in a line
	// over the last lr_decay_steps_ratio of all steps. `linear` and `wsd` are Trinity-Go's own.
	LRSchedulerType string `yaml:"lr_scheduler_type" default:"constant" enum:"constant|cosine|linear|wsd"`
	// Share of all steps, at the end, over which wsd decays. Own key of Trinity-Go.
	LRDecayStepsRatio float64 `yaml:"lr_decay_steps_ratio" default:"0.1" range:"(0,1]"`
	// The optimizer: AdamW (of either name), AdamW that keeps its moments in 8 bits, SGD, or Muon for the matrices of the layers with AdamW for the
	// rest. `muon` is Trinity-Go's own.
	OptimizerType string `yaml:"optimizer_type" default:"adam" enum:"adam|adamw|adamw_8bit|sgd|muon"`
	// Decay of the first and second moment of AdamW; of Muon's AdamW as well.
	Betas []float64 `yaml:"betas" default:"[0.9, 0.999]" range:"[0,1)"`
	// Added to the root of AdamW's second moment. Own key of Trinity-Go.
	Eps float64 `yaml:"eps" default:"1e-8" range:"(0,)"`
	// Momentum of SGD and of Muon; 0 is none. Left out is 0.9 for SGD and 0.95 for Muon. Own key of Trinity-Go.
	Momentum *float64 `yaml:"momentum" range:"[0,1)"`
	// Nesterov's momentum, of SGD and of Muon. Left out is false for SGD and true for Muon. Own key of Trinity-Go.
	Nesterov *bool `yaml:"nesterov"`
	// Weight decay: decoupled from the gradient in AdamW and Muon, added to it in SGD, as PyTorch's optimizers do.
	WeightDecay float64 `yaml:"weight_decay" default:"0.01" range:"[0,)"`
	// Largest norm of the gradient; the same as trainer.grad_clip, of which one is enough.
	ClipGrad float64 `yaml:"clip_grad" default:"1.0" range:"(0,)"`
	// Fused kernels of PyTorch's optimizer (newest upstream).
	Fused *bool `yaml:"fused"`
	// Multi-tensor kernels of PyTorch's optimizer (newest upstream).
	Foreach *bool `yaml:"foreach"`
}
