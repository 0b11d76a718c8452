package run

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm"
	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/explorer"
	"github.com/trinity-go/trinity/internal/simulation"
	"github.com/trinity-go/trinity/run/checkpoint"
	"github.com/trinity-go/trinity/trainer"
)

// experienceLog is the directory, in buffer.cache_dir, of what a queue holds.
const experienceLog = "experience_buffer"

// withStop is cancelled by either context, with its cause.
func withStop(ctx, stop context.Context) (context.Context, context.CancelFunc) {
	both, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(stop, func() { cancel(context.Cause(stop)) })
	return both, func() { unhook(); cancel(nil) }
}

// train trains from a dataset, or on what an explorer of another process writes.
func (s *stage) train(ctx, stop context.Context, opts Options) error {
	if !s.algorithm.Def.Offline && !s.Recorded {
		return s.trainOnline(ctx, stop, opts)
	}
	stop, cancel := withStop(ctx, stop)
	defer cancel()
	data, err := s.offline(stop)
	if err != nil {
		return err
	}
	source, err := s.batches(stop, data)
	if err != nil {
		return err
	}
	heldOut, err := s.heldOut(stop)
	if err != nil {
		return err
	}
	steps := int64(value(s.offlineSteps(data), s.Buffer.TotalSteps, s.Trainer.TotalSteps))
	tr, err := s.training(ctx, source, steps, false)
	if err != nil {
		return err
	}
	tr.Evaluation = trainer.Evaluation{HeldOut: heldOut, Interval: int64(s.Explorer.EvalInterval), OnStartup: s.Explorer.EvalOnStartup}
	return trainer.New(tr).Run(ctx, stop)
}

// training opens the engine, loads the newest checkpoint if there is one, and returns the options of the stage's trainer, without
// Publisher and Evaluation. sample opens the sampler too.
func (s *stage) training(ctx context.Context, source trinity.Source, steps int64, sample bool) (o trainer.Options, err error) {
	cfg := s.Settled
	if err := s.openEngine(ctx, true, sample); err != nil {
		return o, err
	}
	o = trainer.Options{
		Source: source, Advantage: s.algorithm.InTrainer(), Adaptive: s.algorithm, Reference: s.algorithm.NeedsReference, Cache: newCache(cfg),
		Policy: trainer.Learner{
			Engine: s.engine, Loss: s.algorithm.Loss, Epochs: cfg.Batch.Epochs,
			Schedule: schedule(&cfg.Algorithm.Optimizer, steps), Optimizer: optimParams(&cfg.Algorithm.Optimizer, cfg.Trainer.GradClip),
		},
		Checkpointer: checkpointer{s, source}, Recorder: trainerRecorder{s},
		TotalSteps: steps, BatchSize: cfg.Batch.Train * cfg.Batch.PerRow, ByRollout: cfg.Batch.CountsRollouts, MicroTokens: cfg.Batch.MicroTokens,
		SyncInterval: s.publishInterval(), SaveInterval: int64(cfg.Trainer.SaveInterval),
	}
	if !cfg.Batch.Whole {
		o.Policy.MiniBatch = cfg.Batch.Mini * cfg.Batch.PerRow
	}
	if cfg.Method.Recomputes {
		o.Corrector = correction(&cfg.Algorithm.RolloutCorrection)
	}
	if err := s.staff(ctx, &o); err != nil {
		return o, err
	}
	o.From, err = s.resume(ctx, source, steps)
	return o, err
}

func correction(c *config.RolloutCorrection) *algorithm.Correction {
	high := value(0, c.RolloutRsThreshold)
	return &algorithm.Correction{
		Weights: c.RolloutIs, Truncate: c.RolloutIsThreshold, Normalize: c.RolloutIsBatchNormalize,
		Reject: c.RolloutRs, High: high, Low: value(1/high, c.RolloutRsThresholdLower),
	}
}

