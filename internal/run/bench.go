package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/rundir"
)

// bench evaluates the base model and every checkpoint, or only the newest.
func (s *stage) bench(ctx context.Context) error {
	if err := s.host.Load(ctx); err != nil {
		return err
	}
	evals, err := s.data.EvalTasksets(ctx)
	if err != nil {
		return err
	}
	if err := s.log.Open(0, 0, s.ModelPath); err != nil {
		return err
	}
	steps, err := s.checkpoints.Steps()
	if err != nil {
		return err
	}
	if s.Model.ExternalModel.Enable { // which trained none of them
		return s.benchModel(ctx, evals, 0)
	}
	if s.Explorer.BenchOnLatestCheckpoint && len(steps) > 1 {
		steps = steps[len(steps)-1:]
	}
	if s.Explorer.EvalOnStartup && !s.Explorer.BenchOnLatestCheckpoint {
		if err := s.benchModel(ctx, evals, 0); err != nil {
			return err
		}
	}
	base := s.ModelPath
	for _, step := range steps {
		if _, err := s.useModelOf(s.checkpoints.Of(step)); err != nil {
			return err
		}
		if err := s.benchModel(ctx, evals, step); err != nil {
			return err
		}
	}
	s.ModelPath = base
	return nil
}

// useModelOf makes the model or the adapter of a checkpoint the one that the stage opens, and returns its directory.
func (s *stage) useModelOf(checkpoint string) (dir string, err error) {
	if dir, err = s.OpenCheckpoint(checkpoint, s.say); err != nil {
		return "", err
	}
	if len(s.Model.LoraConfigs) > 0 {
		s.Model.LoraConfigs = withPath(s.Model.LoraConfigs, dir)
	} else {
		s.ModelPath = dir
	}
	return dir, nil
}

// withPath returns the adapters, with the files of the first in dir.
func withPath(loras []config.Lora, dir string) []config.Lora {
	loras = slices.Clone(loras)
	loras[0].Path = dir
	return loras
}

// benchModel evaluates the model of one step, whose path the caller has set.
func (s *stage) benchModel(ctx context.Context, evals []*explorer.Taskset, step int64) (err error) {
	if err := s.openModels(ctx, false, true); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.models.Close()) }()
	if err := loadCheckpoint(ctx, s, step); err != nil {
		return err
	}
	m, err := explorer.Evaluate(ctx, s.runner(), s.log.Explorer(), evals, step, "bench/")
	if err != nil {
		return fmt.Errorf("evaluating step %d: %w", step, err)
	}
	return s.log.Explorer().Log(ctx, trinity.Record{Step: step, Metrics: m})
}

// EvaluateOptions choose what Evaluate evaluates.
type EvaluateOptions struct {
	Stage    string             // "" is the last stage with evaluation tasksets
	Tasksets []string           // names of evaluation tasksets; nil is all of the stage
	Data     string             // rows in place of those of the one taskset; "" is its own
	Model    string             // as model.model_path; "" is the best checkpoint, else the newest, of the stage or one before it
	Dir      string             // of what Evaluate writes
	Answers  record.KeepAnswers // gets the answers to each task, in the order of the tasks; may be nil
	Say      func(string)       // receives lines for people
}

// Evaluate runs the evaluation of a run again, with its prompts, rewards and arguments, and trains on nothing. It
// returns the metrics, named <taskset>/<metric>. A checkpoint is evaluated as the run evaluated its step.
func Evaluate(ctx context.Context, cfg *config.Config, o EvaluateOptions) (m trinity.Metrics, err error) {
	stage, step, err := evaluates(cfg, &o)
	if err != nil {
		return nil, err
	}
	s, end, err := openAside(ctx, stage, o.Dir, o.Say)
	if err != nil {
		return nil, err
	}
	defer func() { err = end(err) }()
	sets, err := s.data.EvalTasksets(ctx)
	if err != nil {
		return nil, err
	}
	if sets, err = o.choose(sets); err != nil {
		return nil, err
	}
	switch {
	case o.Model != "":
		o.Say("evaluates " + o.Model)
	case stage.Mode != "bench": // which trains nothing
		o.Say("the run has no checkpoint, so this evaluates the model that it begins with")
	}
	if err := s.openModels(ctx, false, true); err != nil {
		return nil, err
	}
	if err := loadCheckpoint(ctx, s, 0); err != nil {
		return nil, err
	}
	if err := s.log.Open(0, 0, s.ModelPath); err != nil {
		return nil, err
	}
	return explorer.Evaluate(ctx, s.runner(), s.log.Evaluator(o.Answers), sets, step, "")
}

