package config

import "github.com/trinity-go/trinity"

// Buffer is the data: what is read, in which amounts, and where experiences pass from explorer to trainer.
type Buffer struct {
	// Tasks per explore step.
	BatchSize int `yaml:"batch_size" default:"1" range:"[1,)"`
	// Experiences per train step; 0 is those of batch_size × repeat_times rollouts, with all steps of each, and of what inputs of the experience pipeline add
	// to that: repeat_times for each of their groups, 1 for a demonstration. Mode train must set it. Of a dataset it
	// counts rows: with schema dpo pairs, of two sequences each; with format.packing the packed sequences.
	TrainBatchSize int `yaml:"train_batch_size" default:"0" range:"[0,)"`
	// Passes over the taskset.
	TotalEpochs int `yaml:"total_epochs" default:"1" range:"[1,)"`
	// Explore steps (train steps in mode train); wins over total_epochs.
	TotalSteps    *int          `yaml:"total_steps" range:"[1,)"`
	ExplorerInput ExplorerInput `yaml:"explorer_input"`
	TrainerInput  TrainerInput  `yaml:"trainer_input"`
	// Directory of the run's buffers.
	CacheDir string `yaml:"cache_dir" auto:"checkpoint_job_dir/buffer"`
}

// ExplorerInput is what the explorer reads.
type ExplorerInput struct {
	// The training tasks; either this or tasksets.
	Taskset *Taskset `yaml:"taskset"`
	// Several tasksets, mixed in proportion to weight: each step has tasks of several.
	Tasksets []Taskset `yaml:"tasksets"`
	// Tasksets of the evaluations.
	EvalTasksets []Taskset `yaml:"eval_tasksets"`
	// Workflow of tasksets that name none.
	DefaultWorkflowType string `yaml:"default_workflow_type" plugin:"workflow"`
	// Workflow of evaluation tasksets that name none; empty is default_workflow_type.
	DefaultEvalWorkflowType string `yaml:"default_eval_workflow_type" plugin:"workflow"`
	// Reward function of tasksets that name none; empty leaves it to the workflow.
	DefaultRewardFnType string `yaml:"default_reward_fn_type" plugin:"reward_fn"`
}

// TrainerInput is what the trainer reads.
type TrainerInput struct {
	// Where the trainer takes experiences from; left out is an in-memory queue.
	ExperienceBuffer *ExperienceBuffer `yaml:"experience_buffer"`
	// Datasets of demonstrations by name, for sample strategies that mix them into batches; their schema_type is what the strategy reads.
	AuxiliaryBuffers map[string]ExperienceBuffer `yaml:"auxiliary_buffers"`
	// Datasets by name that are measured and not trained on, where the trainer reads a dataset: with the metrics of the loss, before the first step
	// (explorer.eval_on_startup), every explorer.eval_interval train steps and at the end. Rows are of the schema that is trained on, unless schema_type
	// says otherwise: dpo measures pairs in a run of kto. Own key of Trinity-Go.
	EvalBuffers map[string]ExperienceBuffer `yaml:"eval_buffers"`
}

