package config

import (
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/registry"
)

// Buffer is the data: what a run reads, in which amounts, and where experiences pass from explorer
// to trainer.
type Buffer struct {
	// Tasks per explore step.
	BatchSize int `yaml:"batch_size" default:"1" range:"[1,)"`
	// Experiences per train step. 0 takes all experiences of one explore step: those of batch_size ×
	// repeat_times rollouts, plus repeat_times for each group and 1 for each demonstration that inputs
	// of the experience pipeline add. Mode train must set it. If the trainer reads a dataset, it
	// counts rows: pairs of two sequences with schema dpo, packed sequences with format.packing.
	TrainBatchSize int `yaml:"train_batch_size" default:"0" range:"[0,)"`
	// Passes over the taskset.
	TotalEpochs int `yaml:"total_epochs" default:"1" range:"[1,)"`
	// Explore steps (train steps in mode train). It wins over total_epochs.
	TotalSteps    *int          `yaml:"total_steps" range:"[1,)"`
	ExplorerInput ExplorerInput `yaml:"explorer_input"`
	TrainerInput  TrainerInput  `yaml:"trainer_input"`
	// Directory of the run's buffers.
	CacheDir string `yaml:"cache_dir" auto:"checkpoint_job_dir/buffer"`
}

// ExplorerInput is what the explorer reads.
type ExplorerInput struct {
	// The training tasks; set either this or tasksets.
	Taskset *Taskset `yaml:"taskset"`
	// Several tasksets. Each step mixes tasks of all of them, in proportion to weight.
	Tasksets []Taskset `yaml:"tasksets"`
	// Tasksets for evaluations.
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
	// Datasets of demonstrations by name. Sample strategies mix them into batches, and each strategy
	// sets their schema_type.
	AuxiliaryBuffers map[string]ExperienceBuffer `yaml:"auxiliary_buffers"`
	// Datasets by name that the trainer measures but does not train on, if it trains on a dataset. It
	// measures the metrics of the loss before the first step (explorer.eval_on_startup), every
	// explorer.eval_interval train steps, and at the end. schema_type is the run's own unless set; for
	// example, a run of kto can measure dpo pairs. Own key of Trinity-Go.
	EvalBuffers map[string]ExperienceBuffer `yaml:"eval_buffers"`
}

// Taskset is a set of tasks.
type Taskset struct {
	// Name in metrics and logs; empty is taskset_<i> or eval_taskset_<i>.
	Name string `yaml:"name"`
	// Where the rows are. A queue is a JSON Lines file that another process appends tasks to while the
	// run goes on: a line is a task, the line null ends the queue, and buffer.total_steps must be set.
	StorageType string `yaml:"storage_type" default:"file" enum:"file|sql|queue|task_dir"`
	// File, directory, hub name or database URL.
	Path string `yaml:"path"`
	// Split of a dataset directory or hub dataset.
	Split string `yaml:"split" default:"train"`
	// Subset of the data. For a dataset directory or hub dataset: a configuration that its README.md
	// declares, else a directory in it. For a database: a table or a query; empty is the table called
	// name.
	SubsetName string `yaml:"subset_name"`
	// Keys of a row and their meaning.
	Format Format `yaml:"format"`
	// Workflow that runs a task.
	DefaultWorkflowType string `yaml:"default_workflow_type" plugin:"workflow"`
	// Reward function of the workflow.
	DefaultRewardFnType string `yaml:"default_reward_fn_type" plugin:"reward_fn"`
	// Name of the model in explorer.auxiliary_models that teaches the rollouts of this taskset, for an
	// algorithm that distils; empty is the first model. Own key of Trinity-Go.
	Teacher string `yaml:"teacher"`
	// Sampling for this taskset. A key that is not set takes its value from explorer.rollout_model.
	RolloutArgs RolloutArgs `yaml:"rollout_args"`
	// Arguments of the workflow.
	WorkflowArgs map[string]any `yaml:"workflow_args" args:"default_workflow_type"`
	// Arguments of the reward function.
	RewardFnArgs map[string]any `yaml:"reward_fn_args" args:"default_reward_fn_type"`
	// The order in which the run takes tasks.
	DataSelector DataSelector `yaml:"data_selector"`
	// Deprecated name of data_selector.
	TaskSelector *DataSelector `yaml:"task_selector"`
	// Weight of this taskset among several: its share of the tasks is its weight divided by the sum of
	// all weights. Not set is its number of rows. Own key of Trinity-Go.
	Weight *float64 `yaml:"weight" range:"(0,)"`
	// Seconds that a step waits for the next task of a queue.
	MaxReadTimeout float64 `yaml:"max_read_timeout" default:"1800" range:"(0,)"`
	// Rollouts per task in an evaluation. Training uses algorithm.repeat_times.
	RepeatTimes int `yaml:"repeat_times" default:"1" range:"[1,)"`
	// Further attempts to read the storage after a failure.
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
	// Key of the videos.
	VideoKey string `yaml:"video_key"`
	// Key of the name of the row's own workflow; a row without one has the taskset's. It takes those of
	// workflow_args that it has.
	WorkflowKey string `yaml:"workflow_key"`
	// Key of the name of the row's own reward function; a row without one has the taskset's. It takes
	// those of reward_fn_args that it has.
	RewardFnKey string `yaml:"reward_fn_key"`
	// Learn from every assistant turn of a conversation, not only from the last. Where the chat template
	// rewrites earlier turns, each turn is a sequence of its own.
	EnableConcatenatedMultiTurn bool `yaml:"enable_concatenated_multi_turn"`
	// Join texts, end each with the end-of-sequence token, and cut them into sequences of
	// model.max_model_len (CPT). A text then has the texts before it in its sequence as context. With
	// false, every text is its own sequence. Own key of Trinity-Go.
	Packing bool `yaml:"packing"`
	// Truncate rows of training data that are longer than model.max_model_len; with false, such a row
	// is an error. Own key of Trinity-Go.
	Truncate bool `yaml:"truncate"`
	// Chat template for this data; empty is the model's.
	ChatTemplate string `yaml:"chat_template"`
	// The chat template's flag of the same name.
	EnableThinking *bool `yaml:"enable_thinking"`
}

