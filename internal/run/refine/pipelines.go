// Package refine has the pipelines of a stage, which make tasks and edit experiences.
package refine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/experience/ledger"
	"github.com/trinity-go/trinity/internal/pipeline"
	"github.com/trinity-go/trinity/internal/pipeline/taskset"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/operator/datajuicer"
	"github.com/trinity-go/trinity/registry"
)

const taskPipelineKey = "data_processor.task_pipeline"

// Pipelines are the pipelines of a stage: of its tasks, and of its experiences.
type Pipelines struct {
	cfg    *config.Settled
	say    func(string)
	juicer *datajuicer.Service // nil if the configuration has none
}

// New returns the pipelines of a stage. Its Data-Juicer service starts when somebody first asks it.
func New(cfg *config.Settled, say func(string)) *Pipelines {
	p, c := &Pipelines{cfg: cfg, say: say}, &cfg.Service.DataJuicer
	switch {
	case c.AutoStart:
		p.juicer = &datajuicer.Service{Port: config.Value(0, c.Port), Say: say}
	case c.ServerURL != "":
		p.juicer = &datajuicer.Service{URL: strings.TrimRight(c.ServerURL, "/"), Say: say}
	}
	return p
}

// Close ends the service.
func (p *Pipelines) Close() error {
	if p.juicer == nil {
		return nil
	}
	return p.juicer.Close()
}

// taskRecipe returns the recipe of the stage's task pipeline, nil if it has none.
func (s *Pipelines) taskRecipe() (*taskset.Recipe, error) {
	cfg := s.cfg
	p := cfg.TaskPipeline
	if p == nil {
		return nil, nil
	}
	r := &taskset.Recipe{
		Inputs: p.Inputs, Fields: p.TargetFields, Weights: taskset.DefaultWeights, TopK: p.TopK,
		Output: p.Output.Path, Juicer: s.juicer,
	}
	for _, o := range p.Operators {
		r.Operators = append(r.Operators, taskset.Operator{Name: o.Name, Args: o.Args})
	}
	if w := p.PriorityWeights; w != nil && *w != (config.PriorityWeights{}) {
		r.Weights = taskset.Weights(*w)
	}
	if p.ConfigPath == "" {
		return r, nil
	}
	if err := r.ReadDataJuicer(p.ConfigPath); err != nil {
		return nil, cfg.At(taskPipelineKey+".config_path", err.Error(), "")
	}
	return r, nil
}

// MakeTasks runs the stage's task pipeline, unless an earlier run has. The end of stop ends it at
// once. The pipeline keeps the answers of models, so the next start does not ask them again.
func (p *Pipelines) MakeTasks(ctx, stop context.Context) error {
	r, err := p.taskRecipe()
	if r == nil || err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(stop, func() { cancel(context.Cause(stop)) })()
	m := record.NewMeter("task pipeline: ", p.say)
	report, err := r.Make(ctx, taskset.Host{
		Open:     func(path string) (*dataset.Dataset, error) { return dataset.Open(ctx, path, dataset.Options{}) },
		Parallel: p.cfg.TaskPipeline.NumProcess, Say: p.say,
		Progress: func(done, total int64) { m.Tell("rows", done, total) },
	})
	if err != nil {
		return fmt.Errorf("%s: %w", taskPipelineKey, err)
	}
	p.say(report.String())
	return nil
}

// TaskPipeline is the task pipeline of a stage, before the stage runs.
type TaskPipeline struct {
	recipe *taskset.Recipe // nil if the stage has none
	made   *taskset.Report // of an earlier run; nil if there was none
}