// Taskset is a set of tasks.
type Taskset struct {
	// Name in metrics and logs; empty is taskset_<i> or eval_taskset_<i>.
	Name string `yaml:"name"`
	// Where the rows are.
	StorageType string `yaml:"storage_type" default:"file" enum:"file|sql|queue|task_dir"`
	// File, directory, hub name or database URL.
	Path string `yaml:"path"`
	// Split of a dataset directory or hub dataset.
	Split string `yaml:"split" default:"train"`
	// Subset (configuration) of a dataset directory or hub dataset, as its README.md declares them, or else a directory in it; of a database the table, or a query. Empty is the table called name.
	SubsetName string `yaml:"subset_name"`
	// Which keys of a row mean what.
	Format Format `yaml:"format"`
	// Workflow that runs a task.
	DefaultWorkflowType string `yaml:"default_workflow_type" plugin:"workflow"`
	// Reward function of the workflow.
	DefaultRewardFnType string `yaml:"default_reward_fn_type" plugin:"reward_fn"`
	// Which of explorer.auxiliary_models teaches the rollouts of this taskset, by its name, to an algorithm that distils; empty is the first. Own key of
	// Trinity-Go.
	Teacher string `yaml:"teacher"`
	// Sampling of this taskset; what is not set is the model's.
	RolloutArgs RolloutArgs `yaml:"rollout_args"`
	// Arguments of the workflow.
	WorkflowArgs map[string]any `yaml:"workflow_args"`
	// Arguments of the reward function.
	RewardFnArgs map[string]any `yaml:"reward_fn_args"`
	// The order in which tasks are taken.
	DataSelector DataSelector `yaml:"data_selector"`
	// Deprecated name of data_selector.
	TaskSelector *DataSelector `yaml:"task_selector"`
	// Share of the tasks that this one of several tasksets gives, relative to the weights of the others; not set is its number of rows. Own key of
	// Trinity-Go.
	Weight *float64 `yaml:"weight" range:"(0,)"`
	// Rollouts per task of an evaluation; training tasks take algorithm.repeat_times.
	RepeatTimes int `yaml:"repeat_times" default:"1" range:"[1,)"`
	// Attempts to read the storage again after a failure.
	MaxRetryTimes int `yaml:"max_retry_times" default:"3" range:"[0,)"`
	// Seconds between attempts.
	MaxRetryInterval int `yaml:"max_retry_interval" default:"1" range:"[0,)"`
	// Show progress while reading.
	EnableProgressBar bool `yaml:"enable_progress_bar"`
}

// Format names the keys of a row. A key may be a dotted path into nested objects.
type Format struct {
	// Whether a row is a prompt and a response, or a list of messages.
	PromptType         string `yaml:"prompt_type" default:"messages" enum:"messages|plaintext"`
	trinity.TaskFormat `yaml:",inline"`
	// Key of the images.
	ImageKey string `yaml:"image_key"`
	// Key of the videos.
	VideoKey string `yaml:"video_key"`
	// Key of the row's own workflow name.
	WorkflowKey string `yaml:"workflow_key"`
	// Key of the row's own reward function name.
	RewardFnKey string `yaml:"reward_fn_key"`
	// Learn from every assistant turn of a conversation, not only the last.
	EnableConcatenatedMultiTurn bool `yaml:"enable_concatenated_multi_turn"`
	// Join texts, each ended by the end-of-sequence token, and cut them into sequences of
	// model.max_model_len (CPT). A text then has those before it in its sequence as its context. False makes every text a sequence of its own. Own key of Trinity-Go.
	Packing bool `yaml:"packing"`
	// Cut rows of training data that are longer than model.max_model_len; false refuses them. Own key of Trinity-Go.
	Truncate bool `yaml:"truncate"`
	// Chat template of this data; empty is the model's.
	ChatTemplate string `yaml:"chat_template"`
	// The chat template's flag of the same name.
	EnableThinking *bool `yaml:"enable_thinking"`
}

// RolloutArgs is the sampling of one taskset. What is not set is inherited from model.
type RolloutArgs struct {
	// Sampling temperature; 0 is greedy. Not set is model.temperature.
	Temperature *float64 `yaml:"temperature" range:"[0,)"`
	// Nucleus of the sampling distribution. Not set is model.top_p.
	TopP *float64 `yaml:"top_p" range:"(0,1]"`
	// Number of most likely tokens to sample from; -1 is all. Not set is model.top_k.
	TopK *int `yaml:"top_k" range:"[-1,)"`
	// How many alternative tokens to return with logprobs. Not set is model.logprobs.
	Logprobs *int `yaml:"logprobs" range:"[0,)"`
	// Longest response, in tokens; not set is model.max_response_tokens.
	MaxTokens *int `yaml:"max_tokens" range:"[1,)"`
	// Which of model.lora_configs samples, by name; base is the model without any. Empty is the one that is trained. Own key of Trinity-Go.
	Adapter string `yaml:"adapter"`
}

