package learn

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
func (c *Learner) newCritic(steps int64) (*trainer.Critic, error) {
	if c.Models.Critic == nil {
		return nil, nil
	}
	cfg := c.Stage.Critic
	squared, err := loss.NewValue(cfg.CliprangeValue)
	if err != nil {
		return nil, err
	}
	return &trainer.Critic{
		Learner: trainer.Learner{
			Engine: c.Models.Critic, Loss: squared,
			Schedule: schedule(&cfg.Optim, steps), Optimizer: optimParams(&cfg.Optim, *cfg.GradClip),
			MiniBatch: config.Value(0, cfg.PpoMiniBatchSize), Epochs: *cfg.PpoEpochs,
		},
		Warmup: int64(c.Stage.Trainer.CriticWarmup),
	}, nil
}

// saveCritic writes the critic into the directory of a checkpoint.
func (c *Learner) saveCritic(ctx context.Context, dir string, withModel bool) error {
	if c.Models.Critic == nil {
		return nil
	}
	state := filepath.Join(dir, checkpoint.CriticEngineDir)
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	if err := c.Models.Critic.SaveState(ctx, state); err != nil || !withModel {
		return err
	}
	return c.writeCritic(ctx, filepath.Join(dir, checkpoint.CriticModelDir))
}

// addCritic adds the critic's model to a checkpoint that lacks it.
func (c *Learner) addCritic(ctx context.Context, dir string) error {
	if c.Models.Critic == nil {
		return nil
	}
	return durable.WriteDir(filepath.Join(dir, checkpoint.CriticModelDir), func(temp string) error { return c.writeCritic(ctx, temp) })
}

// writeCritic writes to dir the files that transformers loads, including the tokenizer's.
func (c *Learner) writeCritic(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := errors.Join(c.Models.Critic.SaveModel(ctx, dir), c.Stage.Text.Tokenizer().WriteFiles(dir)); err != nil {
		return err
	}
	return durable.Seal(dir)
}

// loadCritic loads the critic's state from a checkpoint.
func (c *Learner) loadCritic(ctx context.Context, dir string) error {
	if c.Models.Critic == nil {
		return nil
	}
	state := filepath.Join(dir, checkpoint.CriticEngineDir)
	if !record.Present(state) {
		return fmt.Errorf("resuming from %s: it has no critic, which algorithm %s trains: give the run another name to begin anew",
			dir, c.Stage.Algorithm.AlgorithmType)
	}
	if err := c.Models.Critic.LoadState(ctx, state); err != nil {
		return fmt.Errorf("resuming the critic from %s: %w", dir, err)
	}
	return nil
}
