package run

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

// train trains on a dataset, or on the experiences of explorers in other processes.
func (s *stage) train(ctx, stop context.Context, opts Options) error {
	if !s.Objective.Def.Offline && !s.Recorded {
		return s.trainOnline(ctx, stop, opts)
	}
	source, steps, err := s.data.Offline(stop)
	if err != nil {
		return err
	}
	heldOut, err := s.data.HeldOut(stop)
	if err != nil {
		return err
	}
	tr, err := s.training(ctx, source, steps, false)
	if err != nil {
		return err
	}
	tr.Evaluation = trainer.Evaluation{HeldOut: heldOut, Interval: int64(s.Explorer.EvalInterval), OnStartup: s.Explorer.EvalOnStartup}
	return trainer.New(tr).Run(ctx, stop)
}

// training opens the engine, loads the newest checkpoint if there is one, and returns the options
// of the stage's trainer, without Weights and Evaluation. With sample it opens the sampler too.
func (s *stage) training(ctx context.Context, source trinity.Source, steps int64, sample bool) (o trainer.Options, err error) {
	if o, err = fromBeginning(ctx, s, source, steps, sample); err == nil {
		o.From, err = s.resume(ctx, source, steps)
	}
	return o, err
}

// fromBeginning is training without a checkpoint.
func fromBeginning(ctx context.Context, s *stage, source trinity.Source, steps int64, sample bool) (o trainer.Options, err error) {
	cfg := s.Settled
	if err := s.openModels(ctx, true, sample); err != nil {
		return o, err
	}
	o = trainer.Options{
		Source: source, Advantage: s.Objective.InTrainer(), Adaptive: s.Objective,
		Reference: s.Objective.NeedsReference, Cache: newCache(cfg),
		Policy: trainer.Learner{
			Engine: s.models.Policy, Loss: s.Objective.Loss, Epochs: cfg.Batch.Epochs,
			Schedule: schedule(&cfg.Algorithm.Optimizer, steps), Optimizer: optimParams(&cfg.Algorithm.Optimizer, cfg.Trainer.GradClip),
		},
		Checkpointer: checkpointer{s, source}, Recorder: s.log.Trainer(), Tracing: s.log.Tracing(),
		TotalSteps: steps, BatchSize: cfg.Batch.Train * cfg.Batch.PerRow, ByRollout: cfg.Batch.CountsRollouts,
		MicroTokens: cfg.Batch.MicroTokens, SyncInterval: s.PublishInterval(), SaveInterval: int64(cfg.Trainer.SaveInterval),
	}
	if !cfg.Batch.Whole {
		o.Policy.MiniBatch = cfg.Batch.Mini * cfg.Batch.PerRow
	}
	if cfg.Method.Recomputes {
		o.Corrector = correction(&cfg.Algorithm.RolloutCorrection)
	}
	return o, s.addCriticAndTeachers(ctx, &o)
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

// resume opens the monitors and loads the newest checkpoint, if there is one. It returns the
// progress of the checkpoint.
func (s *stage) resume(ctx context.Context, source trinity.Source, steps int64) (at trainer.Progress, err error) {
	state, ok, err := s.checkpoints.Latest()
	if err != nil {
		return at, err
	}
	dir := s.checkpoints.Of(state.Step)
	if err := s.log.Open(state.Step, steps, s.ModelPath); err != nil || !ok {
		return at, err
	}
	if at, err = loadState(ctx, s, dir, state, source); err != nil {
		return at, err
	}
	s.log.Checkpoint(state.Step, dir, filepath.Join(dir, s.ModelDir()))
	return at, nil
}

// loadState gives engine, critic, algorithm and source the state of the checkpoint in a directory, which
// it does not change.
func loadState(
	ctx context.Context, s *stage, dir string, state checkpoint.State, source trinity.Source,
) (at trainer.Progress, err error) {
	if err := s.models.Policy.LoadState(ctx, filepath.Join(dir, checkpoint.EngineDir)); err != nil {
		return at, fmt.Errorf("resuming from %s: %w", dir, err)
	}
	if err := s.loadCritic(ctx, dir); err != nil {
		return at, err
	}
	if err := s.Objective.Restore(state.Algorithm); err != nil {
		return at, err
	}
	at = trainer.Progress{Step: state.Step, Published: state.Published, OptimizerSteps: config.Value(-1, state.OptimizerSteps)}
	return at, source.Restore(trinity.SourceState{Cursor: state.Cursor, Pending: state.Pending})
}

// addCriticAndTeachers gives the trainer its critic and its teachers.
func (s *stage) addCriticAndTeachers(ctx context.Context, o *trainer.Options) (err error) {
	if o.Critic, err = s.newCritic(o.TotalSteps); err != nil {
		return err
	}
	teachers, err := s.models.OpenTeachers(ctx, s.Stage, s.say)
	if err != nil {
		return err
	}
	if s.Objective.Needs().Teacher || s.Objective.Loss.Needs().Teacher {
		o.Teachers = teachers
	}
	if s.Objective.Loss.Streams().Divergence.Kind == "" {
		return nil
	}
	student, ok := s.models.Policy.(trainer.Distiller)
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