// DataSelector is the order in which rows are taken.
type DataSelector struct {
	// How the next rows are chosen.
	SelectorType string `yaml:"selector_type" default:"sequential" plugin:"selector"`
	// Seed of selectors that draw.
	Seed int `yaml:"seed" default:"42"`
	// Keys of a row that selectors by difficulty read.
	FeatureKeys []string `yaml:"feature_keys"`
	// Arguments of the selector.
	Kwargs map[string]any `yaml:"kwargs"`
}

// ExperienceBuffer holds what the trainer reads: rollouts on their way, or a dataset of SFT, preference or pre-training rows.
type ExperienceBuffer struct {
	// Name in metrics, logs and file names.
	Name string `yaml:"name"`
	// What holds the experiences: a queue with a log on disk, a database, or a file. Outside of mode both, a queue whose path is a database URL is
	// kept in that database.
	StorageType string `yaml:"storage_type" default:"queue" enum:"queue|file" plugin:"buffer"`
	// File, directory, hub name or database URL (sqlite:///relative.db, sqlite:////absolute.db, postgresql://user:password@host/name, mysql://…);
	// empty is a file in the run's directory.
	Path string `yaml:"path"`
	// Split of a dataset directory or hub dataset.
	Split string `yaml:"split" default:"train"`
	// Subset (configuration) of a dataset directory or hub dataset, as its README.md declares them, or else a directory in it; of a database the table, or a query. Empty is the table called name.
	SubsetName string `yaml:"subset_name"`
	// Which keys of a row mean what.
	Format Format `yaml:"format"`
	// What a row is; empty follows from the algorithm.
	SchemaType string `yaml:"schema_type" enum:"|experience|sft|dpo|kto|cpt"`
	// Groups that a queue or a database holds before the explorer waits. With replay_buffer it does not wait: groups of the lowest priority give way.
	Capacity int `yaml:"capacity" default:"10000" range:"[1,)"`
	// Experiences that a queue keeps in memory, in MiB; more than that stays in the log until its turn. Own key of Trinity-Go.
	CapacityMb int `yaml:"capacity_mb" default:"1024" range:"[1,)"`
	// Seconds that the trainer waits for a batch.
	MaxReadTimeout float64      `yaml:"max_read_timeout" default:"1800" range:"(0,)"`
	ReplayBuffer   ReplayBuffer `yaml:"replay_buffer"`
	// The order in which rows of a file are taken.
	DataSelector DataSelector `yaml:"data_selector"`
	// Deprecated name of data_selector.
	TaskSelector *DataSelector `yaml:"task_selector"`
	// Groups that an input of the experience pipeline gives each explore step, of demonstrations rows; not set is 1. Other buffers have none. Own key of
	// Trinity-Go.
	BatchSize *int `yaml:"batch_size" range:"[1,)"`
	// Passes over a file; not set is buffer.total_epochs, and for an auxiliary buffer or an input of the experience pipeline as many as there are rollouts to
	// go with.
	TotalEpochs *int `yaml:"total_epochs" range:"[1,)"`
	// Batches read from a file, of an input of the experience pipeline; wins over total_epochs.
	TotalSteps *int `yaml:"total_steps" range:"[1,)"`
	// Attempts to reach the storage again after a failure.
	MaxRetryTimes int `yaml:"max_retry_times" default:"3" range:"[0,)"`
	// Seconds between attempts.
	MaxRetryInterval int `yaml:"max_retry_interval" default:"1" range:"[0,)"`
	// Show progress while reading.
	EnableProgressBar bool `yaml:"enable_progress_bar"`
}

// ReplayBuffer reads experiences by priority, and again.
type ReplayBuffer struct {
	// Read the groups of the highest priority first, in place of the oldest.
	Enable bool `yaml:"enable"`
	// How priority falls with age and use.
	PriorityFn string `yaml:"priority_fn" default:"linear_decay" plugin:"priority_fn"`
	// Seconds before a group that was read may be read again; not set is never.
	ReuseCooldownTime *float64 `yaml:"reuse_cooldown_time" range:"[0,)"`
	// Arguments of the priority function.
	PriorityFnArgs map[string]any `yaml:"priority_fn_args" default:"{decay: 2.0}"`
}