// evaluates returns the stage of a configuration that Evaluate runs, with the model to evaluate, and the step of the
// checkpoint; 0 if it is none of the run.
func evaluates(cfg *config.Config, o *EvaluateOptions) (found *config.Settled, step int64, err error) {
	if err := checkStage(cfg, Options{Stage: o.Stage}); err != nil {
		return nil, 0, err
	}
	at := 0
	for i, c := range cfg.Settled() {
		if o.Stage == stageName(cfg, i) && len(cfg.Stages) > 0 || o.Stage == "" && len(c.Buffer.ExplorerInput.EvalTasksets) > 0 {
			found, at = c, i
		}
	}
	if found == nil || len(found.Buffer.ExplorerInput.EvalTasksets) == 0 {
		return nil, 0, fmt.Errorf("%s has no evaluation taskset: set buffer.explorer_input.eval_tasksets", cfg.File())
	}
	if err := o.otherRows(found.Data.Tasksets); err != nil {
		return nil, 0, err
	}
	if o.Model == "" {
		if o.Model, step, err = newestModel(found); err != nil {
			return nil, 0, err
		}
	}
	for ; o.Model == "" && at > 0; at-- { // the stage begins with the model of the one before
		if o.Model, _, err = newestModel(cfg.Settled()[at-1]); err != nil {
			return nil, 0, err
		}
	}
	if o.Model == "" {
		return found, 0, nil
	}
	found.Model.ModelPath = o.Model
	if len(found.Model.LoraConfigs) > 0 {
		found.Model.LoraConfigs = withPath(found.Model.LoraConfigs, "") // the model's own, if it is an adapter
	}
	return found, step, nil
}

// otherRows gives the one chosen evaluation taskset the rows of Data.
func (o *EvaluateOptions) otherRows(sets []config.TasksetEntry) error {
	if o.Data == "" {
		return nil
	}
	var known []string
	for i := range sets {
		set := &sets[i]
		if !set.Eval {
			continue
		}
		if known = append(known, set.Name); len(o.Tasksets) == 0 || slices.Contains(o.Tasksets, set.Name) {
			set.Path, set.StorageType, set.Split, set.SubsetName = o.Data, "file", "train", ""
		}
	}
	if len(known) > 1 && len(o.Tasksets) != 1 {
		return fmt.Errorf("--data %s: name the one evaluation taskset that says how to ask and score, with --taskset: %s",
			o.Data, strings.Join(known, " or "))
	}
	return nil
}

// choose returns the named tasksets, or all.
func (o *EvaluateOptions) choose(sets []*explorer.Taskset) ([]*explorer.Taskset, error) {
	var known []string
	for _, set := range sets {
		known = append(known, set.Template.Taskset)
	}
	for _, name := range o.Tasksets {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("--taskset %s: the evaluation tasksets are %s", name, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(sets, func(set *explorer.Taskset) bool {
		return len(o.Tasksets) > 0 && !slices.Contains(o.Tasksets, set.Template.Taskset)
	}), nil
}

// newestModel returns the checkpoint of a stage that stands for it, the best one or the newest; "" if there is none.
func newestModel(stage *config.Settled) (path string, step int64, err error) {
	dir := checkpoint.Dir{Path: stage.CheckpointJobDir}
	best, err := rundir.ReadBest(dir.Path)
	if err != nil {
		return "", 0, err
	}
	if best != nil {
		at := checkpoint.HandedOn(best)
		if at != best.Checkpoint {
			return at, 0, nil
		}
		return at, best.Step, nil
	}
	steps, err := dir.Steps()
	if err != nil || len(steps) == 0 {
		return "", 0, err
	}
	step = steps[len(steps)-1]
	return dir.Of(step), step, nil
}