// TaskPipelineOf reads the task pipeline of a stage. It returns an error if the pipeline cannot run.
func TaskPipelineOf(cfg *config.Settled) (p TaskPipeline, err error) {
	if p.recipe, err = New(cfg, nil).taskRecipe(); p.recipe == nil || err != nil {
		return p, err
	}
	for i, path := range cfg.TaskPipeline.Inputs {
		if err := accessible(path); err != nil {
			return p, cfg.At(fmt.Sprintf("%s.inputs.%d", taskPipelineKey, i), err.Error(), "")
		}
	}
	if p.made, err = p.recipe.Check(); err != nil {
		return p, cfg.At(taskPipelineKey, err.Error(), "")
	}
	return p, nil
}

// accessible returns an error if a path does not exist or cannot be read, which names the path.
func accessible(path string) error {
	_, err := os.Stat(path)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return fmt.Errorf("%s: %w", path, failed.Err)
	}
	return err
}

// Pending returns the path of the taskset that the task pipeline has yet to make, "" if there is none.
func (p TaskPipeline) Pending() string {
	if p.recipe == nil || p.made != nil {
		return ""
	}
	return p.recipe.Output
}

// Describe returns lines about what the task pipeline has done, or would do.
func (p TaskPipeline) Describe() ([]string, error) {
	switch {
	case p.recipe == nil:
		return nil, nil
	case p.made != nil:
		return []string{p.made.String()}, nil
	}
	rows := 0
	for _, path := range p.recipe.Inputs {
		d, err := dataset.Open(context.Background(), path, dataset.Options{})
		if err != nil {
			return nil, err
		}
		rows += d.Len()
	}
	return p.recipe.Plan(rows)
}

// CheckDatasets returns an error if a dataset that the stage reads lacks files, or is nowhere: not
// on this machine, not on a hub, and none that a stage before leaves.
func CheckDatasets(cfg *config.Settled, leaves func(path string) bool) error {
	makes, err := TaskPipelineOf(cfg)
	if err != nil {
		return err
	}
	read := cfg.Sources()
	for _, d := range feed.Datasets(cfg, makes.Pending()) {
		key := d.Key + ".path"
		if leaves(d.Path) || !slices.Contains(read, key) {
			continue
		}
		path, onHub := feed.Local(d.Path, true)
		if path == "" && !onHub {
			return cfg.At(key, fmt.Sprintf("dataset %s: no such file or directory", d.Path), "")
		}
		if path != "" && !dburl.IsURL(path) {
			if err := dataset.Find(path, d.Options); err != nil {
				return cfg.At(key, err.Error(), "")
			}
		}
	}
	return nil
}

// Pipeline opens the pipeline: the operators and, if the trainer does not compute it, the advantage. give gives operators
// what the stage offers. account gets its steps for the ledger of a role.
func (s *Pipelines) Pipeline(
	ctx context.Context, r *feed.Reader, give func(...any) error, tracer trinity.Tracer, account func(role string, step ledger.Step) error,
) (p *pipeline.Pipeline, err error) {
	cfg := &s.cfg.DataProcessor.ExperiencePipeline
	p = &pipeline.Pipeline{Advantage: r.Objective.InPipeline(), Say: r.Say, Tracer: tracer}
	p.Ledger = func(step ledger.Step) error { return account(trinity.RoleExplorer, step) }
	if cfg.SaveInput {
		if p.Input, err = r.Kept(ctx, s.cfg.DataProcessor.InputCopy(&s.cfg.Buffer), "input"); err != nil {
			return p, err
		}
	}
	if cfg.OutputSavePath != "" {
		if p.Output, err = r.Kept(ctx, cfg.OutputSavePath, "output"); err != nil {
			return p, err
		}
	}
	for _, o := range cfg.Operators {
		name, args := s.cfg.Plugin(registry.Operators.Catalog, o.Name, o.Args)
		op, err := registry.Operators.Build(name, args)
		if err != nil {
			return p, err
		}
		if u, ok := op.(datajuicer.User); ok {
			u.UseService(s.juicer)
		}
		if err := give(op); err != nil {
			return p, err
		}
		p.Operators = append(p.Operators, pipeline.Operator{Name: o.Name, Operator: op})
	}
	return p, nil
}
