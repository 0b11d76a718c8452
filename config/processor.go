package config

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/trinity-go/trinity/experience/archive"
)

// DataProcessor edits data on its way: tasks before the explorer, experiences before the trainer.
type DataProcessor struct {
	ExperiencePipeline ExperiencePipeline `yaml:"experience_pipeline"`
	// Runs once before the run and writes the taskset.
	TaskPipeline *TaskPipeline `yaml:"task_pipeline"`
}

// ExperiencePipeline is the operators between explorer and buffer.
type ExperiencePipeline struct {
	// Operators in order.
	Operators []Operator `yaml:"operators"`
	// Keep a copy of every experience as it came in.
	SaveInput bool `yaml:"save_input" default:"true"`
	// Where that copy goes, a path that ends in .jsonl, .jsonl.gz, .jsonl.zst or .parquet; empty is buffer/explorer_output.jsonl in the run's directory.
	InputSavePath string `yaml:"input_save_path"`
	// Where a copy goes of what the operators have left, with advantages: a path of the same kinds; empty keeps none. Own key of Trinity-Go.
	OutputSavePath string `yaml:"output_save_path"`
	// More inputs by name.
	Inputs map[string]ExperienceBuffer `yaml:"inputs"`
}

// InputCopy is where the copy goes of every experience as it came in.
func (c *Config) InputCopy() string {
	return cmp.Or(c.DataProcessor.ExperiencePipeline.InputSavePath, filepath.Join(c.Buffer.CacheDir, "explorer_output.jsonl"))
}

// copies refuses copies of experiences that are of no form, or of one name.
func (r *rules) copies() {
	p := &r.DataProcessor.ExperiencePipeline
	const owner = "data_processor.experience_pipeline."
	if !p.SaveInput && p.InputSavePath != "" {
		r.fail(owner+"input_save_path", "save_input is false, so nothing is written there", "leave one of the two out")
	}
	for key, path := range map[string]string{"input_save_path": p.InputSavePath, "output_save_path": p.OutputSavePath} {
		if path != "" && !archive.IsName(path) {
			r.fail(owner+key, path+" is not a form of experiences", "let the path end in one of "+strings.Join(archive.Forms, " "))
		}
	}
	if p.SaveInput && p.OutputSavePath == r.InputCopy() {
		r.fail(owner+"output_save_path", "is where input_save_path goes", "choose another path")
	}
}

// Operator is one operator of a pipeline.
type Operator struct {
	// Name of the operator.
	Name string `yaml:"name" plugin:"operator"`
	// Arguments of the operator.
	Args map[string]any `yaml:"args"`
}

// TaskPipeline is Data-Juicer operators that make a taskset.
type TaskPipeline struct {
	// Operators in order; names are Data-Juicer's.
	Operators []TaskOperator `yaml:"operators"`
	// Processes of Data-Juicer.
	NumProcess int `yaml:"num_process" default:"4" range:"[1,)"`
	// A Data-Juicer recipe; wins over operators.
	ConfigPath string `yaml:"config_path"`
	// Files to read.
	Inputs []string `yaml:"inputs"`
	// What to write; left out is the first taskset, or the experience buffer when training offline.
	Output *ExperienceBuffer `yaml:"output"`
	// Fields to keep.
	TargetFields []string `yaml:"target_fields"`
	// Weights of difficulty, diversity, usage_frequency and quality in the priority of a row.
	PriorityWeights map[string]any `yaml:"priority_weights"`
	// Rows to keep, the best; -1 is all.
	TopK int `yaml:"top_k" default:"-1" range:"[-1,)"`
}

// TaskOperator is one operator of Data-Juicer.
type TaskOperator struct {
	// Data-Juicer's name of the operator.
	Name string `yaml:"name"`
	// Arguments of the operator.
	Args map[string]any `yaml:"args"`
}

// Cod is Connect-the-Dots: tasks run in packs that learn from one another (newest upstream).
type Cod struct {
	// Tasks per pack.
	TaskPackSize int `yaml:"task_pack_size" default:"4" range:"[1,)"`
	// Tasks per pack of an evaluation; not set is task_pack_size.
	EvalTaskPackSize *int `yaml:"eval_task_pack_size" range:"[1,)"`
	// How tasks are packed.
	PackingStrategy string `yaml:"packing_strategy" default:"cod"`
	// Arguments of all packed workflows.
	CodWorkflowArgs map[string]any `yaml:"cod_workflow_args"`
}
