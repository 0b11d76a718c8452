package config

import (
	"fmt"
	"strings"
)

// Trainer is the side that updates weights.
type Trainer struct {
	// Name in metrics and logs.
	Name string `yaml:"name" default:"trainer"`
	// Mode train: host:port at which explorers in other processes reach the trainer. They need the
	// token from trainer.json in the run's directory, or from TRINITY_TOKEN. Port 0 takes a free port;
	// host 0.0.0.0 listens on all addresses of the machine. Own key of Trinity-Go.
	ListenAddress string `yaml:"listen_address" default:"127.0.0.1:0"`
	// The engine that trains; `trinity check` says what `auto` stands for. A mode that does not train
	// accepts any name.
	TrainerType string `yaml:"trainer_type" default:"auto" plugin:"trainer"`
	// Arguments of that engine (`trinity explain trainer NAME`). Own key of Trinity-Go.
	TrainerArgs map[string]any `yaml:"trainer_args" args:"trainer_type"`
	// Times that a run resumes from its last checkpoint, in this process, after a worker of that engine
	// has died or has not answered a request in time. 0 ends the run, and the same command resumes it.
	// Own key of Trinity-Go.
	MaxRestarts int `yaml:"max_restarts" default:"0" range:"[0,)"`
	// How a GPU engine spreads the model over its ranks: a shard on each (fsdp2) or a copy (ddp, an own
	// value of Trinity-Go). Other names stand for these: fsdp and megatron for fsdp2, deepspeed for the one
	// that its stage of ZeRO asks for.
	TrainerStrategy string `yaml:"trainer_strategy" default:"fsdp2" enum:"fsdp|fsdp2|ddp|megatron|deepspeed"`
	// Train steps between checkpoints; 0 saves only at the end.
	SaveInterval int `yaml:"save_interval" default:"0" range:"[0,)"`
	// Log a table of samples with the metrics.
	EnablePreview bool `yaml:"enable_preview"`
	// Number of train steps, which wins over total_epochs; not set trains until the explorer or the
	// data ends. In mode train the smaller one of this and buffer.total_steps holds.
	TotalSteps *int `yaml:"total_steps" range:"[1,)"`
	// Checkpoints that the trainer also saves as Hugging Face directories.
	SaveHfCheckpoint string `yaml:"save_hf_checkpoint" default:"last" enum:"last|always|never"`
	// Largest norm of the gradient.
	GradClip float64 `yaml:"grad_clip" default:"1.0" range:"(0,)"`
	// Cut micro-batches by tokens instead of rows.
	UseDynamicBsz bool `yaml:"use_dynamic_bsz" default:"true"`
	// Pack sequences without padding.
	UseRemovePadding bool `yaml:"use_remove_padding" default:"true"`
	// Balance tokens over GPUs.
	BalanceBatch bool `yaml:"balance_batch" default:"true"`
	// Number of first steps in which only the critic learns. Upstream already trains the policy in the
	// last of them.
	CriticWarmup int `yaml:"critic_warmup" default:"0" range:"[0,)"`
	// Tokens of a micro-batch, which holds a row at least. Not set is what suits the engine: 1024 in the
	// embedded one; elsewhere 2 × model.max_model_len, at least 2048.
	MaxTokenLenPerGPU *int `yaml:"max_token_len_per_gpu" range:"[1,)"`
	// Ranks that hold the parts of each row, for sequences whose activations one does not hold: a rank has
	// 1/n of the tokens, and inside attention 1/n of the heads. A row then has n times max_token_len_per_gpu.
	UlyssesSequenceParallelSize int `yaml:"ulysses_sequence_parallel_size" default:"1" range:"[1,)"`
	// Weight micro-batches by their number of tokens.
	FixActorMicrobatchLossScale bool `yaml:"fix_actor_microbatch_loss_scale"`
	// Keep weights in host memory while they are not in use. For the policy and the critic, or for the
	// reference, fsdp_config of actor_rollout_ref.actor or .ref in trainer_config says it too.
	ParamOffload bool `yaml:"param_offload"`
	// Keep optimizer state in host memory but for a step. trainer_config has it too: see param_offload.
	OptimizerOffload bool `yaml:"optimizer_offload"`
	// Keep gradients in host memory.
	GradOffload bool `yaml:"grad_offload"`
	// FSDP2's own offloading.
	OffloadPolicy bool `yaml:"offload_policy"`
	// Which ranks of a GPU engine may save at the same time.
	SaveStrategy string `yaml:"save_strategy" default:"unrestricted" enum:"single_thread|single_process|single_node|unrestricted"`
	// Number of newest checkpoints to keep; 0 keeps all.
	MaxCheckpointsToKeep int `yaml:"max_checkpoints_to_keep" default:"0" range:"[0,)"`
	// Metric of an evaluation, such as eval/held_out/accuracy/mean@1, whose best checkpoint the run keeps,
	// whatever max_checkpoints_to_keep says, and hands on as its model. Each version that is evaluated then
	// gets a checkpoint; of those that save_interval did not ask for, only the best and the newest stay. More
	// is better, unless a word of the metric's name says otherwise, such as loss; min: or max: before the name
	// says it. Own key of Trinity-Go.
	KeepBest string `yaml:"keep_best"`
	// Evaluations in a row that may be no better than the best before the run ends early; 0 never ends it.
	// Needs keep_best. Own key of Trinity-Go.
	Patience int `yaml:"patience" default:"0" range:"[0,)"`
	// Run Python code that comes with a model; not set is model.trust_remote_code.
	TrustRemoteCode *bool    `yaml:"trust_remote_code"`
	Megatron        Megatron `yaml:"megatron"`
	// With trainer_strategy deepspeed: zero_stage (0 to 3), or the keys of a ds_config, of which
	// zero_optimization.stage and the device of offload_param and offload_optimizer are read. Own key of
	// Trinity-Go.
	Deepspeed map[string]any `yaml:"deepspeed"`
	// veRL's own tree. This version reads these keys of it. In actor_rollout_ref.actor:
	// ppo_mini_batch_size (experiences per optimizer step; left out is the whole batch), ppo_epochs
	// (passes over a batch), shuffle, and use_torch_compile (whether PyTorch compiles the layers and
	// what follows the vocabulary projection; left out, it does on GPUs). actor_rollout_ref.model.enable_gradient_checkpointing: false
	// keeps the activations of all layers; true, the default, computes activations again if memory is
	// short. In critic: optim (the keys of algorithm.optimizer, which also gives the values of keys
	// left out, but lr is 1e-5 and constant without warm-up), cliprange_value (0.5),
	// ppo_mini_batch_size and ppo_epochs (default: the actor's), and grad_clip (default: the
	// trainer's).
	TrainerConfig map[string]any `yaml:"trainer_config"`
	// Upstream removed this key: write the keys of the file under trainer_config.
	TrainerConfigPath string `yaml:"trainer_config_path"`
}