// RolloutArgs is the sampling of one taskset. A key that is not set takes its value from
// explorer.rollout_model, and that from model.
type RolloutArgs struct {
	// Sampling temperature; 0 is greedy. Not set is explorer.rollout_model.temperature.
	Temperature *float64 `yaml:"temperature" range:"[0,)"`
	// Sample from the most likely tokens whose probabilities sum to top_p. Not set is explorer.rollout_model.top_p.
	TopP *float64 `yaml:"top_p" range:"(0,1]"`
	// Sample from this many most likely tokens; -1 is all. Not set is explorer.rollout_model.top_k.
	TopK *int `yaml:"top_k" range:"[-1,)"`
	// Number of alternative tokens to return with logprobs. Not set is explorer.rollout_model.logprobs.
	Logprobs *int `yaml:"logprobs" range:"[0,)"`
	// Longest response, in tokens; not set is explorer.rollout_model.max_response_tokens.
	MaxTokens *int `yaml:"max_tokens" range:"[1,)"`
	// Name of the adapter in model.lora_configs to sample with; `base` is the model without adapters.
	// Empty is the adapter that the run trains. Own key of Trinity-Go.
	Adapter string `yaml:"adapter"`
}

// DataSelector is the order in which a run takes rows.
type DataSelector struct {
	// How the run chooses the next rows.
	SelectorType string `yaml:"selector_type" default:"sequential" plugin:"selector"`
	// Seed of selectors that draw random numbers.
	Seed int `yaml:"seed" default:"42"`
	// Keys of a row that selectors by difficulty read.
	FeatureKeys []string `yaml:"feature_keys"`
	// Arguments of the selector.
	Kwargs map[string]any `yaml:"kwargs" args:"selector_type"`
}

// Args returns the arguments of the selector: kwargs, seed and feature_keys.
func (s *DataSelector) Args() map[string]any {
	return merged(map[string]any{"seed": s.Seed, "feature_keys": s.FeatureKeys}, s.Kwargs)
}

