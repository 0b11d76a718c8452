package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/explorer"
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
	steps, err := s.stepsWithModel()
	if err != nil {
		return err
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
		dir := filepath.Join(s.checkpoints.Of(step), s.ModelDir())
		if len(s.Model.LoraConfigs) > 0 {
			s.Model.LoraConfigs = withPath(s.Model.LoraConfigs, dir)
		} else {
			s.ModelPath = dir
		}
		if err := s.benchModel(ctx, evals, step); err != nil {
			return err
		}
	}
	s.ModelPath = base
	return nil
}

// stepsWithModel lists the steps of the checkpoints with a model. It logs those without one. It
// returns an error if all checkpoints are without one.
func (s *stage) stepsWithModel() (with []int64, err error) {
	steps, err := s.checkpoints.Steps()
	if err != nil {
		return nil, err
	}
	for _, step := range steps {
		if _, err := os.Stat(filepath.Join(s.checkpoints.Of(step), s.ModelDir())); err == nil {
			with = append(with, step)
		} else {
			s.say("skips " + s.checkpoints.Of(step) + ": it has no model")
		}
	}
	if len(steps) > 0 && len(with) == 0 {
		return nil, fmt.Errorf("no checkpoint in %s has a model to evaluate: train with trainer.save_hf_checkpoint: always",
			s.CheckpointJobDir)
	}
	return with, nil
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
