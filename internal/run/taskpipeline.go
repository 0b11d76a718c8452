package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/pipeline/taskset"
	"github.com/trinity-go/trinity/operator/datajuicer"
)

const taskPipelineKey = "data_processor.task_pipeline"

// newJuicer returns the Data-Juicer service of a configuration, nil if it has none. The service
// starts when somebody first asks it.
func newJuicer(cfg *Settled, say func(string)) *datajuicer.Service {
	c := &cfg.Service.DataJuicer
	switch {
	case c.AutoStart:
		return &datajuicer.Service{Port: value(0, c.Port), Say: say}
	case c.ServerURL != "":
		return &datajuicer.Service{URL: strings.TrimRight(c.ServerURL, "/"), Say: say}
	}
	return nil
}

// taskRecipe returns the recipe of the stage's task pipeline, nil if it has none.
func taskRecipe(cfg *Settled, juicer *datajuicer.Service) (*taskset.Recipe, error) {
	p := cfg.TaskPipeline
	if p == nil {
		return nil, nil
	}
	r := &taskset.Recipe{
		Inputs: p.Inputs, Fields: p.TargetFields, Weights: taskset.DefaultWeights, TopK: p.TopK,
		Output: p.Output.Path, Juicer: juicer,
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

// prepare runs the stage's task pipeline, unless an earlier run has. The end of stop ends it at
// once. The pipeline keeps the answers of models, so the next start does not ask them again.
func prepare(ctx, stop context.Context, cfg *Settled, juicer *datajuicer.Service, opts Options) error {
	r, err := taskRecipe(cfg, juicer)
	if r == nil || err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(stop, func() { cancel(context.Cause(stop)) })()
	say := opts.Say
	m := newMeter("task pipeline: ", say)
	report, err := r.Make(ctx, taskset.Host{
		Open:     func(path string) (*dataset.Dataset, error) { return dataset.Open(ctx, path, dataset.Options{}) },
		Parallel: cfg.TaskPipeline.NumProcess, Say: say,
		Progress: func(done, total int64) { m.told("rows", done, total) },
	})
	if err != nil {
		return fmt.Errorf("%s: %w", taskPipelineKey, err)
	}
	say(report.String())
	return nil
}

// taskPipeline returns the recipe of the stage's task pipeline, nil if it has none, and the report
// of an earlier run, nil if there was none. It returns an error if the pipeline cannot run.
func taskPipeline(cfg *Settled) (r *taskset.Recipe, made *taskset.Report, err error) {
	if r, err = taskRecipe(cfg, newJuicer(cfg, nil)); r == nil || err != nil {
		return nil, nil, err
	}
	for i, path := range cfg.TaskPipeline.Inputs {
		if err := accessible(path); err != nil {
			return nil, nil, cfg.At(fmt.Sprintf("%s.inputs.%d", taskPipelineKey, i), err.Error(), "")
		}
	}
	if made, err = r.Check(); err != nil {
		return nil, nil, cfg.At(taskPipelineKey, err.Error(), "")
	}
	return r, made, nil
}

// accessible returns an error if a path does not exist or cannot be read, which names the path.
func accessible(path string) error {
	_, err := os.Stat(path)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return fmt.Errorf("%s: %w", path, failed.Err)
	}
	return err
}

// pending returns the path of the taskset that a task pipeline has yet to make, "" if there is none.
func pending(r *taskset.Recipe, made *taskset.Report) string {
	if r == nil || made != nil {
		return ""
	}
	return r.Output
}

// describe returns lines about what a task pipeline has done, or would do.
func describe(r *taskset.Recipe, made *taskset.Report) ([]string, error) {
	switch {
	case r == nil:
		return nil, nil
	case made != nil:
		return []string{made.String()}, nil
	}
	rows := 0
	for _, path := range r.Inputs {
		d, err := dataset.Open(context.Background(), path, dataset.Options{})
		if err != nil {
			return nil, err
		}
		rows += d.Len()
	}
	return r.Plan(rows)
}
