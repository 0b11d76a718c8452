package config

// Trainer is the update side.
type Trainer struct {
	// Name in metrics and logs.
	Name string `yaml:"name" default:"trainer"`
	// Mode train: host:port at which explorers of other processes reach the trainer, with the token that is in trainer.json of the run's directory, or in
	// TRINITY_TOKEN. Port 0 takes a free one; 0.0.0.0 is all addresses of the machine. Own key of Trinity-Go.
	ListenAddress string `yaml:"listen_address" default:"127.0.0.1:0"`
	// The engine that trains; `trinity check` says what `auto` stands for. A mode that does not train may name any.
	TrainerType string `yaml:"trainer_type" default:"auto" plugin:"trainer"`
	// Arguments of that engine (`trinity explain trainer NAME`). Own key of Trinity-Go.
	TrainerArgs map[string]any `yaml:"trainer_args"`
	// How a GPU engine spreads the model.
	TrainerStrategy string `yaml:"trainer_strategy" default:"fsdp2" enum:"fsdp|fsdp2|megatron"`
	// Train steps between checkpoints; 0 saves at the end only.
	SaveInterval int `yaml:"save_interval" default:"0" range:"[0,)"`
	// Log a table of samples with the metrics.
	EnablePreview bool `yaml:"enable_preview"`
	// Train steps; not set ends when the explorer ends or the data does.
	TotalSteps *int `yaml:"total_steps" range:"[1,)"`
	// Which checkpoints are also Hugging Face directories.
	SaveHfCheckpoint string `yaml:"save_hf_checkpoint" default:"last" enum:"last|always|never"`
	// Largest norm of the gradient.
	GradClip float64 `yaml:"grad_clip" default:"1.0" range:"(0,)"`
	// Cut micro-batches by tokens instead of rows.
	UseDynamicBsz bool `yaml:"use_dynamic_bsz" default:"true"`
	// Pack sequences without padding.
	UseRemovePadding bool `yaml:"use_remove_padding" default:"true"`
	// Balance tokens over GPUs.
	BalanceBatch bool `yaml:"balance_batch" default:"true"`
	// First steps, so many, that train the critic alone; upstream trains the policy in the last of them already.
	CriticWarmup int `yaml:"critic_warmup" default:"0" range:"[0,)"`
	// Tokens of a micro-batch; not set is 2 × model.max_model_len, at least 2048.
	MaxTokenLenPerGPU *int `yaml:"max_token_len_per_gpu" range:"[1,)"`
	// GPUs that share a sequence.
	UlyssesSequenceParallelSize int `yaml:"ulysses_sequence_parallel_size" default:"1"`
	// Weigh micro-batches by their tokens.
	FixActorMicrobatchLossScale bool `yaml:"fix_actor_microbatch_loss_scale"`
	// Keep weights in host memory.
	ParamOffload bool `yaml:"param_offload"`
	// Keep optimizer state in host memory.
	OptimizerOffload bool `yaml:"optimizer_offload"`
	// Keep gradients in host memory.
	GradOffload bool `yaml:"grad_offload"`
	// FSDP2's own offloading.
	OffloadPolicy bool `yaml:"offload_policy"`
	// Which ranks of a GPU engine may save at the same time.
	SaveStrategy string `yaml:"save_strategy" default:"unrestricted" enum:"single_thread|single_process|single_node|unrestricted"`
	// Checkpoints kept, the newest; 0 is all.
	MaxCheckpointsToKeep int `yaml:"max_checkpoints_to_keep" default:"0" range:"[0,)"`
	// Run Python code that comes with a model; not set is model.trust_remote_code.
	TrustRemoteCode *bool    `yaml:"trust_remote_code"`
	Megatron        Megatron `yaml:"megatron"`
	// veRL's own tree. This version reads actor_rollout_ref.actor.ppo_mini_batch_size (experiences per optimizer step; left out is
	// the whole batch), ppo_epochs (passes over a batch) and shuffle of it, and actor_rollout_ref.model.enable_gradient_checkpointing: false
	// keeps the activations of all layers; left out or true computes those of as many layers again as memory demands. Of critic it reads optim (the
	// keys of algorithm.optimizer, whose values are those of the keys that are left out; but lr is 1e-5, and constant without warm-up),
	// cliprange_value (0.5), ppo_mini_batch_size and ppo_epochs (those of the actor), and grad_clip (that of the trainer).
	TrainerConfig map[string]any `yaml:"trainer_config"`
	// Removed upstream: write the keys under trainer_config.
	TrainerConfigPath string `yaml:"trainer_config_path"`
}

// Megatron is the parallel layout of Megatron.
type Megatron struct {
	// GPUs that share every layer.
	TensorModelParallelSize int `yaml:"tensor_model_parallel_size" default:"1" range:"[1,)"`
	// GPUs that share the stack of layers.
	PipelineModelParallelSize int `yaml:"pipeline_model_parallel_size" default:"1" range:"[1,)"`
	// Parts of the stack per pipeline GPU.
	VirtualPipelineModelParallelSize *int `yaml:"virtual_pipeline_model_parallel_size" range:"[1,)"`
	// GPUs that share the experts.
	ExpertModelParallelSize int `yaml:"expert_model_parallel_size" default:"1" range:"[1,)"`
	// GPUs that share every expert.
	ExpertTensorParallelSize *int `yaml:"expert_tensor_parallel_size" range:"[1,)"`
	// GPUs that share a sequence.
	ContextParallelSize int `yaml:"context_parallel_size" default:"1" range:"[1,)"`
	// Split norms and dropout along the sequence.
	SequenceParallel bool `yaml:"sequence_parallel" default:"true"`
}