// exploring returns the options of the stage's explorer, without buffer, weights and recorder.
func (s *stage) exploring(ctx context.Context) (*explorer.Options, error) {
	cfg := s.Settled
	if err := s.openRewardModels(ctx); err != nil {
		return nil, err
	}
	tasks, err := s.mix(ctx)
	if err != nil {
		return nil, err
	}
	evals, err := s.evalTasksets(ctx)
	if err != nil {
		return nil, err
	}
	inputs, err := s.inputs(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.pipeline(ctx)
	if err != nil {
		return nil, err
	}
	steps := tasks.Epoch() * cfg.Buffer.TotalEpochs / cfg.Buffer.BatchSize
	return &explorer.Options{
		Agenda: explorer.NewAgenda(tasks, inputs, cfg.Buffer.BatchSize), EvalTasksets: evals, Runner: s.runner(), Pipeline: p,
		TotalSteps: int64(value(max(1, steps), cfg.Buffer.TotalSteps)), UnderWay: cfg.Batch.UnderWay, Pace: s.pace(),
		EvalInterval: int64(cfg.Explorer.EvalInterval), EvalOnStartup: cfg.Explorer.EvalOnStartup,
	}, nil
}

// pace is how explorer and trainer keep step.
func (s *Settled) pace() explorer.Pace {
	staleness := cmp.Or(s.Method.Sample.Staleness, math.Inf(1))
	cfg := &s.Synchronizer
	return explorer.Pace{
		Style: cfg.SyncStyle, Interval: int64(value(cfg.SyncInterval, cfg.ExplorerSyncInterval)), Offset: int64(cfg.SyncOffset),
		MaxStaleness: staleness, PerStep: int64(s.Batch.StepRollouts), PerBatch: int64(s.Batch.Rollouts),
	}
}

// capacity returns how many rollouts the queue holds, in a run of steps with perStep rollouts at most; the key counts groups.
// In style fixed the trainer waits for the explorer, so the queue has room for all that can pile up meanwhile: else the
// explorer would wait for the trainer too.
func (s *Settled) capacity(pace explorer.Pace, steps int64, perStep int) int {
	if s.Synchronizer.SyncStyle != "fixed" {
		return s.groups()
	}
	ahead := int(max(pace.Interval, s.publishInterval()) + pace.Offset)
	left := perStep // by a train step, at most: of so many experiences there may be few rollouts
	if s.Batch.CountsRollouts {
		left = max(0, perStep-s.Batch.Rollouts)
	}
	return max(s.groups(), ahead*perStep+left*int(steps))
}

// Setting returns how one explorer and the trainer of the stage work together, for a simulation of
// so many explore steps.
func (s *Settled) Setting(steps int64) simulation.Setting {
	pace, group, strategy := s.pace(), max(1, s.Method.GroupSize), s.Method.Strategy
	if len(s.Data.Auxiliary) > 0 {
		strategy = nil // a strategy that mixes reads the rollouts in order
	}
	return simulation.Setting{
		Pace: pace, Handover: handovers[pace.Style], PublishInterval: s.publishInterval(), Strategy: strategy,
		Batch: s.Batch.Rollouts * s.Batch.PerRow, InFlight: s.Explorer.RunnerPerModel * s.Explorer.RolloutModel.EngineNum * group,
		Explorers: 1, UnderWay: s.Batch.UnderWay, Steps: steps, Capacity: s.capacity(pace, steps, s.Buffer.BatchSize*group),
	}
}

// groups is what the key allows, in rollouts: a batch at least.
func (s *Settled) groups() int {
	return max(s.Buffer.TrainerInput.ExperienceBuffer.Capacity*max(1, s.Method.GroupSize), s.Batch.Rollouts)
}

// publishInterval is the number of train steps between versions.
func (cfg *Settled) publishInterval() int64 {
	return int64(value(cfg.Synchronizer.SyncInterval, cfg.Synchronizer.TrainerSyncInterval))
}

func optimParams(o *config.Optimizer, norm float64) trinity.OptimParams {
	return trinity.OptimParams{Beta1: o.Betas[0], Beta2: o.Betas[1], Eps: o.Eps, WeightDecay: o.WeightDecay, ClipNorm: norm}
}

// schedule is the learning rate over the steps of a run, of which there are total.
func schedule(o *config.Optimizer, total int64) trainer.Schedule {
	warmup := int64(o.LRWarmupSteps)
	if warmup < 0 {
		warmup = int64(o.LRWarmupStepsRatio * float64(total))
	}
	return trainer.Schedule{LR: o.LR, MinRatio: o.MinLRRatio, WarmupSteps: warmup, DecayRatio: o.LRDecayStepsRatio, TotalSteps: total, Type: o.LRSchedulerType}
}

// resume loads the newest checkpoint, if there is one, opens the monitors at its step, and returns it.
func (s *stage) resume(ctx context.Context, source trinity.Source, steps int64) (at trainer.Progress, err error) {
	state, ok, err := s.checkpoints.Latest()
	if err != nil {
		return at, err
	}
	dir := s.checkpoints.Of(state.Step)
	if err := s.record(state.Step, steps); err != nil || !ok {
		return at, err
	}
	if err := s.engine.LoadState(ctx, filepath.Join(dir, checkpoint.EngineDir)); err != nil {
		return at, fmt.Errorf("resuming from %s: %w", dir, err)
	}
	if err := s.loadCritic(ctx, dir); err != nil {
		return at, err
	}
	if err := s.algorithm.Restore(state.Algorithm); err != nil {
		return at, err
	}
	s.log.checkpoint(state.Step, dir, filepath.Join(dir, s.modelDir()))
	at = trainer.Progress{Step: state.Step, Published: state.Published}
	return at, source.Restore(trinity.SourceState{Cursor: state.Cursor, Pending: state.Pending})
}
