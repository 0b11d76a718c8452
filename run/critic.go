package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/run/checkpoint"
	"github.com/trinity-go/trinity/trainer"
)

// criticSpec is what is asked of the critic's engine, beside the policy's. All its weights are trained, whether the policy is an adapter or not:
// a value head on frozen features would be a poor critic, and the critic is neither sampled nor published.
func criticSpec(policy trinity.EngineSpec, path string, optimizer trinity.OptimizerSpec) trinity.EngineSpec {
	return trinity.EngineSpec{
		ModelPath: path, Head: trinity.ValueHead, Init: policy.Init, Seed: policy.Seed, Optimizer: optimizer,
		Train: true, Recompute: policy.Recompute, MicroTokens: policy.MicroTokens, MaxModelLen: policy.MaxModelLen,
	}
}

// checkCritic refuses a critic that cannot read the policy's sequences.
func (cfg *Settled) checkCritic(policy *model.Config) error {
	path := cfg.criticPath
	critic, err := model.ReadConfig(path)
	if err != nil {
		return cfg.At(checkpoint.CriticKey, err.Error(), "")
	}
	switch length := *cfg.Model.MaxModelLen; {
	case critic.VocabSize < policy.VocabSize:
		return cfg.At(checkpoint.CriticKey, fmt.Sprintf("%s has a vocabulary of %d and the policy one of %d", path, critic.VocabSize, policy.VocabSize), "a critic reads the policy's tokens, so start it from a model with the same tokenizer")
	case critic.MaxPositions < length:
		return cfg.At(checkpoint.CriticKey, fmt.Sprintf("%s has positions for %d tokens, %s is %d", path, critic.MaxPositions, modelLenKey, length), "lower it or use another critic")
	}
	return nil
}

// openCritic loads the critic, if one is trained.
func (s *stage) openCritic(ctx context.Context, policy trinity.EngineSpec) error {
	if s.criticPath == "" {
		return nil
	}
	critic, err := s.engines.trainer.OpenTrainer(ctx, criticSpec(policy, s.criticPath, s.Critic.Optim.Spec()))
	if err != nil {
		return fmt.Errorf("opening critic %s: %w", s.criticPath, err)
	}
	s.critic = critic
	return nil
}

// newCritic returns the open critic of a run of so many steps; nil if there is none.
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
			Engine: s.critic, Loss: squared, Schedule: schedule(&cfg.Optim, steps), Optimizer: optimParams(&cfg.Optim, *cfg.GradClip),
			MiniBatch: value(0, cfg.PpoMiniBatchSize), Epochs: *cfg.PpoEpochs,
		},
		Warmup: int64(s.Trainer.CriticWarmup),
	}, nil
}

// saveCritic writes the critic into the directory of a checkpoint.
func (s checkpointer) saveCritic(ctx context.Context, dir string, withModel bool) error {
	if s.critic == nil {
		return nil
	}
	state := filepath.Join(dir, checkpoint.CriticEngineDir)
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	if err := s.critic.SaveState(ctx, state); err != nil || !withModel {
		return err
	}
	return s.writeCritic(ctx, filepath.Join(dir, checkpoint.CriticModelDir))
}

// addCritic adds the critic's model to a checkpoint that has none.
func (s checkpointer) addCritic(ctx context.Context, dir string) error {
	if s.critic == nil {
		return nil
	}
	return durable.WriteDir(filepath.Join(dir, checkpoint.CriticModelDir), func(temp string) error { return s.writeCritic(ctx, temp) })
}

// writeCritic writes what transformers loads, tokenizer files included, into dir.
func (s checkpointer) writeCritic(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := errors.Join(s.critic.SaveModel(ctx, dir), s.text.Tokenizer().WriteFiles(dir)); err != nil {
		return err
	}
	return durable.Seal(dir)
}

// loadCritic takes up the critic of a checkpoint.
func (s *stage) loadCritic(ctx context.Context, dir string) error {
	if s.critic == nil {
		return nil
	}
	state := filepath.Join(dir, checkpoint.CriticEngineDir)
	if !present(state) {
		return fmt.Errorf("resuming from %s: it has no critic, which algorithm %s trains: give the run another name to begin anew", dir, s.Algorithm.AlgorithmType)
	}
	if err := s.critic.LoadState(ctx, state); err != nil {
		return fmt.Errorf("resuming the critic from %s: %w", dir, err)
	}
	return nil
}
