package config

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/experience"
)

// DataProcessor edits tasks before the explorer reads them, and experiences before the trainer
// reads them.
type DataProcessor struct {
	ExperiencePipeline ExperiencePipeline `yaml:"experience_pipeline"`
	// Runs once before the run and writes the taskset.
	TaskPipeline *TaskPipeline `yaml:"task_pipeline"`
}

// ExperiencePipeline is the operators between explorer and buffer.
type ExperiencePipeline struct {
	// Operators, in order.
	Operators []Operator `yaml:"operators"`
	// Keep a copy of every experience before the operators edit it.
	SaveInput bool `yaml:"save_input" default:"true"`
	// Where that copy goes: a directory with one file per step, whose name ends in .jsonl, .jsonl.gz,
	// .jsonl.zst or .parquet, or a database URL (sqlite:///file.db, postgresql://…, mysql://…). In a
	// directory outside of the run's own, each run makes its own subdirectory. Empty is
	// buffer/explorer_output.jsonl in the run's directory.
	InputSavePath string `yaml:"input_save_path"`
	// Where a copy of the experiences goes after the operators, with advantages, in the forms of
	// input_save_path; empty keeps none. Own key of Trinity-Go.
	OutputSavePath string `yaml:"output_save_path"`
	// Further attempts to reach the database of a copy after a failure. Own key of Trinity-Go.
	MaxRetryTimes int `yaml:"max_retry_times" default:"3" range:"[0,)"`
	// Seconds between attempts. Own key of Trinity-Go.
	MaxRetryInterval int `yaml:"max_retry_interval" default:"1" range:"[0,)"`
	// Further sources of experiences by name. With each explore step, their next groups join the
	// rollouts before the operators run. With schema_type experience, the default, an input reads
	// experiences that an earlier run kept. With sft it reads demonstrations, and each demonstration
	// is its own group.
	Inputs map[string]ExperienceBuffer `yaml:"inputs"`
}

const pipelineKey = "data_processor.experience_pipeline"

// InputCopy returns where the copy of every experience goes before the operators edit it.
func (s *Settled) InputCopy() string {
	return cmp.Or(s.DataProcessor.ExperiencePipeline.InputSavePath, filepath.Join(s.Buffer.CacheDir, "explorer_output.jsonl"))
}

// copiesInDatabase reports whether a copy of experiences goes to a database.
func (c *Config) copiesInDatabase() bool {
	p := &c.DataProcessor.ExperiencePipeline
	return p.SaveInput && dburl.IsURL(p.InputSavePath) || dburl.IsURL(p.OutputSavePath)
}

// copies refuses copies of experiences in an unknown file form, and two copies at one path.
func (r *rules) copies() {
	p := &r.DataProcessor.ExperiencePipeline
	const owner = pipelineKey + "."
	if !p.SaveInput && p.InputSavePath != "" {
		r.fail(owner+"input_save_path", "save_input is false, so the run writes nothing there", "leave one of the two out")
	}
	for key, path := range map[string]string{"input_save_path": p.InputSavePath, "output_save_path": p.OutputSavePath} {
		if dburl.IsURL(path) {
			if _, err := dburl.Parse(path); err != nil {
				r.fail(owner+key, err.Error(), "")
			}
		} else if path != "" && experience.Form(path) == "" {
			r.fail(owner+key, path+" does not name a file form of experiences",
				"let the path end in one of "+strings.Join(experience.Forms,
					" ")+", or write the URL of a database: sqlite:///file.db, postgresql://user@host/name, mysql://user@host/name")
		}
	}
	if p.SaveInput && p.OutputSavePath == r.InputCopy() && !dburl.IsURL(p.OutputSavePath) {
		r.fail(owner+"output_save_path", "is also the path of input_save_path", "choose another path")
	}
	if b := r.Buffer.TrainerInput.ExperienceBuffer; r.Mode == "explore" && b.StorageType == "file" && r.writes(r.ExperienceFile()) {
		r.fail(storeKey+".path", "is also the path of input_save_path or output_save_path", "choose another path")
	}
}

// Operator is one operator of a pipeline.
type Operator struct {
	// Name of the operator.
	Name string `yaml:"name" plugin:"operator"`
	// Arguments of the operator.
	Args map[string]any `yaml:"args" args:"name"`
}

// TaskPipeline makes a taskset from files. It runs before the modes that read the taskset: both,
// explore, and train with an offline algorithm.
type TaskPipeline struct {
	// Operators, in order.
	Operators []TaskOperator `yaml:"operators"`
	// Number of concurrent questions to a model, and of Data-Juicer's processes.
	NumProcess int `yaml:"num_process" default:"4" range:"[1,)"`
	// A Data-Juicer recipe in place of operators. Inputs and target_fields that are not set here come
	// from the recipe.
	ConfigPath string `yaml:"config_path"`
	// Files or directories to read.
	Inputs []string `yaml:"inputs"`
	// What to write. Only path of this section is used: a .jsonl file, or a directory in which the
	// pipeline writes output.jsonl. Left out is the path of the first taskset, or of the experience
	// buffer for an offline algorithm.
	Output *ExperienceBuffer `yaml:"output"`
	// Fields that every row must have; the pipeline drops other rows. Operators on a text read the
	// first field.
	TargetFields []string `yaml:"target_fields"`
	// Weights of the priority. Not set are difficulty -0.7, diversity 0.8, usage_frequency -0.5 and
	// quality 1.
	PriorityWeights *PriorityWeights `yaml:"priority_weights"`
	// Number of rows to keep, by highest priority; -1 keeps all.
	TopK int `yaml:"top_k" default:"-1" range:"[-1,)"`
}

// PriorityWeights are the weights of the scores whose sum is the priority of a row. A weight that
// is left out is 0.
type PriorityWeights struct {
	// Weight of the difficulty score, 0 to 1. A negative weight puts easy rows first.
	Difficulty float64 `yaml:"difficulty"`
	// Weight of the diversity score, 0 to 1.
	Diversity float64 `yaml:"diversity"`
	// Weight of the number of uses that the row records (__dj__stats__.consumed_cnt).
	UsageFrequency float64 `yaml:"usage_frequency"`
	// Weight of the quality score, 0 to 1.
	Quality float64 `yaml:"quality"`
}

// TaskOperator is one operator of the task pipeline.
type TaskOperator struct {
	// Name of the operator. A name that is not built in is Data-Juicer's and needs
	// service.data_juicer.
	Name string `yaml:"name"`
	// Arguments of the operator.
	Args map[string]any `yaml:"args"`
}

// Cod is Connect-the-Dots: a rollout solves a pack of tasks one after the other, with hints to
// itself. It is for workflows that solve packs.
type Cod struct {
	// Tasks per pack. buffer.batch_size, which counts tasks, must be a multiple.
	TaskPackSize int `yaml:"task_pack_size" default:"4" range:"[1,)"`
	// Tasks per pack of an evaluation; not set is task_pack_size.
	EvalTaskPackSize *int `yaml:"eval_task_pack_size" range:"[1,)"`
	// How tasks are packed: cod, which packs rows as they come.
	PackingStrategy string `yaml:"packing_strategy" default:"cod"`
	// Arguments of all workflows that solve packs: their argument cod.
	CodWorkflowArgs map[string]any `yaml:"cod_workflow_args"`
}