// Megatron is the parallel layout of Megatron.
type Megatron struct {
	// Ranks that divide the matrices of every layer and the vocabulary, also with trainer_strategy fsdp2,
	// which then shards the parts over the others.
	TensorModelParallelSize int `yaml:"tensor_model_parallel_size" default:"1" range:"[1,)"`
	// GPUs over which Megatron splits the stack of layers.
	PipelineModelParallelSize int `yaml:"pipeline_model_parallel_size" default:"1" range:"[1,)"`
	// Parts of the stack per pipeline GPU.
	VirtualPipelineModelParallelSize *int `yaml:"virtual_pipeline_model_parallel_size" range:"[1,)"`
	// GPUs over which Megatron distributes the experts.
	ExpertModelParallelSize int `yaml:"expert_model_parallel_size" default:"1" range:"[1,)"`
	// GPUs over which Megatron splits each expert.
	ExpertTensorParallelSize *int `yaml:"expert_tensor_parallel_size" range:"[1,)"`
	// Megatron's name of ulysses_sequence_parallel_size, which is read with each strategy.
	ContextParallelSize int `yaml:"context_parallel_size" default:"1" range:"[1,)"`
	// Split norms and dropout along the sequence.
	SequenceParallel bool `yaml:"sequence_parallel" default:"true"`
}