// ExperienceBuffer holds what the trainer reads: rollouts on their way to it, or a dataset of SFT,
// preference or pre-training rows.
type ExperienceBuffer struct {
	// Name in metrics, logs and file names.
	Name string `yaml:"name"`
	// What holds the experiences: a queue with a log on disk, a database, or a file. Except in mode
	// both, a queue whose path is a database URL is kept in that database.
	StorageType string `yaml:"storage_type" default:"queue" enum:"queue|file" plugin:"buffer"`
	// File, directory, hub name or database URL (sqlite:///relative.db, sqlite:////absolute.db,
	// postgresql://user:password@host/name, mysql://…); empty is a file in the run's directory.
	Path string `yaml:"path"`
	// Split of a dataset directory or hub dataset.
	Split string `yaml:"split" default:"train"`
	// Subset of the data. For a dataset directory or hub dataset: a configuration that its README.md
	// declares, else a directory in it. For a database: a table or a query; empty is the table called
	// name.
	SubsetName string `yaml:"subset_name"`
	// Keys of a row and their meaning.
	Format Format `yaml:"format"`
	// Kind of the rows; empty is the kind that the algorithm reads.
	SchemaType string `yaml:"schema_type" enum:"|experience|sft|dpo|kto|cpt"`
	// Groups that a queue or a database holds before the explorer waits. With replay_buffer the
	// explorer does not wait: the queue drops groups of the lowest priority.
	Capacity int `yaml:"capacity" default:"10000" range:"[1,)"`
	// Memory for the experiences of a queue, in MiB. Experiences beyond that stay in the log until
	// their turn. Own key of Trinity-Go.
	CapacityMb int `yaml:"capacity_mb" default:"1024" range:"[1,)"`
	// Seconds that the trainer waits for a batch.
	MaxReadTimeout float64      `yaml:"max_read_timeout" default:"1800" range:"(0,)"`
	ReplayBuffer   ReplayBuffer `yaml:"replay_buffer"`
	// The order in which the run takes rows of a file.
	DataSelector DataSelector `yaml:"data_selector"`
	// Deprecated name of data_selector.
	TaskSelector *DataSelector `yaml:"task_selector"`
	// Groups (for demonstrations: rows) that an input of the experience pipeline adds to each explore
	// step; not set is 1. Other buffers do not have this key. Own key of Trinity-Go.
	BatchSize *int `yaml:"batch_size" range:"[1,)"`
	// Passes over a file; not set is buffer.total_epochs. An auxiliary buffer or an input of the
	// experience pipeline is instead read again as long as there are rollouts to join.
	TotalEpochs *int `yaml:"total_epochs" range:"[1,)"`
	// For an input of the experience pipeline: batches to read from the file. It wins over
	// total_epochs.
	TotalSteps *int `yaml:"total_steps" range:"[1,)"`
	// Further attempts to reach the storage after a failure.
	MaxRetryTimes int `yaml:"max_retry_times" default:"3" range:"[0,)"`
	// Seconds between attempts.
	MaxRetryInterval int `yaml:"max_retry_interval" default:"1" range:"[0,)"`
	// Show progress while reading.
	EnableProgressBar bool `yaml:"enable_progress_bar"`
}

// ReplayBuffer reads experiences by priority, and more than once.
type ReplayBuffer struct {
	// Read the groups of the highest priority first instead of the oldest.
	Enable bool `yaml:"enable"`
	// How the priority falls with age and use.
	PriorityFn string `yaml:"priority_fn" default:"linear_decay" plugin:"priority_fn"`
	// Seconds until the trainer may read a group again; not set is never.
	ReuseCooldownTime *float64 `yaml:"reuse_cooldown_time" range:"[0,)"`
	// Arguments of the priority function.
	PriorityFnArgs map[string]any `yaml:"priority_fn_args" args:"priority_fn" default:"{decay: 2.0}"`
}

const (
	storeKey  = "buffer.trainer_input.experience_buffer"
	replayKey = storeKey + ".replay_buffer"
)

// checkStore checks that the experience buffer fits its store.
func checkStore(r report, buffer *Buffer, w Work) {
	b := buffer.TrainerInput.ExperienceBuffer
	if !w.SharedStore {
		return
	}
	if s, ok := registry.Buffers.Default(b.StorageType).(StorePlace); ok {
		if err := s.CheckPath(b.Path); err != nil {
			r.fail(storeKey+".path", err.Error(), "")
		}
	}
	if b.ReplayBuffer.Enable {
		r.fail(replayKey+".enable", "a database gives the oldest experiences first, each once", "set storage_type to queue")
	}
}

var unusedOfBuffers = []unusedKey{
	{storeKey + ".format.workflow_key", always("only rows of tasksets have workflows")},
	{storeKey + ".format.reward_fn_key", always("only rows of tasksets have reward functions")},
	{storeKey + ".path", func(s *Settled, _ string) string {
		switch {
		case s.Buffer.TrainerInput.ExperienceBuffer.StorageType != "queue":
			return ""
		case s.Trains:
			return "the queue is kept in buffer.cache_dir"
		}
		return "the trainer keeps the queue in its own buffer.cache_dir"
	}},
	{replayKey, unless(func(s *Settled) bool { return s.Buffer.TrainerInput.ExperienceBuffer.ReplayBuffer.Enable }, "replay is off")},
	{replayKey, onlyIf(trains, "only the trainer reads it")},
	{"*", withoutRetries},
}

// withoutRetries is the reason of a number of attempts to reach a storage that is no server.
func withoutRetries(s *Settled, key string) string {
	if owner, isRetry := retries(key); isRetry && !s.remote(owner) {
		return "nothing is read over a network here"
	}
	return ""
}

// retries returns the section of a key that counts or spaces attempts to reach a storage. ok is
// false for any other key, such as an argument of a plug-in.
func retries(key string) (owner string, ok bool) {
	owner, ok = strings.CutSuffix(strings.TrimSuffix(key, "_times"), ".max_retry")
	if !ok {
		owner, ok = strings.CutSuffix(key, ".max_retry_interval")
	}
	return owner, ok && (owner == pipelineKey || strings.HasPrefix(owner, "buffer.") && !strings.Contains(owner, "_args"))
}

