// Package learn is what the trainer of a stage trains and keeps: policy, critic and teachers, and their checkpoints.
package learn

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/trainer"
)

// Learner is what the trainer of a stage trains and keeps. It implements trainer.Checkpointer.
type Learner struct {
	Stage       *settle.Stage
	Models      *settle.Models
	Source      trinity.Source // of batches
	Checkpoints checkpoint.Dir
	Made        checkpoint.Provenance
	Log         *record.Log

	best *best // nil if the stage keeps none
}

// Options opens the teachers and returns the options of a trainer of so many steps, without From, Weights and Evaluation.
func (c *Learner) Options(ctx context.Context, steps int64) (o trainer.Options, err error) {
	s, cfg := c.Stage, c.Stage.Settled
	c.Checkpoints.Forget = func(dir string) { c.forget(ctx, dir) }
	o = trainer.Options{
		Source: c.Source, Advantage: s.Objective.InTrainer(), Adaptive: s.Objective,
		Reference: s.Objective.NeedsReference, Cache: newCache(cfg),
		Admit: func(e *trinity.Experience) error { return feed.Admit(s.Settled, s.Objective, e) },
		Policy: trainer.Learner{
			Engine: c.Models.Policy, Loss: s.Objective.Loss, Epochs: cfg.Batch.Epochs,
			Schedule: schedule(&cfg.Algorithm.Optimizer, steps), Optimizer: optimParams(&cfg.Algorithm.Optimizer, cfg.Trainer.GradClip),
		},
		Checkpointer: c, Recorder: c.Log.Trainer(), Tracing: c.Log.Tracing(),
		TotalSteps: steps, BatchSize: cfg.Batch.Train * cfg.Batch.PerRow, ByRollout: cfg.Batch.CountsRollouts,
		MicroTokens: cfg.Batch.MicroTokens, SyncInterval: feed.PublishInterval(s.Settled), SaveInterval: int64(cfg.Trainer.SaveInterval),
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

// Save implements trainer.Checkpointer. If the step has a checkpoint already, Save adds the model
// to it.
func (c *Learner) Save(ctx context.Context, at trainer.Progress, last bool) error {
	dir := c.Checkpoints.Of(at.Step)
	model := filepath.Join(dir, c.Stage.ModelDir())
	withModel := c.Stage.Trainer.SaveHfCheckpoint == "always" || last && c.Stage.Trainer.SaveHfCheckpoint == "last"
	var err error
	if durable.Missing(dir) != "" {
		err = c.saveState(ctx, at, last, withModel)
	} else if withModel && !record.Present(model) {
		err = c.addModels(ctx, dir)
	}
	if err != nil {
		return err
	}
	c.Log.Checkpoint(at.Step, dir, model)
	return nil
}

// saveState writes a checkpoint from which a run resumes.
func (c *Learner) saveState(ctx context.Context, at trainer.Progress, last, withModel bool) error {
	src, err := c.Source.State()
	if err != nil {
		return err
	}
	coefficients, err := c.Stage.Objective.State()
	if err != nil {
		return err
	}
	state := checkpoint.State{
		Step: at.Step, Published: at.Published, Cursor: src.Cursor, Algorithm: coefficients, Made: c.Made, Pending: src.Pending,
	}
	if n := int64(c.Stage.Trainer.SaveInterval); c.best != nil && !last && (n == 0 || at.Step%n != 0) {
		state.ForEvaluation = c.best.keeps(at.Step)
	}
	if at.OptimizerSteps >= 0 {
		state.OptimizerSteps = &at.OptimizerSteps
	}
	return c.Checkpoints.Save(state, func(dir string) error {
		for _, p := range c.parts() {
			state := filepath.Join(dir, p.state)
			if err := os.MkdirAll(state, 0o755); err != nil {
				return err
			}
			if err := p.engine.SaveState(ctx, state); err != nil {
				return err
			}
		}
		for _, p := range slices.Backward(c.parts()) {
			if !withModel {
				break
			}
			if err := c.writeModel(ctx, p.engine, filepath.Join(dir, p.model)); err != nil {
				return err
			}
		}
		return nil
	})
}

// forgetter is an engine that keeps a part of its states outside of their directories, at a service, say. Forget frees that
// part of the state in a directory, which will be removed.
type forgetter interface {
	Forget(ctx context.Context, dir string) error
}

// forget frees what engines keep elsewhere of a checkpoint that will be removed.
func (c *Learner) forget(ctx context.Context, dir string) {
	for _, p := range c.parts() {
		f, ok := p.engine.(forgetter)
		if !ok {
			continue
		}
		if err := f.Forget(ctx, filepath.Join(dir, p.state)); err != nil {
			c.Log.Say(fmt.Sprintf("what lies elsewhere of %s stays: %v", dir, err))
		}
	}
}

// part is an engine of a checkpoint, with the directories of its state and of its model.
type part struct {
	engine       engine.Trainer
	state, model string
}

// parts lists the engines of a checkpoint: the policy, and the critic if there is one.
func (c *Learner) parts() []part {
	all := []part{{c.Models.Policy, checkpoint.EngineDir, c.Stage.ModelDir()}}
	if c.Models.Critic != nil {
		all = append(all, part{c.Models.Critic, checkpoint.CriticEngineDir, checkpoint.CriticModelDir})
	}
	return all
}

// addModels adds to a checkpoint the files that transformers loads. The policy comes last: if its
// files are there, so are the critic's.
func (c *Learner) addModels(ctx context.Context, dir string) error {
	release, err := checkpoint.Lock(ctx, dir)
	if err != nil {
		return err
	}
	defer release()
	if record.Present(filepath.Join(dir, c.Stage.ModelDir())) { // who looked at the checkpoint has written it
		return nil
	}
	for _, p := range slices.Backward(c.parts()) {
		write := func(temp string) error { return c.writeModel(ctx, p.engine, temp) }
		if err := durable.WriteDir(filepath.Join(dir, p.model), write); err != nil {
			return err
		}
	}
	return nil
}

// writeModel writes to dir the files that transformers or PEFT loads, including the tokenizer's.
func (c *Learner) writeModel(ctx context.Context, e engine.Trainer, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := e.SaveModel(ctx, dir); err != nil {
		return err
	}
	if err := c.Stage.Text.Tokenizer().WriteFiles(dir); err != nil {
		return err
	}
	return durable.Seal(dir)
}

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
