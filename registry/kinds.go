package registry

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// The registries of the nouns in the root package. Kinds are the words of the YAML.
var (
	Algorithms = New[*trinity.Algorithm]("algorithm",
		"what is trained and how: an advantage, a loss and their needs (algorithm.algorithm_type)")
	Advantages   = New[trinity.Advantage]("advantage_fn", "how rewards of a group become per-token advantages (algorithm.advantage_fn)")
	Trainers     = New[engine.TrainerOpener]("trainer", "what trains: forward, backward, optimizer (trainer.trainer_type)")
	Samplers     = New[engine.SamplerOpener]("sampler", "what samples from the trained model (explorer.rollout_model.engine_type)")
	Workflows    = New[trinity.Workflow]("workflow", "how one rollout of a task is run (default_workflow_type)")
	Environments = New[trinity.EnvironmentOpener]("environment", "what a policy of several turns acts on (workflow_args.environment)")
	Rewards      = New[trinity.RewardFunc]("reward_fn", "how a response is scored (default_reward_fn_type)")
	Operators    = New[trinity.Operator]("operator",
		"edits of groups between explorer and buffer (data_processor.experience_pipeline.operators)")
	TaskOperators = New[trinity.TaskOperator]("task_operator", "edits of a taskset before the run (data_processor.task_pipeline.operators)")

	Buffers = New[trinity.BufferOpener]("buffer", "what carries experiences between processes (experience_buffer.storage_type)")

	SampleStrategies = New[trinity.SampleStrategy]("sample_strategy", "what the trainer reads (algorithm.sample_strategy)")
)