// remote reports whether the storage of a section is a server, which may be lost and come back.
func (s *Settled) remote(owner string) bool {
	if owner == pipelineKey {
		return s.DataProcessor.copiesInDatabase()
	}
	if owner == storeKey && s.SharedStore {
		return true
	}
	for _, d := range s.Data.datasets(&s.Buffer, s.Work) {
		if d.key == owner {
			return dburl.IsURL(d.path)
		}
	}
	return false
}

// checkTables checks that the path is a database URL if the storage is a database.
func checkTables(r report, buffer *Buffer, data *Data, w Work) {
	for _, d := range data.datasets(buffer, w) {
		if !registry.Buffers.Has(d.storage) && !dburl.IsURL(d.path) {
			continue
		}
		if _, err := dburl.Parse(d.path); err != nil {
			r.fail(d.key+".path", err.Error(), "")
		}
	}
}

// checkData checks that the file gives the data that the mode needs.
func checkData(r report, algorithm *Algorithm, buffer *Buffer, w Work) {
	const batch, path = "buffer.train_batch_size", "buffer.trainer_input.experience_buffer.path"
	switch {
	case w.Offline && w.mode != "train":
		r.fail("algorithm.algorithm_type", fmt.Sprintf("%s trains on a dataset and does not roll out", algorithm.AlgorithmType),
			"set mode: train")
	case w.mode == "train" && buffer.TrainBatchSize == 0:
		r.fail(batch, "mode train needs the number of experiences per train step", "set it to 1 or more")
	}
	if w.ReadsDataset && buffer.TrainerInput.ExperienceBuffer.Path == "" {
		r.fail(path, fmt.Sprintf("%s needs a dataset", algorithm.AlgorithmType), "set the path of a file, a directory or a hub dataset")
	}
	in := buffer.ExplorerInput
	switch {
	case !w.Explores:
	case in.Taskset != nil && len(in.Tasksets) > 0:
		r.fail("buffer.explorer_input.tasksets", "taskset is set as well", "use one of the two")
	case in.Taskset == nil && len(in.Tasksets) == 0:
		r.fail("buffer.explorer_input", "mode "+w.mode+" needs tasks", "set taskset")
	}
	if w.mode == "bench" && len(in.EvalTasksets) == 0 {
		r.fail("buffer.explorer_input", "mode bench needs tasks to evaluate", "set eval_tasksets")
	}
}

// settleBuffers gives the trainer its queue, and every buffer its name and its kind of rows.
func settleBuffers(r report, algorithm *Algorithm, buffer *Buffer, method *Method, w *Work) {
	in := &buffer.TrainerInput
	if in.ExperienceBuffer == nil {
		in.ExperienceBuffer = newDefault[ExperienceBuffer]()
	}
	b := in.ExperienceBuffer
	setDefault(&b.Name, "experience_buffer")
	schema := "experience"
	if parts := method.Parts; parts != nil {
		schema = parts.Schema
	}
	if b.SchemaType != "" && b.SchemaType != schema {
		r.fail("buffer.trainer_input.experience_buffer.schema_type",
			fmt.Sprintf("is %q, but %s trains on %q", b.SchemaType, algorithm.AlgorithmType, schema),
			"leave it out")
	}
	setDefault(&b.SchemaType, schema)
	plainText(r, "buffer.trainer_input.experience_buffer", b)
	const storage = "buffer.trainer_input.experience_buffer.storage_type"
	if w.Offline {
		if r.IsSet(storage) && b.StorageType == "queue" {
			r.fail(storage, fmt.Sprintf("%s reads a dataset, not a queue", algorithm.AlgorithmType), "set it to file, or leave it out")
		}
		if b.StorageType == "queue" {
			b.StorageType = "file"
		}
	}
	if b.StorageType == "queue" && !w.Together && dburl.IsURL(b.Path) {
		b.StorageType = automatic("buffer", "auto") // Trinity-RFT keeps such a queue in the database
	}
	if b.StorageType == "file" && w.Together {
		r.warn(storage, "mode both passes experiences through a queue, not a file")
		b.StorageType = "queue"
	}
	w.Recorded = method.Parts != nil && w.mode == "train" && !w.Offline && b.StorageType == "file"
	w.ReadsDataset = w.Offline || w.Recorded
	w.SharedStore = !w.Offline && registry.Buffers.Has(b.StorageType)
}

// plainText sets prompt_type to plaintext for schema cpt, which has no other form.
func plainText(r report, key string, b *ExperienceBuffer) {
	if b.SchemaType == "cpt" && !r.IsSet(key+".format.prompt_type") {
		b.Format.PromptType = "plaintext"
	}
}
