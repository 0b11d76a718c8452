package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/trainer"
)

// newCritic returns the critic for the trainer of a run of so many steps. It returns nil without
// one.
func (s *stage) newCritic(steps int64) (*trainer.Critic, error) {
	if s.models.Critic == nil {
		return nil, nil
	}
	cfg := s.Critic
	squared, err := loss.NewValue(cfg.CliprangeValue)
	if err != nil {
		return nil, err
	}
	return &trainer.Critic{
		Learner: trainer.Learner{
			Engine: s.models.Critic, Loss: squared,
			Schedule: schedule(&cfg.Optim, steps), Optimizer: optimParams(&cfg.Optim, *cfg.GradClip),
			MiniBatch: config.Value(0, cfg.PpoMiniBatchSize), Epochs: *cfg.PpoEpochs,
		},
		Warmup: int64(s.Trainer.CriticWarmup),
	}, nil
}

// saveCritic writes the critic into the directory of a checkpoint.
func (c checkpointer) saveCritic(ctx context.Context, dir string, withModel bool) error {
	if c.models.Critic == nil {
		return nil
	}
	state := filepath.Join(dir, checkpoint.CriticEngineDir)
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	if err := c.models.Critic.SaveState(ctx, state); err != nil || !withModel {
		return err
	}
	return c.writeCritic(ctx, filepath.Join(dir, checkpoint.CriticModelDir))
}

// addCritic adds the critic's model to a checkpoint that lacks it.
func (c checkpointer) addCritic(ctx context.Context, dir string) error {
	if c.models.Critic == nil {
		return nil
	}
	return durable.WriteDir(filepath.Join(dir, checkpoint.CriticModelDir), func(temp string) error { return c.writeCritic(ctx, temp) })
}

// writeCritic writes to dir the files that transformers loads, including the tokenizer's.
func (c checkpointer) writeCritic(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := errors.Join(c.models.Critic.SaveModel(ctx, dir), c.Text.Tokenizer().WriteFiles(dir)); err != nil {
		return err
	}
	return durable.Seal(dir)
}

// loadCritic loads the critic's state from a checkpoint.
func (s *stage) loadCritic(ctx context.Context, dir string) error {
	if s.models.Critic == nil {
		return nil
	}
	state := filepath.Join(dir, checkpoint.CriticEngineDir)
	if !record.Present(state) {
		return fmt.Errorf("resuming from %s: it has no critic, which algorithm %s trains: give the run another name to begin anew",
			dir, s.Algorithm.AlgorithmType)
	}
	if err := s.models.Critic.LoadState(ctx, state); err != nil {
		return fmt.Errorf("resuming the critic from %s: %w", dir, err)
	}
	return nil
}