var unusedOfTrainer = []unusedKey{
	{"trainer.name", always("metrics and logs say trainer")},
	{"trainer.enable_preview", always("the explorer always logs samples, and monitors that show samples always get them")},
	{"trainer.listen_address", unless(func(s *Settled) bool { return s.Mode == "train" && !s.ReadsDataset },
		"no explorer of another process joins")},
	{KeepBestKey, unless(func(s *Settled) bool { return s.Trains }, "this mode trains nothing")},
	{deepSpeedKey, unless(func(s *Settled) bool { return s.Trainer.TrainerStrategy == deepSpeed }, "trainer_strategy is another one")},
	{"trainer.patience", unless(func(s *Settled) bool { return s.Trains }, "this mode trains nothing")},
	{criticKey, unless(func(s *Settled) bool { return s.Critic != nil }, noCritic)},
}

const noCritic = "no critic is trained"

// The parts of trainer.trainer_config that say what lies in host memory.
const (
	ActorTree     = "actor_rollout_ref.actor"
	ReferenceTree = "actor_rollout_ref.ref"
)

// Offload reports what a part keeps in host memory while it is not in use. trainer.param_offload and
// trainer.optimizer_offload hold for all parts.
func (t *Trainer) Offload(part string) (params, optimizer bool) {
	at := t.TrainerConfig
	for _, name := range strings.Split(part+".fsdp_config", ".") {
		at, _ = at[name].(map[string]any)
	}
	set := func(key string) bool { return fmt.Sprint(at[key]) == "true" }
	zeroParams, zeroOptimizer := t.zeroOffload()
	return t.ParamOffload || set("param_offload") || zeroParams, t.OptimizerOffload || set("optimizer_offload") || zeroOptimizer
}

// checkMiniBatch checks the keys of veRL's actor and model sections that this version reads.
func checkMiniBatch(r report, batch *Batch, trainer *Trainer) {
	for _, flag := range []struct {
		key   string
		value any
	}{{gradientCheckpointingKey, trainer.gradientCheckpointing()}, {compileKey, trainer.actor("use_torch_compile")}} {
		if _, ok := flag.value.(bool); flag.value != nil && !ok {
			r.fail(flag.key, fmt.Sprintf("is %v, must be true or false", flag.value), "")
		}
	}
	for _, key := range []string{"ppo_mini_batch_size", "ppo_epochs"} {
		v := trainer.actor(key)
		if n, ok := v.(int); v != nil && (!ok || n < 1 || n > maxCount) {
			r.fail(actorKey+"."+key, fmt.Sprintf("is %v, must be a whole number of at least 1 and at most %d", v, maxCount), "")
		}
	}
	if n, batch := batch.Mini, batch.Train; batch > 0 && n > batch {
		r.fail(actorKey+".ppo_mini_batch_size", fmt.Sprintf("is %d, more than the %d experiences of a train step", n, batch),
			"it counts experiences per optimizer step; lower it or raise buffer.train_batch_size")
	}
}

func (t *Trainer) gradientCheckpointing() any {
	tree, _ := t.TrainerConfig["actor_rollout_ref"].(map[string]any)
	model, _ := tree["model"].(map[string]any)
	return model["enable_gradient_checkpointing"]
}

// Compiled reports whether PyTorch is to compile the layers; nil leaves it to the engine.
func (t *Trainer) Compiled() *bool {
	if compiled, set := t.actor("use_torch_compile").(bool); set {
		return &compiled
	}
	return nil
}

const compileKey = actorKey + ".use_torch_compile"

const gradientCheckpointingKey = trainerConfigKey + ".actor_rollout_ref.model.enable_gradient_checkpointing"

// actor returns a value from veRL's actor section.
func (t *Trainer) actor(key string) any {
	tree, _ := t.TrainerConfig["actor_rollout_ref"].(map[string]any)
	actor, _ := tree["actor"].(map[string]any)
	return actor[key]
}
