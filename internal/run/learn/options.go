package learn

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/internal/trainer"
)

// Options opens the teachers and returns the options of a trainer of so many steps, without From, Weights and Evaluation.
func (c *Learner) Options(ctx context.Context, steps int64) (o trainer.Options, err error) {
	s, cfg := c.Stage, c.Stage.Settled
	o = trainer.Options{
		Source: c.Source, Advantage: s.Objective.InTrainer(), Adaptive: s.Objective,
		Reference: s.Objective.NeedsReference, Cache: newCache(cfg),
		Policy: trainer.Learner{
			Engine: c.Models.Policy, Loss: s.Objective.Loss, Epochs: cfg.Batch.Epochs,
			Schedule: schedule(&cfg.Algorithm.Optimizer, steps), Optimizer: optimParams(&cfg.Algorithm.Optimizer, cfg.Trainer.GradClip),
		},
		Checkpointer: c, Recorder: c.Log.Trainer(), Tracing: c.Log.Tracing(),
		TotalSteps: steps, BatchSize: cfg.Batch.Train * cfg.Batch.PerRow, ByRollout: cfg.Batch.CountsRollouts,
		MicroTokens: cfg.Batch.MicroTokens, SyncInterval: place.PublishInterval(s.Settled), SaveInterval: int64(cfg.Trainer.SaveInterval),
	}
	if !cfg.Batch.Whole {
		o.Policy.MiniBatch = cfg.Batch.Mini * cfg.Batch.PerRow
	}
	if cfg.Method.Recomputes {
		o.Corrector = correction(&cfg.Algorithm.RolloutCorrection)
	}
	return o, c.addCriticAndTeachers(ctx, &o)
}

// correction returns how the trainer corrects for the policy that sampled.
func correction(c *config.RolloutCorrection) *algorithm.Correction {
	high := config.Value(0, c.RolloutRsThreshold)
	return &algorithm.Correction{
		Weights: c.RolloutIs, Truncate: c.RolloutIsThreshold, Normalize: c.RolloutIsBatchNormalize,
		Reject: c.RolloutRs, High: high, Low: config.Value(1/high, c.RolloutRsThresholdLower),
	}
}

// optimParams returns the settings of the optimizer except for the learning rate.
func optimParams(o *config.Optimizer, norm float64) trinity.OptimParams {
	return trinity.OptimParams{Beta1: o.Betas[0], Beta2: o.Betas[1], Eps: o.Eps, WeightDecay: o.WeightDecay, ClipNorm: norm}
}

// schedule returns the learning rate over the total steps of a run.
func schedule(o *config.Optimizer, total int64) trainer.Schedule {
	warmup := int64(o.LRWarmupSteps)
	if warmup < 0 {
		warmup = int64(o.LRWarmupStepsRatio * float64(total))
	}
	return trainer.Schedule{
		LR: o.LR, MinRatio: o.MinLRRatio, WarmupSteps: warmup, DecayRatio: o.LRDecayStepsRatio, TotalSteps: total,
		Type: o.LRSchedulerType,
	}
}

// Resume opens the log of a trainer of so many steps and loads the newest checkpoint, if there is one. It returns the
// progress of the checkpoint.
func (c *Learner) Resume(ctx context.Context, steps int64) (at trainer.Progress, err error) {
	state, ok, err := c.Checkpoints.Latest()
	if err != nil {
		return at, err
	}
	dir := c.Checkpoints.Of(state.Step)
	if err := c.Log.Open(state.Step, steps, c.Stage.ModelPath); err != nil || !ok {
		return at, err
	}
	if at, err = c.Load(ctx, dir, state); err != nil {
		return at, err
	}
	c.Log.Checkpoint(state.Step, dir, filepath.Join(dir, c.Stage.ModelDir()))
	return at, nil
}

// Load gives engine, critic, algorithm and source the state of the checkpoint in a directory, which
// it does not change.
func (c *Learner) Load(ctx context.Context, dir string, state checkpoint.State) (at trainer.Progress, err error) {
	if err := c.Models.Policy.LoadState(ctx, filepath.Join(dir, checkpoint.EngineDir)); err != nil {
		return at, fmt.Errorf("resuming from %s: %w", dir, err)
	}
	if err := c.loadCritic(ctx, dir); err != nil {
		return at, err
	}
	if err := c.Stage.Objective.Restore(state.Algorithm); err != nil {
		return at, err
	}
	at = trainer.Progress{Step: state.Step, Published: state.Published, OptimizerSteps: config.Value(-1, state.OptimizerSteps)}
	return at, c.Source.Restore(trinity.SourceState{Cursor: state.Cursor, Pending: state.Pending})
}

// addCriticAndTeachers gives the trainer its critic and its teachers.
func (c *Learner) addCriticAndTeachers(ctx context.Context, o *trainer.Options) (err error) {
	s := c.Stage
	if o.Critic, err = c.newCritic(o.TotalSteps); err != nil {
		return err
	}
	teachers, err := c.Models.OpenTeachers(ctx, s, c.Log.Say)
	if err != nil {
		return err
	}
	if s.Objective.Needs().Teacher || s.Objective.Loss.Needs().Teacher {
		o.Teachers = teachers
	}
	if s.Objective.Loss.Streams().Divergence.Kind == "" {
		return nil
	}
	student, ok := c.Models.Policy.(trainer.Distiller)
	if !ok {
		return fmt.Errorf("algorithm.policy_loss_fn: %s compares whole distributions, which engine %s cannot: choose another loss",
			s.Objective.Def.PolicyLoss, s.Engines.Train)
	}
	return student.SetTeachers(teachers)
}

// newCache returns the cache of a run that reads its data more than once, else nil.
func newCache(cfg *config.Settled) *trainer.ReferenceCache {
	if cfg.Batch.Rereads {
		return &trainer.ReferenceCache{Limit: place.ReferenceCache}
	}
	return nil
}
