package config

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/operator/datajuicer"
	"github.com/trinity-go/trinity/registry"
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
func (p *DataProcessor) InputCopy(b *Buffer) string {
	return cmp.Or(p.ExperiencePipeline.InputSavePath, filepath.Join(b.CacheDir, "explorer_output.jsonl"))
}

// copiesInDatabase reports whether a copy of experiences goes to a database.
func (d *DataProcessor) copiesInDatabase() bool {
	p := &d.ExperiencePipeline
	return p.SaveInput && dburl.IsURL(p.InputSavePath) || dburl.IsURL(p.OutputSavePath)
}

// checkCopies refuses copies of experiences in an unknown file form, and two copies at one path.
func (processor *DataProcessor) checkCopies(r report, buffer *Buffer, w Work) {
	p := &processor.ExperiencePipeline
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
	if p.SaveInput && p.OutputSavePath == processor.InputCopy(buffer) && !dburl.IsURL(p.OutputSavePath) {
		r.fail(owner+"output_save_path", "is also the path of input_save_path", "choose another path")
	}
	if b := buffer.TrainerInput.ExperienceBuffer; w.mode == "explore" && b.StorageType == "file" &&
		processor.writes(buffer.ExperienceFile(), buffer) {
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

var unusedOfDataProcessor = []unusedKey{
	{taskPipelineKey, unless(func(s *Settled) bool { return s.TaskPipeline != nil }, "this mode does not read its output")},
	{taskPipelineKey + ".output", func(_ *Settled, key string) string {
		if key == taskPipelineKey+".output.path" {
			return ""
		}
		return "the task pipeline writes rows as it read them, with their scores: only path is used"
	}},
}

const taskPipelineKey = "data_processor.task_pipeline"

// prepared returns a pointer to the path that the task pipeline writes if its output names none:
// the path of the first taskset, or of an offline algorithm's dataset.
func prepared(buffer *Buffer, sets []tasksetPlace, w Work) *string {
	if w.Offline {
		return &buffer.TrainerInput.ExperienceBuffer.Path
	}
	for _, t := range sets {
		if !t.eval {
			return &t.set.Path
		}
	}
	return nil
}

// settleTaskPipeline gives the pipeline's output and its reader the same path, if only one of them has a
// path.
func (processor *DataProcessor) settleTaskPipeline(r report, buffer *Buffer, sets []tasksetPlace, w Work) *TaskPipeline {
	if !w.Explores && (w.mode != "train" || !w.Offline) {
		return nil
	}
	p, path := processor.TaskPipeline, prepared(buffer, sets, w)
	if p == nil || path == nil {
		return p
	}
	if p.Output == nil {
		p.Output = newDefault[ExperienceBuffer]()
	}
	setDefault(&p.Output.Path, *path)
	setDefault(path, p.Output.Path)
	if !readsFile(buffer, sets, w, p.Output.Path) {
		r.warn(taskPipelineKey+".output.path", "this run does not read %s, but %s", p.Output.Path, *path)
	}
	return p
}

// readsFile reports whether the run reads the file that the task pipeline makes, or the directory of
// that file.
func readsFile(buffer *Buffer, sets []tasksetPlace, w Work, made string) bool {
	paths := []string{buffer.TrainerInput.ExperienceBuffer.Path}
	if !w.Offline {
		paths = nil
		for _, t := range sets {
			paths = append(paths, t.set.Path)
		}
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		path = filepath.Clean(path)
		return path == filepath.Clean(made) || path == filepath.Dir(made)
	})
}

// HasService reports whether the file configures a Data-Juicer service.
func (d *DataJuicer) HasService() bool { return d.ServerURL != "" || d.AutoStart }

// check checks the address of the Data-Juicer service, and that operators that need the service
// have one.
func (service *Service) check(r report, processor *DataProcessor, w Work) {
	d := &service.DataJuicer
	if u, err := url.Parse(d.ServerURL); d.ServerURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		r.fail("service.data_juicer.server_url", fmt.Sprintf("is %q, want http://host:port", d.ServerURL), "")
	}
	for i, o := range processor.ExperiencePipeline.Operators {
		if _, needs := registry.Operators.Default(o.Name).(datajuicer.User); needs && !d.HasService() && w.Explores {
			r.fail("data_processor.experience_pipeline.operators."+digits(i)+".name", "there is no Data-Juicer service",
				"set service.data_juicer.server_url or auto_start")
		}
	}
}

// check checks the operators, inputs and output of the task pipeline.
func (pipeline *TaskPipeline) check(r report) {
	p := pipeline
	switch {
	case p == nil || p.Output == nil: // nothing to make, or nothing that would read it, which is said elsewhere
		return
	case p.ConfigPath == "" && len(p.Operators) == 0:
		r.fail(taskPipelineKey, "it has no operators", "set operators, or config_path to a recipe of Data-Juicer")
	case p.ConfigPath != "" && len(p.Operators) > 0:
		r.fail(taskPipelineKey+".operators", "config_path is set as well", "use one of the two")
	case p.ConfigPath == "" && len(p.Inputs) == 0:
		r.fail(taskPipelineKey+".inputs", "there are no files to read", "list files")
	case p.TopK == 0:
		r.fail(taskPipelineKey+".top_k", "is 0, which leaves nothing", "set it to a number of rows, or to -1 for all")
	case slices.Contains(p.Inputs, p.Output.Path):
		r.fail(taskPipelineKey+".inputs", fmt.Sprintf("%s is the output as well", p.Output.Path),
			"set output.path, or the path of the taskset, to a file that is to be made")
	}
}

// findTaskOperators looks up the operators of the task pipeline. Data-Juicer gets those that this
// program does not have.
func findTaskOperators(p pluginCheck, pipeline *TaskPipeline, service *Service) {
	if pipeline == nil {
		return
	}
	for i, o := range pipeline.Operators {
		key := taskPipelineKey + ".operators." + digits(i)
		switch {
		case o.Name == "":
			p.fail(key, "the operator has no name", "")
		case registry.TaskOperators.Has(o.Name):
			p.named("task_operator", o.Name, key+".name", o.Args, key+".args")
		case !service.DataJuicer.HasService():
			p.add(p.foreign(key+".name", o.Name))
		}
	}
}

// foreign returns the error for an operator that is not built in while there is no Data-Juicer.
func (r report) foreign(key, name string) Error {
	known := registry.TaskOperators.Names()
	if near := nearest(name, known); near != "" {
		return r.errorFor(key, fmt.Sprintf("unknown task operator %q", name), fmt.Sprintf("did you mean %q?", near))
	}
	return r.errorFor(key, fmt.Sprintf("the task operator %q is not built in", name),
		"if Data-Juicer has it, set service.data_juicer.server_url or auto_start")
}
