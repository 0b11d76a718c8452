package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/trainer"
	"github.com/trinity-go/trinity/model"
)

// checkCritic returns an error if the critic cannot read the policy's sequences.
func (s *Settled) checkCritic(policy *model.Config) error {
	path := s.criticPath
	critic, err := model.ReadConfig(path)
	if err != nil {
		return s.At(checkpoint.CriticKey, err.Error(), "")
	}
	switch length := *s.Model.MaxModelLen; {
	case critic.VocabSize < policy.VocabSize:
		return s.At(checkpoint.CriticKey,
			fmt.Sprintf("%s has a vocabulary of %d and the policy one of %d", path, critic.VocabSize, policy.VocabSize),
			"a critic reads the policy's tokens, so start it from a model with the same tokenizer")
	case critic.MaxPositions < length:
		return s.At(checkpoint.CriticKey,
			fmt.Sprintf("%s has positions for %d tokens, %s is %d", path, critic.MaxPositions, place.ModelLenKey, length),
			"lower it or use another critic")
	}
	return nil
}

// openCritic loads the critic, if the stage trains one.
func (s *stage) openCritic(ctx context.Context, policy engine.TrainerSpec) error {
	if s.criticPath == "" {
		return nil
	}
	critic, err := s.engines.Trainer.OpenTrainer(ctx, place.CriticSpec(policy, s.criticPath, s.Critic.Optim.Spec()))
	if err != nil {
		return fmt.Errorf("opening critic %s: %w", s.criticPath, err)
	}
	s.critic = critic
	return nil
}

// newCritic returns the critic for the trainer of a run of so many steps. It returns nil without
// one.
func (s *stage) newCritic(steps int64) (*trainer.Critic, error) {
	if s.critic == nil {
		return nil, nil
	}
	cfg := s.Critic
	squared, err := loss.NewValue(cfg.CliprangeValue)
	if err != nil {
		return nil, err
	}
	return &trainer.Critic{
		Learner: trainer.Learner{
			Engine: s.critic, Loss: squared,
			Schedule: schedule(&cfg.Optim, steps), Optimizer: optimParams(&cfg.Optim, *cfg.GradClip),
			MiniBatch: config.Value(0, cfg.PpoMiniBatchSize), Epochs: *cfg.PpoEpochs,
		},
		Warmup: int64(s.Trainer.CriticWarmup),
	}, nil
}

// saveCritic writes the critic into the directory of a checkpoint.
func (c checkpointer) saveCritic(ctx context.Context, dir string, withModel bool) error {
	if c.critic == nil {
		return nil
	}
	state := filepath.Join(dir, checkpoint.CriticEngineDir)
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	if err := c.critic.SaveState(ctx, state); err != nil || !withModel {
		return err
	}
	return c.writeCritic(ctx, filepath.Join(dir, checkpoint.CriticModelDir))
}

// addCritic adds the critic's model to a checkpoint that lacks it.
func (c checkpointer) addCritic(ctx context.Context, dir string) error {
	if c.critic == nil {
		return nil
	}
	return durable.WriteDir(filepath.Join(dir, checkpoint.CriticModelDir), func(temp string) error { return c.writeCritic(ctx, temp) })
}

// writeCritic writes to dir the files that transformers loads, including the tokenizer's.
func (c checkpointer) writeCritic(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := errors.Join(c.critic.SaveModel(ctx, dir), c.text.Tokenizer().WriteFiles(dir)); err != nil {
		return err
	}
	return durable.Seal(dir)
}

// loadCritic loads the critic's state from a checkpoint.
func (s *stage) loadCritic(ctx context.Context, dir string) error {
	if s.critic == nil {
		return nil
	}
	state := filepath.Join(dir, checkpoint.CriticEngineDir)
	if !record.Present(state) {
		return fmt.Errorf("resuming from %s: it has no critic, which algorithm %s trains: give the run another name to begin anew",
			dir, s.Algorithm.AlgorithmType)
	}
	if err := s.critic.LoadState(ctx, state); err != nil {
		return fmt.Errorf("resuming the critic from %s: %w", dir, err)
	}
	return nil
}
